#include "kv_offload/bench/replay.hpp"

#include "kv_offload/bench/work_dir.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

using namespace kv_offload::bench;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

struct Run {
  int status = -1;
  std::string out, err;
  json document;
};

/// One directory for the files of a test, and replays in it.
struct Fixture {
  Fixture() {
    options.engine.dir = (dir.path() / "tiers").string();
    options.engine.tiers = {"fs"};
    options.engine.chunk_bytes = 4096;
    options.engine.primary_chunks = 256;
    options.synthetic = "multi-turn";
    options.requests_max = 60;
    options.output.json_file = (dir.path() / "out.json").string();
  }
  Run replay() const {
    Run run;
    std::ostringstream out, err;
    run.status = run_replay(options, out, err);
    run.out = out.str();
    run.err = err.str();
    INFO(run.out << run.err);
    if (run.status != kUsageError) {
      std::ifstream file(*options.output.json_file);
      run.document = json::parse(file);
    }
    return run;
  }
  std::vector<fs::path> chunk_files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(dir.path() / "tiers"))
      if (entry.is_regular_file() && entry.path().extension() != ".json" &&
          entry.file_size() == 4096)
        files.push_back(entry.path());
    return files;
  }

  WorkDir dir = WorkDir::open(std::nullopt).value();
  ReplayOptions options;
};

}  // namespace

