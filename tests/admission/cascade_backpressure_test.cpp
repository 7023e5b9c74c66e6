#include "kv_offload/admission/cascade_backpressure.hpp"

#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

/// The policy as the RFC configures it, over two tiers, with a driver of jobs.
struct WallClock {
  CascadeBackpressure policy{make_options()};
  AdmissionTicket next = 1;

  static CascadeBackpressure::Options make_options() {
    CascadeBackpressure::Options options;
    options.tiers = {wall_clock_defaults(), wall_clock_defaults()};
    options.tier_labels = {"1:fs", "2:obj"};
    return options;
  }
  /// One cascade, admitted at `from`, ended at `to`.
  void store(double from, double to, TierIndex tier = 0) {
    policy.on_admitted(cascade(next, 1, tier), at(from));
    policy.on_completed(cascade(next++, 1, tier), ended(from, to), at(to));
  }
  [[nodiscard]] bool admits(double when, TierIndex tier = 0) const {
    return policy.should_admit(cascade(0, 1, tier), at(when)) == RefusalReason::none;
  }
  [[nodiscard]] double average(double when, TierIndex tier = 0) const {
    return policy.detector(tier)->average(at(when));
  }
};

}  // namespace

TEST_CASE("a constant latency presses at the known completion", "[admission][unit]") {
  // The average starts at 0: 0.3 L, 0.51 L, 0.657 L, 0.7599 L, …, against a mark of 1.0.
  struct Row {
    double latency;
    int presses_at;
  };
  const Row row = GENERATE(Row{2.0, 3}, Row{1.5, 4}, Row{1.2, 6}, Row{100.0, 3});
  WallClock tier;
  double expected = 0;
  for (int completion = 1; completion <= 8; ++completion) {
    CAPTURE(row.latency, completion);
    // Completions at one moment: no time passes in which the average could decay.
    tier.store(0, row.latency);
    expected = 0.3 * row.latency + 0.7 * expected;
    CHECK(tier.average(row.latency) == Approx(expected));
    CHECK(tier.admits(row.latency) == (completion < row.presses_at));
  }
}

TEST_CASE("a latency whose average stays at or below the high mark never presses",
          "[admission][unit]") {
  WallClock tier;
  for (int i = 0; i < 1000; ++i) tier.store(0, 1.0);
  CHECK(tier.admits(1.0));
}

TEST_CASE("between the marks the state stays as it is", "[admission][unit]") {
  WallClock tier;
  for (int i = 0; i < 3; ++i) tier.store(0, 2.0);
  REQUIRE_FALSE(tier.admits(2.0));
  REQUIRE(tier.average(2.0) == Approx(1.314));
  tier.policy.on_admitted(cascade(90), at(2.0));  // five more in flight from before
  for (AdmissionTicket t = 91; t < 95; ++t) tier.policy.on_admitted(cascade(t), at(2.0));
  // Fast completions at the same moment pull it down: .9198 and .64386 are between the marks.
  const auto finish = [&](AdmissionTicket t) {
    tier.policy.on_completed(cascade(t), ended(2.0, 2.0), at(2.0));
  };
  finish(90);
  CHECK(tier.average(2.0) == Approx(0.9198));
  CHECK_FALSE(tier.admits(2.0));
  finish(91);
  CHECK_FALSE(tier.admits(2.0));
  finish(92);
  CHECK(tier.average(2.0) == Approx(0.450702));
  CHECK(tier.admits(2.0));
  // And up again: .3 * 1.2 + .7 * .45 is between the marks, still admitted.
  tier.policy.on_completed(cascade(93), ended(2.0, 3.2), at(3.2));
  CHECK(tier.average(3.2) == Approx(0.6754914));
  CHECK(tier.admits(3.2));
  tier.policy.on_completed(cascade(94), ended(2.0, 5.0), at(5.0));
  CHECK(tier.average(5.0) == Approx(1.37284398));
  CHECK_FALSE(tier.admits(5.0));
}

