#include "kv_offload/bench/io.hpp"

#include "kv_offload/bench/command_line.hpp"
#include "kv_offload/bench/io_fio.hpp"
#include "kv_offload/bench/io_measure.hpp"
#include "kv_offload/bench/progress.hpp"
#include "kv_offload/bench/work_dir.hpp"
#include "kv_offload/tests/bench/child_process.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace kv_offload;
using namespace kv_offload::bench;
using nlohmann::json;

namespace {

/// Small enough for a test, large enough that every chunk waits for another one.
struct Fixture {
  Fixture() {
    options.shape.chunk_bytes = 16 << 10;
    options.shape.set_bytes = 2 << 20;
    options.shape.depth = 8;
    options.pairs = 2;
    options.seconds = 0.2;
    options.output.json_file = (dir.path() / "out.json").string();
  }
  json run(int expected = kHeld) {
    std::ostringstream out;
    const int status = run_io(options, out, err);
    INFO(err.str());
    REQUIRE(status == expected);
    text = out.str();
    if (status == kUsageError) return {};
    std::ifstream file(*options.output.json_file);
    return json::parse(file);
  }
  static const json& series(const json& document, std::size_t block, const std::string& name) {
    for (const auto& entry : document["blocks"][block]["series"])
      if (entry["name"] == name) return entry;
    FAIL("no series " << name);
    return document;
  }

  WorkDir dir = WorkDir::open(std::nullopt).value();
  IoOptions options;
  std::string text;
  std::ostringstream err;
};

int command(std::vector<std::string> words, std::string& err_text) {
  std::vector<const char*> argv{"kv-offload-bench", "io"};
  for (const auto& word : words) argv.push_back(word.c_str());
  std::ostringstream out, err;
  const int status = run_command_line(static_cast<int>(argv.size()), argv.data(), out, err);
  err_text = err.str();
  return status;
}

}  // namespace

TEST_CASE_METHOD(Fixture, "a tier is measured beside an engine and the floor, pair by pair",
                 "[engine]") {
  options.shape.tier = GENERATE("fs", "extent");
  options.engine = options.against_floor = true;
  const json document = run();
  REQUIRE(document["blocks"].size() == 2);
  for (std::size_t block = 0; block < 2; ++block) {
    for (const char* name : {"tier", "engine", "floor"}) {
      const json& entry = series(document, block, name);
      CHECK(entry["values"].size() == 2);
      CHECK(*std::min_element(entry["values"].begin(), entry["values"].end()) > 0.0);
      CHECK(entry["cpu_us_per_chunk"] > 0.0);
    }
    // A ratio belongs to the two values of its own round.
    const json& tier = series(document, block, "tier");
    const json& floor = series(document, block, "floor");
    CHECK_FALSE(tier.contains("ratio"));
    for (std::size_t round = 0; round < 2; ++round)
      CHECK(floor["ratio"]["values"][round].get<double>() ==
            Approx(tier["values"][round].get<double>() / floor["values"][round].get<double>()));
  }
}

TEST_CASE_METHOD(Fixture, "loads are timed with and without stores beside them", "[engine]") {
  options.what = IoWhat::latency;
  options.shape.tier = GENERATE("fs", "extent");
  const json document = run();
  CHECK(series(document, 0, "p99 idle")["median"] > 0.0);
  CHECK(series(document, 0, "p99 idle")["ratio"]["values"].size() == 2);
  CHECK(series(document, 0, "stores, MiB/s")["median"] > 0.0);
}

TEST_CASE_METHOD(Fixture, "passes over memory are compared with the pass that must be made anyway",
                 "[engine]") {
  options.what = IoWhat::memory;
  options.shape.chunk_bytes = 2 << 20;
  const json document = run();
  for (const char* name : {"read", "digest", "copy", "copy and digest"})
    CHECK(series(document, 0, name)["median"] > 0.0);
  CHECK(series(document, 0, "read").contains("ratio"));
  CHECK(series(document, 0, "copy").contains("ratio"));
}