TEST_CASE_METHOD(Fixture, "a replay writes every stable key and all its promises hold",
                 "[bench][engine]") {
  const auto run = replay();
  INFO(run.out << run.err);
  REQUIRE(run.status == kHeld);
  for (const auto* key :
       {"version", "machine", "wall_seconds", "promises", "requests", "chunk_references",
        "hit_chunks", "hit_share", "mismatches", "peak_rss_bytes", "actors", "tiers"}) {
    CAPTURE(key);
    CHECK(run.document.contains(key));
  }
  CHECK(run.document["machine"]["cores"] > 0);
  CHECK_FALSE(run.document["machine"]["kernel"].get<std::string>().empty());
  for (const auto* label : {"0:primary", "1:fs"})
    for (const auto* key :
         {"hit_chunks", "read_bytes", "written_bytes", "refused", "dropped", "failed"}) {
      CAPTURE(label, key);
      REQUIRE(run.document["tiers"].contains(label));
      CHECK(run.document["tiers"][label].contains(key));
    }
  for (const auto* actor :
       {"scheduler_step", "primary_tier", "admission_controller", "job_tracker"})
    CHECK(run.document["actors"][actor]["messages"] > 0);
  CHECK(run.document["promises"].size() >= 6);
  for (const auto& promise : run.document["promises"]) CHECK(promise["held"] == true);
  CHECK(run.out.find("0 mismatches") != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "a replay finds in the tier what the primary tier had no room for",
                 "[bench][engine]") {
  options.engine.primary_chunks = 192;
  const auto run = replay();
  INFO(run.out << run.err);
  REQUIRE(run.status == kHeld);
  const auto& d = run.document;
  CHECK(d["requests"] == 60);
  CHECK(d["mismatches"] == 0);
  CHECK(d["tiers"]["1:fs"]["hit_chunks"] > 0);
  CHECK(d["tiers"]["1:fs"]["read_bytes"] > 0);
  CHECK(d["tiers"]["1:fs"]["written_bytes"] > 0);
  for (const auto* key : {"refused", "dropped", "failed"}) {
    CAPTURE(key);
    CHECK(d["tiers"]["1:fs"][key] == 0);
  }
  CHECK(d["hit_chunks"] == d["tiers"]["0:primary"]["hit_chunks"].get<int>() +
                               d["tiers"]["1:fs"]["hit_chunks"].get<int>());
  CHECK(d["verified_chunks"] == d["loaded_chunks"]);
}

TEST_CASE_METHOD(Fixture, "engines that share a directory find together what one alone finds",
                 "[bench][engine]") {
  const Run one = replay();
  REQUIRE(one.status == kHeld);
  options.engine.dir = (dir.path() / "shared").string();
  options.engines = 3;
  const Run three = replay();
  INFO(three.err);
  REQUIRE(three.status == kHeld);
  const json& document = three.document;
  CHECK(document["hit_chunks"] == one.document["hit_chunks"]);
  CHECK(document["chunk_references"] == one.document["chunk_references"]);
  CHECK(document["mismatches"] == 0);
  REQUIRE(document["engines"].size() == 3);
  for (const json& engine : document["engines"]) {
    CHECK(engine["requests"] == 20);
    CHECK(engine["tiers"]["1:fs"]["hit_chunks"].get<int>() > 0);
  }
  for (const json& promise : document["promises"]) CHECK(promise["held"].get<bool>());
}

TEST_CASE_METHOD(Fixture, "several callers of one engine play every request once",
                 "[bench][engine]") {
  options.callers = 4;
  SECTION("without secondary tiers") {
    options.engine.tiers.clear();
    const Run run = replay();
    INFO(run.out << run.err);
    REQUIRE(run.status == kHeld);
    CHECK(run.document["requests"] == 60);
    CHECK(run.document["chunk_references"].get<int>() > 0);
    CHECK(run.document["hit_chunks"].get<int>() > 0);
    CHECK(run.document["verified_chunks"] == run.document["loaded_chunks"]);
    CHECK(run.document["mismatches"] == 0);
  }
  SECTION("with one they would exceed its pin share together") {
    const Run run = replay();
    CHECK(run.status == kUsageError);
    CHECK(run.err.find("--callers: 4 is not allowed with secondary tiers") != std::string::npos);
  }
}

TEST_CASE_METHOD(Fixture, "a second replay finds the first one's chunks on disk",
                 "[bench][engine]") {
  REQUIRE(replay().status == kHeld);
  const auto again = replay();
  INFO(again.out << again.err);
  REQUIRE(again.status == kHeld);
  CHECK(again.document["hit_share"] == 1.0);
  CHECK(again.document["tiers"]["1:fs"]["written_bytes"] == 0);
}

TEST_CASE_METHOD(Fixture, "a flipped byte on disk fails exactly that chunk and is never served",
                 "[bench][engine]") {
  REQUIRE(replay().status == kHeld);
  const auto files = chunk_files();
  REQUIRE_FALSE(files.empty());
  {
    std::fstream file(files.front(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(1234);
    const char was = static_cast<char>(file.get());
    file.seekp(1234);
    file.put(static_cast<char>(was ^ 1));
  }
  const auto again = replay();
  INFO(again.out << again.err);
  CHECK(again.status == kHeld);
  CHECK(again.document["mismatches"] == 0);
  CHECK(again.document["tiers"]["1:fs"]["corrupt"] == 1);
  CHECK(again.document["tiers"]["1:fs"]["failed"] == 1);
  CHECK(again.document["tiers"]["1:fs"]["reasons"]["load_failed"]["corrupt"] == 1);
}

TEST_CASE_METHOD(Fixture, "a replay without secondary tiers refuses, drops and fails nothing",
                 "[bench][engine]") {
  options.engine.tiers.clear();
  options.engine.primary_chunks = 4096;
  const auto run = replay();
  INFO(run.out << run.err);
  REQUIRE(run.status == kHeld);
  CHECK(run.document["tiers"].size() == 1);
  CHECK(run.document["hit_chunks"] == run.document["tiers"]["0:primary"]["hit_chunks"]);
  CHECK(run.document["hit_chunks"] > 0);
}

TEST_CASE_METHOD(Fixture, "the other eviction policies and verification modes replay as well",
                 "[bench][engine]") {
  options.engine.eviction = GENERATE("arc", "s3fifo");
  options.mode.verify = GENERATE(Verify::sample, Verify::none);
  const auto run = replay();
  INFO(run.out << run.err);
  CHECK(run.status == kHeld);
  CHECK(run.document["mismatches"] == 0);
}

TEST_CASE_METHOD(Fixture, "a control-only replay compares nothing", "[bench][engine]") {
  options.mode.move_bytes = false;
  const auto run = replay();
  INFO(run.out << run.err);
  REQUIRE(run.status == kHeld);
  CHECK(run.document["verified_chunks"] == 0);
  CHECK(run.document["hit_chunks"] > 0);
}

TEST_CASE_METHOD(Fixture, "a quiet replay prints nothing", "[bench][engine]") {
  options.output.quiet = true;
  const auto run = replay();
  CHECK(run.status == kHeld);
  CHECK(run.out.empty());
  CHECK(run.err.empty());
}

namespace {

/// One line on the error stream that says `part`, and status 2.
void check_refused(const Run& run, const std::string& part) {
  CAPTURE(run.err, part);
  CHECK(run.status == kUsageError);
  CHECK(run.err.find(part) != std::string::npos);
  CHECK(run.err.find('\n') == run.err.size() - 1);
  CHECK(run.out.empty());
}

}  // namespace

TEST_CASE_METHOD(Fixture, "what a replay cannot start with is one line and status 2",
                 "[bench][engine]") {
  SECTION("a trace that is not there") {
    options.synthetic.reset();
    options.trace_file = "no/such.jsonl";
    check_refused(replay(), "no/such.jsonl: No such file or directory");
  }
  SECTION("a malformed trace line") {
    const auto file = (dir.path() / "bad.jsonl").string();
    std::ofstream(file) << "{\"timestamp\": 0}\n";
    options.synthetic.reset();
    options.trace_file = file;
    check_refused(replay(), file + ":1: expected the member input_length");
  }
  SECTION("an unknown eviction policy") {
    options.engine.eviction = "mru";
    check_refused(replay(), "mru");
  }
  SECTION("an unknown tier type") {
    options.engine.tiers = {"tape"};
    check_refused(replay(), "tape");
  }
  SECTION("a directory whose parent is missing") {
    options.engine.dir = (dir.path() / "no" / "parent").string();
    check_refused(replay(), "--dir: ");
  }
  SECTION("a JSON file that cannot be written") {
    options.output.json_file = (dir.path() / "no" / "out.json").string();
    check_refused(replay(), "--json: ");
  }
  SECTION("an unknown configuration key") {
    const auto file = (dir.path() / "config.json").string();
    std::ofstream(file) << R"({"chunk_bytes": 4096, "cpu_bytes_to_use": 4194304, "colour": 1})";
    options.engine.config_file = file;
    check_refused(replay(), "colour");
  }
  SECTION("a primary tier beyond all memory") {
    options.engine.primary_chunks = std::uint64_t{1} << 31;
    options.engine.chunk_bytes = 1 << 20;
    const auto run = replay();
    CHECK(run.status == kUsageError);
    CHECK(run.err.find('\n') == run.err.size() - 1);
  }
}

TEST_CASE_METHOD(Fixture, "a metrics port in use is one line and status 2", "[bench][engine]") {
  kv_offload::EngineConfig config;
  config.chunk_bytes = 4096;
  config.cpu_bytes_to_use = 64 * 4096;
  config.metrics.port = 0;
  const auto holder = kv_offload::OffloadEngine::start(config);
  REQUIRE(holder);
  options.engine.metrics_port = (*holder)->metrics_port();
  REQUIRE(*options.engine.metrics_port != 0);
  check_refused(replay(), std::to_string(*options.engine.metrics_port));
}

TEST_CASE_METHOD(Fixture, "an explained replay says who refused what, with numbers",
                 "[bench][engine]") {
  const auto file = (dir.path() / "config.json").string();
  std::ofstream(file) << R"({"chunk_bytes": 4096, "cpu_bytes_to_use": 1048576,
      "secondary_tiers": [{"type": "example"}],
      "admission_policy": {"type": "write_budget", "bytes_per_day": "1 MiB",
                           "peak_bytes": 262144}})";
  options.engine = {};
  options.engine.config_file = file;
  options.output.quiet = true;
  CHECK(replay().out.empty());
  options.explain = true;
  const auto run = replay();
  INFO(run.out << run.err);
  REQUIRE(run.status == kHeld);
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 120);
  }
  for (const std::string part :
       {"Refused by reason", "1:example  cascade  write_budget", "refused by write_budget",
        "of 262144 bytes left", "1:example payoff, mode off: measures, refuses nothing",
        "How to read this"}) {
    CAPTURE(part);
    CHECK(run.out.find(part) != std::string::npos);
  }
  const auto& admission = run.document["admission"];
  CHECK(admission["tiers"]["1:example"]["cascades"]["refused"]["write_budget"]["chunks"] ==
        run.document["tiers"]["1:example"]["refused"]);
  CHECK(admission["refused"][0]["policy"] == "write_budget");
}
