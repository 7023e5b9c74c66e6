#include "kv_offload/messages/load_verdict.hpp"

#include "kv_offload/admission/verdict_feed.hpp"
#include "kv_offload/messages/gate_report.hpp"

#include <catch2/catch.hpp>

#include <random>
#include <set>

using namespace kv_offload;

TEST_CASE("a verdict is the first reason in order that holds", "[admission][unit]") {
  constexpr std::uint64_t kChunk = 128, kFloor = 8192;
  struct Row {
    LoadClaim claim;
    LoadVerdict verdict;
  };
  const Row row = GENERATE(
      Row{{0, 0}, LoadVerdict::hbm_satisfies_after_alloc},
      Row{{20000, 20000}, LoadVerdict::hbm_satisfies_after_alloc},
      Row{{19968, 20000},
          LoadVerdict::hbm_satisfies_after_alloc},              // also unaligned: the first wins
      Row{{20001, 20000}, LoadVerdict::unaligned_hbm_prefill},  // also too small
      Row{{40000, 20001}, LoadVerdict::unaligned_hbm_prefill},  // large enough does not help
      Row{{12800 + 8191, 12800}, LoadVerdict::too_small},
      Row{{12800 + 8192, 12800}, LoadVerdict::aligned_large_hit},
      Row{{8192, 0}, LoadVerdict::aligned_large_hit}, Row{{8191, 0}, LoadVerdict::too_small});
  CAPTURE(row.claim.claimed, row.claim.on_device);
  CHECK(to_string(judge_load(row.claim, kChunk, kFloor)) == to_string(row.verdict));
}

TEST_CASE("without a floor every aligned gap pays", "[admission][unit]") {
  CHECK(judge_load({1, 0}, 16, 0) == LoadVerdict::aligned_large_hit);
  CHECK(judge_load({0, 0}, 16, 0) == LoadVerdict::hbm_satisfies_after_alloc);
}

TEST_CASE("the gap counts from the chunk boundary at or above the frontier", "[admission][unit]") {
  CHECK(loadable_tokens(512, 0, 128) == 512);
  CHECK(loadable_tokens(512, 128, 128) == 384);
  CHECK(loadable_tokens(512, 129, 128) == 256);
  CHECK(loadable_tokens(512, 511, 128) == 0);
  CHECK(loadable_tokens(0, 511, 128) == 0);
  CHECK(chunk_floor(257, 128) == 256);
  CHECK(chunk_floor(256, 128) == 256);
  CHECK(chunk_ceil(257, 128) == 384);
}

TEST_CASE("the bound of a load leaves the prompt's last token", "[admission][unit]") {
  CHECK(load_bound(20000, 0) == 19999);
  CHECK(load_bound(20000, 16000) == 3999);
  CHECK(load_bound(20000, 19999) == 0);
  CHECK(load_bound(20000, 20000) == 0);
  CHECK(load_bound(20000, 30000) == 0);
  CHECK(load_bound(0, 0) == 0);
}

TEST_CASE("names of verdicts, modes and statuses are distinct", "[admission][unit]") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kNumLoadVerdicts; ++i) names.insert(to_string(LoadVerdict(i)));
  for (std::size_t i = 0; i < kNumGateStatuses; ++i) names.insert(to_string(GateStatus(i)));
  CHECK(names.size() == kNumLoadVerdicts + kNumGateStatuses);
  CHECK(names.count("unknown") == 0);
  CHECK(to_string(LoadVerdict(kNumLoadVerdicts)) == "unknown");
  CHECK(to_string(GateStatus(kNumGateStatuses)) == "unknown");
  CHECK(to_string(GateMode(kNumGateModes)) == "unknown");
}

namespace {
VerdictCounts totals(std::uint64_t paid, std::uint64_t too_small) {
  VerdictCounts counts;
  counts.add(LoadVerdict::aligned_large_hit, paid);
  counts.add(LoadVerdict::too_small, too_small);
  return counts;
}
}  // namespace

TEST_CASE("a total that was lost is made up for by the next", "[admission][unit]") {
  const unsigned seed = GENERATE(range(1U, 9U));
  CAPTURE(seed);
  std::mt19937 random(seed);
  VerdictFeed feed;
  VerdictCounts sent, received;
  for (int step = 0; step < 500; ++step) {
    sent.add(static_cast<LoadVerdict>(random() % kNumLoadVerdicts), random() % 3);
    if (random() % 4 != 0 && step != 499) continue;  // most steps are lost
    const VerdictCounts tally = feed.take(0, 0, sent);
    for (std::size_t i = 0; i < kNumLoadVerdicts; ++i)
      received.by_verdict[i] += tally.by_verdict[i];
  }
  CHECK(received == sent);
  CHECK(feed.resynchronisations() == 0);
}

TEST_CASE("totals that go back give a new base and no samples", "[admission][unit]") {
  VerdictFeed feed;
  CHECK(feed.take(0, 0, totals(5, 10)).samples() == 15);
  CHECK(feed.take(0, 0, totals(1, 2)).samples() == 0);
  CHECK(feed.resynchronisations() == 1);
  CHECK(feed.take(0, 0, totals(1, 4)) == totals(0, 2));
  CHECK(feed.take(0, 0, totals(0, 9)).samples() == 0);  // one of them back is enough
  CHECK(feed.resynchronisations() == 2);
  CHECK(feed.take(0, 0, totals(0, 9)).samples() == 0);  // nothing new
  CHECK(feed.resynchronisations() == 2);
}

TEST_CASE("senders and tiers have bases of their own", "[admission][unit]") {
  VerdictFeed feed;
  CHECK(feed.take(0, 0, totals(1, 1)).samples() == 2);
  CHECK(feed.take(1, 0, totals(1, 1)).samples() == 2);
  CHECK(feed.take(0, 1, totals(1, 0)).samples() == 1);
  CHECK(feed.take(0, 0, totals(2, 1)) == totals(1, 0));
  CHECK(feed.resynchronisations() == 0);
}
