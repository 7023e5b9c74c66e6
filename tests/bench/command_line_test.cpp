#include "kv_offload/bench/command_line.hpp"

#include <catch2/catch.hpp>

#include <sstream>
#include <string>
#include <vector>

using namespace kv_offload::bench;

namespace {

struct Run {
  int status = -1;
  std::string out, err;
};

Run run(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "kv-offload-bench");
  std::ostringstream out, err;
  Run run;
  run.status = run_command_line(static_cast<int>(arguments.size()), arguments.data(), out, err);
  run.out = out.str();
  run.err = err.str();
  return run;
}

}  // namespace

TEST_CASE("a wrong command line is one line that names the option, and status 2", "[bench][unit]") {
  const std::vector<std::pair<std::vector<const char*>, std::string>> cases{
      {{}, "subcommand"},
      {{"flush"}, "flush: no such subcommand"},
      {{"replay"}, "--trace"},
      {{"replay", "--trace", "a", "--synthetic", "multi-turn"}, "--trace"},
      {{"replay", "--synthetic", "nothing"}, "--synthetic"},
      {{"replay", "--synthetic", "multi-turn", "--primary-chunks", "-1"}, "--primary-chunks"},
      {{"replay", "--synthetic", "multi-turn", "--primary-chunks", "0"}, "--primary-chunks"},
      {{"replay", "--synthetic", "multi-turn", "--chunk-bytes", "-4"}, "--chunk-bytes"},
      {{"replay", "--synthetic", "multi-turn", "--chunk-bytes", "16KB"}, "--chunk-bytes"},
      {{"replay", "--synthetic", "multi-turn", "--chunk-bytes", "9999999GiB"}, "--chunk-bytes"},
      {{"replay", "--synthetic", "multi-turn", "--requests", "0"}, "--requests"},
      {{"replay", "--synthetic", "multi-turn", "--order", "up"}, "--order"},
      {{"replay", "--synthetic", "multi-turn", "--verify", "some"}, "--verify"},
      {{"replay", "--synthetic", "multi-turn", "--metrics-port", "70000"}, "--metrics-port"},
      {{"stress", "--threads", "0"}, "--threads"},
      {{"replay", "--synthetic", "no-reuse", "--callers", "0"}, "--callers"},
      {{"replay", "--synthetic", "no-reuse", "--callers", "2", "--engines", "2"},
       "--engines excludes --callers"},
      {{"stress", "--threads-per-domain", "0"}, "--threads-per-domain"},
      {{"stress", "--threads-per-domain", "2", "--threads", "4"},
       "--threads excludes --threads-per-domain"},
      {{"stress", "--seconds", "-1"}, "--seconds"},
      {{"stress", "--break", "9"}, "--break"},
      {{"stress", "--seed", "x"}, "--seed"},
      {{"stress", "--seed", "-1"}, "--seed"},
      {{"simulate", "--random", "1", "--seed", "18446744073709551617"},
       "--seed: \"18446744073709551617\" is not allowed"},
      {{"simulate", "--random", "1", "--seed", "9007199254740993"}, "--seed"},
      {{"lookup", "--seed", "0x10"}, "--seed"},
      {{"workers", "--seed", "1e3"}, "--seed"},
      {{"stress", "--seconds", "nan"}, "--seconds"},
      {{"stress", "--rate", "nan"}, "--rate"},
      {{"stress", "--rate", "0"}, "--rate: Value 0 not in range"},
      {{"stress", "--rate", "-5"}, "--rate"},
      {{"stress", "--rate", "1000001"}, "--rate"},
      {{"stress", "--rate", "10", "--arrivals", "bursts"}, "--arrivals"},
      {{"stress", "--arrivals", "even"}, "--arrivals: has no effect without --rate"},
      {{"simulate"}, "--random"},
      {{"simulate", "--random", "0"}, "--random"},
      {{"simulate", "--random", "2", "--synthetic", "multi-turn"}, "--random: excludes"},
      {{"simulate", "--random", "2", "--policies", "off"}, "--random: excludes"},
      {{"simulate", "--random", "2", "--grid", "3"}, "--random: excludes"},
      {{"check-config"}, "a file or --config is required"},
      {{"check-config", "--config", ""}, "a file or --config is required"},
  };
  for (const auto& [arguments, part] : cases) {
    std::string line;
    for (const auto* argument : arguments) line += std::string(" ") + argument;
    const auto result = run(arguments);
    CAPTURE(line, result.err);
    CHECK(result.status == 2);
    CHECK(result.err.find(part) != std::string::npos);
    CHECK(result.err.find('\n') == result.err.size() - 1);
    CHECK(result.out.empty());
  }
}

TEST_CASE("help and version are answered on standard output", "[bench][unit]") {
  const auto help = run({"replay", "--help"});
  CHECK(help.status == 0);
  CHECK(help.out.find("--trace") != std::string::npos);
  const auto check = run({"check-config", "--help"});
  CHECK(check.status == 0);
  CHECK(check.out.find("one of the two forms") != std::string::npos);
  CHECK(check.out.find("REQUIRED") == std::string::npos);
  const auto version = run({"--version"});
  CHECK(version.status == 0);
  CHECK(version.out.find('.') != std::string::npos);
  CHECK(version.err.empty());
}