TEST_CASE("a pressured tier that gets nothing recovers by the closed form", "[admission][unit]") {
  WallClock tier;
  for (int i = 0; i < 3; ++i) tier.store(0, 2.0);
  const double clears_after = 2.0 * std::log2(1.314 / 0.5);
  for (const double idle : {0.0, 0.5, 1.0, 2.0, 2.7}) {
    CAPTURE(idle);
    CHECK(tier.average(2.0 + idle) == Approx(1.314 * std::pow(0.5, idle / 2.0)));
    CHECK_FALSE(tier.admits(2.0 + idle));
  }
  CHECK_FALSE(tier.admits(2.0 + clears_after - 0.001));
  CHECK(tier.admits(2.0 + clears_after + 0.001));
  // Once cleared nothing decays, whoever asks and however late.
  CHECK(tier.average(2.0 + 100) == Approx(0.5));
}

TEST_CASE("an average that is not pressured does not decay", "[admission][unit]") {
  WallClock tier;
  for (int i = 0; i < 3; ++i) tier.store(0, 1.0);
  REQUIRE(tier.admits(1.0));
  CHECK(tier.average(1.0) == Approx(0.657));
  CHECK(tier.average(1000.0) == Approx(0.657));
}

TEST_CASE("asking a thousand times changes nothing", "[admission][unit]") {
  WallClock tier;
  for (int i = 0; i < 4; ++i) tier.store(0, 2.0);
  tier.policy.on_admitted(cascade(50, 3), at(2.0));
  const auto before = bytes_of(tier.policy);
  const auto detector_before = bytes_of(*tier.policy.detector(0));
  for (int i = 0; i < 1000; ++i) {
    const double when = 2.0 + (i % 10);
    const bool admits = tier.admits(when);
    CHECK(admits == (2.0 * std::log2(tier.average(2.0) / 0.5) < when - 2.0));
    (void)tier.policy.stats(at(when));
  }
  CHECK(bytes_of(tier.policy) == before);
  CHECK(bytes_of(*tier.policy.detector(0)) == detector_before);
  CHECK(tier.average(2.0) == Approx(0.3 * 2.0 + 0.7 * 1.314));
}

TEST_CASE("the answer at a time does not depend on who asked before", "[admission][unit]") {
  WallClock quiet, asked;
  for (int i = 0; i < 5; ++i) {
    quiet.store(0, 3.0);
    asked.store(0, 3.0);
  }
  // A refusal commits the decay; both must still agree later.
  for (int i = 1; i < 40; ++i)
    asked.policy.on_refused(cascade(0), &asked.policy, at(3.0 + 0.1 * i));
  CHECK(asked.average(7.2) == Approx(quiet.average(7.2)));
  CHECK(asked.admits(7.2) == quiet.admits(7.2));
  CHECK(asked.average(20) == Approx(quiet.average(20)));
}

TEST_CASE("a sample ends with the I/O, not with its message, and includes the queue",
          "[admission][unit]") {
  WallClock tier;
  tier.policy.on_admitted(cascade(1), at(0));
  // 10 s queued, 1 ms of I/O, seen 5 s late.
  CompletedTransfer result = ended(9.999, 10.0);
  tier.policy.on_completed(cascade(1), result, at(15.0));
  CHECK(tier.average(15.0) == Approx(0.3 * 10.0));
}

TEST_CASE("failed, withdrawn and never admitted cascades feed no latency", "[admission][unit]") {
  WallClock tier;
  for (AdmissionTicket t = 1; t <= 20; ++t) tier.policy.on_admitted(cascade(t, 2), at(0));
  for (AdmissionTicket t = 1; t <= 10; ++t)
    tier.policy.on_completed(cascade(t, 2), failed(0, 50), at(50));
  for (AdmissionTicket t = 11; t <= 20; ++t) tier.policy.on_withdrawn(cascade(t, 2), at(50));
  for (AdmissionTicket t = 500; t < 520; ++t)
    tier.policy.on_completed(cascade(t), ended(0, 50), at(50));
  CHECK(tier.average(50) == 0);
  CHECK(tier.admits(50));
  CHECK(tier.policy.submit_times() == 0);
  CHECK(tier.policy.in_flight_chunks() == 0);
}

