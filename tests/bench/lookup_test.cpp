#include "kv_offload/bench/lookup.hpp"

#include "kv_offload/actors/offload_engine.hpp"
#include "kv_offload/bench/command_line.hpp"
#include "kv_offload/bench/lookup_facade.hpp"
#include "kv_offload/bench/lookup_index.hpp"
#include "kv_offload/bench/work_dir.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <vector>

using namespace kv_offload;
using namespace kv_offload::bench;
using nlohmann::json;

namespace {

int command(std::vector<std::string> words, std::string& err_text) {
  std::vector<const char*> argv{"kv-offload-bench", "lookup"};
  for (const auto& word : words) argv.push_back(word.c_str());
  std::ostringstream out, err;
  const int status = run_command_line(static_cast<int>(argv.size()), argv.data(), out, err);
  err_text = err.str();
  return status;
}

TEST_CASE("every combination of keys, callers and batch is measured, and every answer checked",
          "[engine]") {
  const auto dir = WorkDir::open(std::nullopt);
  REQUIRE(dir);
  LookupBenchOptions options;
  options.keys = {1000, 3000};
  options.batches = {1, 64};
  options.threads = {1, 3};
  options.index_keys = {5000};
  options.seconds = 0.02;
  options.rounds = 2;
  options.hold = GENERATE(true, false);
  options.output.quiet = true;
  options.output.json_file = (dir->path() / "lookup.json").string();
  options.markdown_file = (dir->path() / "lookup.md").string();
  std::ostringstream out, err;
  INFO(err.str());
  REQUIRE(run_lookup(options, out, err) == kHeld);
  CHECK(out.str().empty());
  std::ifstream file(*options.output.json_file);
  const json document = json::parse(file);
  REQUIRE(document["points"].size() == 8);
  for (const auto& row : document["points"]) {
    CHECK(row["p50_us"] > 0.0);
    CHECK(row["p99_us"] >= row["p50_us"]);
    CHECK(row["keys_per_second"] > 0.0);
    CHECK(row["bytes_per_chunk"] > 0.0);
    CHECK(row["floor_us"] > 0.0);
  }
  REQUIRE(document["index"].size() == 1);
  for (const char* name : {"prompt_keys_per_s", "random_keys_per_s", "evict_ns", "replace_ns"})
    CHECK(document["index"][0][name] > 0.0);
  CHECK(document["round_trip_us"]["condvar"]["p50"] > 0.0);
  CHECK(document["idle_cpu_percent"].size() == 2);
  std::ifstream markdown(*options.markdown_file);
  std::string first;
  std::getline(markdown, first);
  CHECK(first.find("| index alone |") == 0);
}

TEST_CASE("a lookup that does not find every key is counted as wrong", "[engine]") {
  auto engine = lookup_engine(256, "lru");
  REQUIRE(engine);
  FacadeShape shape;
  shape.keys = 256;
  shape.batch = 16;
  shape.seconds = 0.02;
  CHECK(measure_facade(**engine, shape).wrong == 0);
  REQUIRE((*engine)->forget(lookup_keys(0, 255)).get());
  const FacadeFigure figure = measure_facade(**engine, shape);
  CHECK(figure.failure.empty());
  CHECK(figure.wrong > 0);
}

TEST_CASE("rows of a lookup engine take no memory, and may be touched all the same", "[engine]") {
  auto engine = lookup_engine(1024, "lru");
  REQUIRE(engine);
  const auto row = (*engine)->chunk(1000);
  REQUIRE(row.size() == 4096);
  unsigned char resident = 1;
  REQUIRE(::mincore(row.data(), row.size(), &resident) == 0);
  CHECK((resident & 1) == 0);
  row[17] = std::byte{3};
  CHECK(row[17] == std::byte{3});
  CHECK(row[18] == std::byte{0});
}

TEST_CASE(
    "the primary tier's bookkeeping takes at most 96 bytes a chunk with keys of 36 bytes, ghosts "
    "apart",
    "[engine]") {
  const auto figure = measure_index(100'000, "lru", 0.001, 1);
  REQUIRE(figure);
  CHECK(figure->bytes_per_key <= 96);
  CHECK(figure->bytes_per_key > 37 + 8);  // keys and table are in it
}

TEST_CASE("options that lookup cannot take are named in one line", "[engine]") {
  std::string line;
  CHECK(command({"--batch", "0"}, line) == kUsageError);
  CHECK(line.find("--batch") != std::string::npos);
  CHECK(command({"--threads", "1,x"}, line) == kUsageError);
  CHECK(line.find("--threads") != std::string::npos);
  CHECK(command({"--eviction", "newest", "--index-keys", "100", "--seconds", "0.01"}, line) !=
        kHeld);
  CHECK(line.find("newest") != std::string::npos);
  CHECK(line.find('\n') + 1 == line.size());
}

}  // namespace
