#include "kv_offload/tests/properties/primary_duel.hpp"
#include "kv_offload/tests/properties/primary_op_gen.hpp"
#include "kv_offload/tests/support/property.hpp"

#include <algorithm>
#include <string>

// A primary tier with each eviction policy against a straight-line model: after every call states, slots,
// generations, pins, holds, counters and events are equal, and with them every victim and every order.
namespace kv_offload::test {
namespace {

/// A run has up to this many calls, half of it on average. A length that is given instead of drawn could
/// not shrink, and runs that are much longer shrink for minutes.
constexpr int kCallsMax = 1000;
/// For each case of $RC_PARAMS: 200 000 calls of each policy with the usual 100, 10^6 with max_success=500.
constexpr int kRunsPerCase = 4;
/// Runs that a failure is shrunk by: seconds, and enough for what fails soon. What needs a long story to
/// fail stays long.
constexpr int kShrinkRunsMax = 3000;

void add(PrimaryStory& sum, const PrimaryStory& s) {
  sum.ops += s.ops;
  sum.evictions += s.evictions;
  sum.refused_stores += s.refused_stores;
  sum.cut_promotions += s.cut_promotions;
  sum.refused_holds += s.refused_holds;
  sum.evicted_unread += s.evicted_unread;
  sum.resets += s.resets;
  sum.quarantined += s.quarantined;
  sum.met_in_use += s.met_in_use;
  sum.events += s.events;
  sum.dropped_events += s.dropped_events;
  sum.reclaimed += s.reclaimed;
  sum.detached += s.detached;
}

void check_policy(const std::string& policy) {
  PrimaryStory met;
  int shrink_runs = -1;  // none has failed so far
  const auto fail = [&](const std::string& why) {
    shrink_runs = std::max(shrink_runs, 0);
    RC_FAIL(why);
  };
  check_property("primary tier under " + policy, kRunsPerCase, [&] {
    const auto setup = *gen_primary_setup();
    const auto calls =
        *rc::gen::resize(kCallsMax, rc::gen::container<std::vector<PrimaryOp>>(gen_primary_op()));
    if (shrink_runs >= 0 && ++shrink_runs > kShrinkRunsMax) return;  // ends the shrinking
    PrimaryDuel duel(policy, setup);
    for (std::size_t i = 0; i < calls.size(); ++i)
      if (const auto why = duel.play(calls[i]); !why.empty())
        fail("after call " + std::to_string(i + 1) + ": " + why);
    if (const auto why = duel.play({PrimaryOp::Kind::take_events, 0, {}}); !why.empty())
      fail("at the end: " + why);
    add(met, duel.story());
  });
  // The story must have met every corner, or it proves little: per thousand calls.
  const auto per_mille = [&](std::uint64_t n) {
    return 1000.0 * static_cast<double>(n) / static_cast<double>(met.ops);
  };
  INFO(met.ops << " calls");
  CHECK(per_mille(met.evictions) > 20);
  CHECK(per_mille(met.refused_stores) > 5);
  CHECK(per_mille(met.cut_promotions) > 1);
  CHECK(per_mille(met.refused_holds) > 1);
  CHECK(per_mille(met.evicted_unread) > 1);
  CHECK(per_mille(met.resets) > 0.5);
  CHECK(per_mille(met.quarantined) > 5);
  CHECK(per_mille(met.met_in_use) > 0.1);
  CHECK(per_mille(met.events) > 20);
  CHECK(per_mille(met.dropped_events) > 1);
  CHECK(per_mille(met.reclaimed) > 0.1);
  CHECK(per_mille(met.detached) > 1);
}

TEST_CASE("a primary tier under LRU behaves like the straight-line model in every step",
          "[primary][property]") {
  check_policy("lru");
}
TEST_CASE("a primary tier under ARC behaves like the straight-line model in every step",
          "[primary][property]") {
  check_policy("arc");
}
TEST_CASE("a primary tier under S3-FIFO behaves like the straight-line model in every step",
          "[primary][property]") {
  check_policy("s3fifo");
}

}  // namespace
}  // namespace kv_offload::test