TEST_CASE_METHOD(Fixture, "results are appended as Markdown", "[engine]") {
  options.markdown_file = (dir.path() / "out.md").string();
  run();
  std::ifstream file(*options.markdown_file);
  std::string first;
  std::getline(file, first);
  CHECK(first.find("| store, fs, 16.0 KiB chunks, depth 8 | MiB/s |") == 0);
}

TEST_CASE_METHOD(Fixture, "what cannot be measured is named with its value and what is allowed") {
  const auto line = [&] {
    err.str({});
    run(kUsageError);
    return err.str();
  };
  for (const std::uint64_t bytes : {0U, 1U, 5000U}) {
    options.shape.chunk_bytes = bytes;
    CHECK(line() == "kv-offload-bench: --chunk-bytes: " + std::to_string(bytes) +
                        " B is not allowed; expected a multiple of 4 KiB in [4 KiB, 4 GiB]\n");
  }
  options.shape.chunk_bytes = 1 << 20;
  const std::string range =
      " is not allowed; expected a whole number of bytes, KiB, MiB, GiB or TiB in [8 MiB, 4 GiB]: "
      "at "
      "least 8 chunks (--depth) of 1 MiB (--chunk-bytes)\n";
  CHECK(line() == "kv-offload-bench: --set-bytes: 2 MiB" + range);
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}}) {
    options.shape.set_bytes = bytes;
    CHECK(line() == "kv-offload-bench: --set-bytes: " + std::to_string(bytes) + " B" + range);
  }
  options.shape.set_bytes = std::uint64_t{5} << 30;
  CHECK(line() == "kv-offload-bench: --set-bytes: 5 GiB" + range);
  options.shape.chunk_bytes = std::uint64_t{1} << 30;
  CHECK(line().find("--depth: 8 is not allowed; expected at most 4 with chunks of 1 GiB") !=
        std::string::npos);
  options.what = IoWhat::memory;
  CHECK(line().find("--chunk-bytes: 1 GiB is not allowed; expected a multiple of 4 KiB in [4 KiB, "
                    "512 MiB]") != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "a file that cannot be written is named with the option that named it") {
  options.markdown_file = (dir.path() / "none" / "x.md").string();
  run(kUsageError);
  CHECK(err.str() == "kv-offload-bench: --markdown: " + *options.markdown_file +
                         ": No such file or directory\n");
  err.str({});
  options.markdown_file.reset();
  options.output.json_file = (dir.path() / "none" / "x.json").string();
  run(kUsageError);
  CHECK(err.str().find("kv-offload-bench: --json: ") == 0);
}

TEST_CASE("io refuses what its command line does not allow, in one line that names the option") {
  const std::vector<std::vector<std::string>> wrong = {
      {"--tier", "tape"},
      {"--bucket", "b"},
      {"--store", "http://127.0.0.1:1"},
      {"--store", "http://127.0.0.1:1", "--bucket", "bbb"},
      {"--what", "disk"},
      {"--depth", "0"},
      {"--pairs", "0"},
      {"--load-share", "2"},
      {"--set-bytes", "none"},
      {"--set-bytes", "0"},
      {"--set-bytes", "1"},
      {"--set-bytes", "5GiB"},
      {"--chunk-bytes", "0"},
      {"--chunk-bytes", "1"},
      {"--chunk-bytes", "5000"},
      {"--set-bytes", "4MiB"},
      {"--io", "foo"},
      {"--markdown", "/nonexistent/x.md"},
      {"--json", "/nonexistent/x.json"}};
  for (const auto& words : wrong) {
    std::string err;
    CAPTURE(words);
    CHECK(command(words, err) == kUsageError);
    CHECK(std::count(err.begin(), err.end(), '\n') == 1);
    CHECK(err.find(words[0]) != std::string::npos);
  }
}

TEST_CASE_METHOD(Fixture,
                 "an obj tier is measured on a store in memory, beside a straight libcurl program",
                 "[bench][engine]") {
  options.shape.tier = "obj";
  options.against_floor = true;
  options.shape.checksum = GENERATE(true, false);
  const json document = run();
  for (std::size_t block = 0; block < 2; ++block) {
    for (const char* who : {"tier", "floor: libcurl"}) {
      const json& figures = series(document, block, who);
      CHECK(figures["values"].size() == 2);
      CHECK(figures["median"].get<double>() > 0);
      CHECK(figures["cpu_us_per_chunk"].get<double>() > 0);
    }
    CHECK(series(document, block, "floor: libcurl")["ratio"]["median"].get<double>() > 0);
  }
}

