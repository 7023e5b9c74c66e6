#include "kv_offload/bench/copy.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

using namespace kv_offload;
using namespace kv_offload::bench;

namespace {

CopyBenchOptions small() {
  CopyBenchOptions options;
  options.chunk_bytes = 64 << 10;
  options.fragment_bytes = 4 << 10;
  options.chunks = 20;
  options.seconds = 0.001;
  options.rounds = 2;
  return options;
}

struct Outcome {
  int status = -1;
  std::string out, err;
};
Outcome run(const CopyBenchOptions& options) {
  std::ostringstream out, err;
  const int status = run_copy(options, out, err);
  return {status, out.str(), err.str()};
}

}  // namespace

TEST_CASE("copy measures both shapes, both directions, with and without digest, and compares bytes",
          "[copy]") {
  std::string name = (std::filesystem::temp_directory_path() / "kv_offload_XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  CopyBenchOptions options = small();
  options.threads = 2;
  options.output.json_file = name + "/copy.json";
  const Outcome outcome = run(options);
  INFO(outcome.err);
  REQUIRE(outcome.status == kHeld);
  CHECK(outcome.err.empty());
  for (const char* part :
       {"64.0 KiB chunks, store", "64.0 KiB chunks, load, digest",
        "4.0 KiB scattered, store, digest", "4.0 KiB scattered, load", "memcpy", " 0 wrong"}) {
    CAPTURE(part);
    CHECK(outcome.out.find(part) != std::string::npos);
  }
  const auto json = nlohmann::json::parse(std::ifstream(*options.output.json_file));
  std::filesystem::remove_all(name);
  REQUIRE(json.at("points").size() == 8);
  for (const auto& point : json.at("points")) {
    CHECK(point.at("ours_gib_s").get<double>() > 0);
    CHECK(point.at("plain_gib_s").get<double>() > 0);
    CHECK(point.at("ratio").at("values").size() == 2);
  }
  CHECK(json.contains("version"));
  CHECK(json.contains("machine"));
  CHECK(json.contains("wall_seconds"));
  CHECK(json.at("promises").at(0).at("held") == true);
}

TEST_CASE("copy is silent when asked to be, and needs no scattered shape", "[copy]") {
  CopyBenchOptions options = small();
  options.fragment_bytes = options.chunk_bytes;
  options.output.quiet = true;
  const Outcome outcome = run(options);
  CHECK(outcome.status == kHeld);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.empty());
}

TEST_CASE("copy refuses what it cannot measure in one line", "[copy]") {
  const auto refused = [](const CopyBenchOptions& options, const std::string& part) {
    const Outcome outcome = run(options);
    CHECK(outcome.status == kUsageError);
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    CAPTURE(outcome.err, part);
    CHECK(outcome.err.find(part) != std::string::npos);
  };
  CopyBenchOptions options = small();
  options.fragment_bytes = 3 << 10;
  refused(options,
          "--fragment-bytes: 3 KiB is not allowed; expected a divisor of --chunk-bytes, which is "
          "64 KiB");
  options = small();
  options.fragment_bytes = 128 << 10;
  refused(options, "--fragment-bytes: 128 KiB is not allowed");
  options = small();
  options.chunks = 1U << 24;
  refused(options, "--chunks: 16777216 is not allowed");
  options = small();
  options.output.json_file = "/no/such/place/copy.json";
  refused(options, "/no/such/place");
}
