#include "kv_offload/bench/engine_setup.hpp"
#include "kv_offload/bench/random.hpp"
#include "kv_offload/bench/replay_driver.hpp"
#include "kv_offload/bench/trace.hpp"
#include "kv_offload/tests/support/lru_oracle.hpp"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace kv_offload;
using namespace kv_offload::bench;
using kv_offload::test::LruOracle;

namespace {

struct Replayed {
  ReplayTotals totals;
  EngineStats stats;
};

/// Replays through a real engine with `chunks` primary chunks of 4 KiB and no secondary tier.
Replayed replay(const Trace& trace, std::uint64_t chunks, bool head_most_recent) {
  auto dir = WorkDir::open(std::nullopt);
  REQUIRE(dir);
  EngineOptions options;
  options.primary_chunks = chunks;
  options.chunk_bytes = 4096;
  auto config = make_engine_config(options, {}, *dir);
  REQUIRE(config);
  config->huge_pages = false;
  auto engine = OffloadEngine::start(*config);
  if (!engine) FAIL(to_string(engine.error()));
  ReplayMode mode;
  mode.head_most_recent = head_most_recent;
  ReplayDriver driver(**engine, mode);
  driver.run(trace, [](const ReplayTotals&) { return true; });
  auto stats = (*engine)->stats().get();
  REQUIRE(stats);
  return {driver.totals(), std::move(*stats)};
}

/// Hits of each request as the oracle sees them, summed.
std::uint64_t expected_hits(const Trace& trace, LruOracle& oracle) {
  std::uint64_t hits = 0;
  for (const auto& request : trace) hits += oracle.request(request.chunks);
  return hits;
}

LruOracle oracle_for(std::uint64_t chunks, bool head_most_recent) {
  return {chunks,
          head_most_recent ? LruOracle::Touch::back_to_front : LruOracle::Touch::front_to_back};
}

/// Prompts that share prefixes, with lengths up to `length_max`.
Trace random_trace(std::uint64_t seed, std::uint64_t requests, std::uint64_t length_max) {
  Random random(seed);
  Trace trace;
  for (std::uint64_t i = 0; i < requests; ++i) {
    TraceRequest request;
    const std::uint64_t family = random.below(12), length = 1 + random.below(length_max);
    const std::uint64_t shared = random.below(length_max);
    for (std::uint64_t c = 0; c < length; ++c)
      request.chunks.push_back((c < shared ? 0 : 1 + random.below(3)) << 32 | family << 16 | c);
    request.input_length = length * 512;
    trace.push_back(std::move(request));
  }
  return trace;
}

}  // namespace

TEST_CASE("the oracle evicts the least recent chunk and keeps the head of a prefix longest",
          "[bench][unit]") {
  LruOracle back(4, LruOracle::Touch::back_to_front);
  CHECK(back.request({1, 2, 3}) == 0);
  CHECK(back.request({1, 2, 3}) == 3);
  CHECK(back.request({8, 9}) == 0);  // 3, the tail, makes room
  CHECK(back.request({1, 2, 3}) == 2);
  LruOracle front(4, LruOracle::Touch::front_to_back);
  CHECK(front.request({1, 2, 3}) == 0);
  CHECK(front.request({8, 9}) == 0);  // 1, the head, makes room
  CHECK(front.request({1, 2, 3}) == 0);
}

TEST_CASE("the oracle takes all of a request or nothing", "[bench][unit]") {
  LruOracle oracle(2, LruOracle::Touch::back_to_front);
  CHECK(oracle.request({1, 2, 3}) == 0);
  CHECK(oracle.resident() == 0);
  CHECK(oracle.refused_stores() == 1);
}

TEST_CASE("the engine's hits are the oracle's, request for request sums, on random traces",
          "[bench][engine]") {
  const auto seed = GENERATE(range(1, 7));
  const bool back = GENERATE(true, false);
  const auto chunks = GENERATE(as<std::uint64_t>{}, 5, 16, 40, 100, 400);
  CAPTURE(seed, back, chunks);
  const Trace trace = random_trace(static_cast<std::uint64_t>(seed), 120, 14);
  auto oracle = oracle_for(chunks, back);
  const auto hits = expected_hits(trace, oracle);
  const auto replayed = replay(trace, chunks, back);
  CHECK(replayed.totals.hit_chunks == hits);
  CHECK(replayed.totals.mismatches == 0);
  CHECK(replayed.totals.lost_before_load == 0);
  CHECK(replayed.totals.call_errors == 0);
  CHECK(replayed.stats.scheduler.allocation_failures == 2 * oracle.refused_stores());
  CHECK(replayed.stats.primary.resident == oracle.resident());
  for (const auto& check : check_promises(replayed.stats, true)) {
    CAPTURE(check.name, check.why);
    CHECK(check.held);
  }
}

TEST_CASE("the conversation trace gives the published hits", "[bench][engine][trace]") {
  const char* folder = std::getenv("KV_OFFLOAD_TRACES");
  if (folder == nullptr) {
    WARN("SKIPPED: KV_OFFLOAD_TRACES is unset; it names the folder of conversation_trace.jsonl");
    return;
  }
  const auto trace = read_trace(std::string(folder) + "/conversation_trace.jsonl",
                                std::numeric_limits<std::size_t>::max());
  if (!trace) FAIL(to_string(trace.error()));
  struct Expected {
    std::uint64_t chunks, front, back;
  };
  for (const auto& [chunks, front, back] : std::vector<Expected>{{1828, 15080, 15138},
                                                                 {9140, 56382, 56483},
                                                                 {18279, 80323, 80466},
                                                                 {45698, 101978, 101978},
                                                                 {91395, 104759, 104759}}) {
    CAPTURE(chunks);
    CHECK(replay(*trace, chunks, false).totals.hit_chunks == front);
    const auto replayed = replay(*trace, chunks, true).totals;
    CHECK(replayed.hit_chunks == back);
    CHECK(replayed.chunk_references == 288500);
    CHECK(replayed.mismatches == 0);
  }
}