TEST_CASE("a completion counts once", "[admission][unit]") {
  WallClock tier;
  tier.policy.on_admitted(cascade(1), at(0));
  for (int i = 0; i < 10; ++i) tier.policy.on_completed(cascade(1), ended(0, 9), at(9));
  CHECK(tier.average(9) == Approx(2.7));
  CHECK(tier.admits(9));  // one completion is below the warm-up
}

TEST_CASE("a job that is partly withdrawn keeps its submit time for the rest",
          "[admission][unit]") {
  WallClock tier;
  tier.policy.on_admitted(cascade(1, 5), at(0));
  tier.policy.on_withdrawn(cascade(1, 2), at(1));
  CHECK(tier.policy.submit_times() == 1);
  CHECK(tier.policy.in_flight_chunks() == 3);
  tier.policy.on_completed(cascade(1, 3), ended(0, 4), at(4));
  CHECK(tier.average(4) == Approx(1.2));
  CHECK(tier.policy.submit_times() == 0);
}

TEST_CASE("each tier has its own pressure", "[admission][unit]") {
  WallClock tier;
  for (int i = 0; i < 3; ++i) tier.store(0, 2.0, 1);
  CHECK(tier.admits(2.0, 0));
  CHECK_FALSE(tier.admits(2.0, 1));
  CHECK(tier.admits(2.0, 7));  // a tier that nobody watches
}

TEST_CASE("promotions pass and leave no trace", "[admission][unit]") {
  WallClock tier;
  for (int i = 0; i < 3; ++i) tier.store(0, 2.0);
  CHECK(tier.policy.should_admit(promotion(9), at(2.0)) == RefusalReason::none);
  CHECK(tier.policy.should_admit(cascade(9), at(2.0)) == RefusalReason::backpressure);
  const double before = tier.average(2.0);
  tier.policy.on_admitted(promotion(9), at(2.0));
  CHECK(tier.policy.submit_times() == 0);
  tier.policy.on_completed(promotion(9), ended(0, 90), at(2.0));
  CHECK(tier.average(2.0) == Approx(before));
}

TEST_CASE("after a reset the policy equals a fresh one", "[admission][unit]") {
  WallClock used, fresh;
  for (int i = 0; i < 9; ++i) used.store(0, 2.0);
  used.policy.on_admitted(cascade(77, 4), at(2.0));
  used.policy.reset();
  CHECK(used.policy.submit_times() == 0);
  CHECK(used.policy.in_flight_chunks() == 0);
  used.policy.on_completed(cascade(77, 4), ended(0, 50), at(50));  // from before: ignored
  for (int i = 0; i < 8; ++i) {
    CAPTURE(i);
    used.store(60, 61.2);
    fresh.store(60, 61.2);
    CHECK(used.average(61.2) == fresh.average(61.2));
    CHECK(used.admits(61.2) == fresh.admits(61.2));
    const auto a = used.policy.stats(at(61.2)), b = fresh.policy.stats(at(61.2));
    REQUIRE(a.size() == b.size());
    for (std::size_t s = 0; s < a.size(); ++s) CHECK(a[s].value == b[s].value);
  }
}

TEST_CASE("gauges are read as of now, under declared names", "[admission][unit]") {
  WallClock tier;
  for (int i = 0; i < 3; ++i) tier.store(0, 2.0);
  const std::string active = "vllm:kv_offload_tiering_backpressure_active";
  const std::string ema = "vllm:kv_offload_tiering_store_latency_ema";
  CHECK(sample_of(tier.policy.stats(at(2.0)), active, "1:fs") == 1);
  CHECK(sample_of(tier.policy.stats(at(2.0)), active, "2:obj") == 0);
  CHECK(sample_of(tier.policy.stats(at(4.0)), ema, "1:fs") == Approx(0.657));  // one half-life
  CHECK(sample_of(tier.policy.stats(at(9.0)), active, "1:fs") == 0);
  const auto definitions = tier.policy.metric_definitions();
  for (const auto& sample : tier.policy.stats(at(2.0))) {
    const bool declared = std::any_of(definitions.begin(), definitions.end(),
                                      [&](const auto& d) { return d.name == sample.name; });
    CHECK(declared);
  }
}