TEST_CASE_METHOD(Fixture,
                 "an obj tier is measured where it can be, and refused in one line where not") {
  options.shape.tier = "obj";
  SECTION("latencies") { options.what = IoWhat::latency; }
  SECTION("beside fio") { options.against_fio = true; }
  SECTION("a store that is not there") {
    options.shape.store =
        IoStore{"http://127.0.0.1:1", "bucket", "us-east-1", {}, {"key", "secret", {}, {}, {}}};
    std::ostringstream out;
    CHECK(run_io(options, out, err) == kCheckFailed);
    CHECK(err.str().find("not reachable") != std::string::npos);
    CHECK(err.str().find("secret") == std::string::npos);
    return;
  }
  run(kUsageError);
  const std::string line = err.str();
  CHECK(std::count(line.begin(), line.end(), '\n') == 1);
}

TEST_CASE("io refuses an option that its measurement does not look at") {
  const std::vector<std::vector<std::string>> wrong = {{"--against-fio", "--what", "memory"},
                                                       {"--io", "threads", "--what", "memory"},
                                                       {"--against-floor", "--what", "memory"},
                                                       {"--tier", "fs", "--what", "memory"},
                                                       {"--set-bytes", "1GiB", "--what", "memory"},
                                                       {"--seconds", "1"},
                                                       {"--load-share", "0.5"},
                                                       {"--seconds", "1", "--what", "transfer"},
                                                       {"--against-fio", "--what", "latency"},
                                                       {"--engine", "--what", "latency"}};
  for (const auto& words : wrong) {
    std::string err;
    CAPTURE(words);
    CHECK(command(words, err) == kUsageError);
    CHECK(std::count(err.begin(), err.end(), '\n') == 1);
    CHECK(err.find("kv-offload-bench: " + words[0] +
                   ": has no effect here; it goes with --what ") == 0);
  }
}

TEST_CASE("an interrupt while fio runs is an interrupt, and no missing fio") {
  const bool at_its_version = GENERATE(true, false);
  const auto dir = WorkDir::open(std::nullopt).value();
  {
    std::ofstream fio(dir.path() / "fio");
    fio << "#!/bin/sh\n"
        << (at_its_version ? "" : "[ \"$1\" = --version ] && exit 0\n")
        << "kill -INT $PPID\nexec sleep 60\n";
  }
  std::filesystem::permissions(dir.path() / "fio", std::filesystem::perms::owner_all);
  const auto [status, text] = in_a_process([&] {
    ::setenv("PATH", (dir.path().string() + ":" + ::getenv("PATH")).c_str(), 1);
    watch_interrupts();
    IoOptions options;
    options.against_fio = true;
    if (at_its_version) ::_exit(run_io(options, std::cout, std::cerr));
    if (!why_no_fio(options.shape, false).empty()) ::_exit(97);
    const auto figure = io_fio(options.shape, dir, false)->store();
    ::_exit(!figure && to_string(figure.error()) == "interrupted" ? kCheckFailed : 98);
  });
  CAPTURE(at_its_version, text);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == kCheckFailed);
  CHECK(text == (at_its_version ? "kv-offload-bench: interrupted\n" : ""));
}

TEST_CASE("keys of a measurement differ and lie in 256 directories") {
  std::set<std::string> directories;
  std::set<std::string> names;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const std::string name = to_hex(io_key(i).content_hash());
    names.insert(name);
    directories.insert(name.substr(0, 5));
  }
  CHECK(names.size() == 5000);
  CHECK(directories.size() == kIoDirectories);
}

TEST_CASE("the order of loads names every chunk once and is no order of storing") {
  auto order = io_order(1000);
  CHECK_FALSE(std::is_sorted(order.begin(), order.end()));
  CHECK(order == io_order(1000));
  std::sort(order.begin(), order.end());
  for (std::uint32_t i = 0; i < order.size(); ++i) REQUIRE(order[i] == i);
}
