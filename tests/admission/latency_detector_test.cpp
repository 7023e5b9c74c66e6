// The signal seconds per MiB: detector, throttle, cooldown.
#include "kv_offload/admission/latency_detector.hpp"

#include "kv_offload/admission/cascade_backpressure.hpp"
#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

LatencyDetectorOptions local() {
  return per_mib_defaults({"fs", Medium::storage, Locality::local});
}

/// A detector past its warm-up whose average is `average`: pressured if above the high mark.
LatencyDetector with_average(double average, double when,
                             LatencyDetectorOptions options = local()) {
  LatencyDetector detector(options);
  for (std::uint32_t i = 0; i <= options.warmup_completions; ++i)
    detector.add_sample(average, at(when));
  return detector;
}

/// Asks and commits, as admission does. Returns whether the candidate passed.
bool offer(LatencyDetector& detector, double when, std::uint32_t chunks = 1) {
  const bool passes = detector.should_store(at(when));
  if (passes)
    detector.on_stored(at(when));
  else
    detector.on_dropped(chunks, at(when));
  return passes;
}

}  // namespace

TEST_CASE("presets follow type and locality", "[admission][unit]") {
  const auto marks = [](const char* type, std::optional<Locality> locality) {
    const auto o = per_mib_defaults({type, Medium::storage, locality});
    return std::pair(o.high_water, o.low_water);
  };
  const std::pair local_marks(0.010, 0.002), network_marks(0.050, 0.010);
  CHECK(marks("fs", std::nullopt) == local_marks);
  CHECK(marks("fs", Locality::local) == local_marks);
  CHECK(marks("fs", Locality::remote) == network_marks);
  CHECK(marks("obj", std::nullopt) == network_marks);
  CHECK(marks("obj", Locality::local) == network_marks);
  CHECK(marks("p2p", std::nullopt) == local_marks);
  CHECK(local().alpha == 0.15);
  CHECK(local().warmup_completions == 10);
  CHECK(local().decay_half_life_s == 2.0);
  CHECK(local().cooldown_s == 1.0);
}

TEST_CASE("the warm-up seeds the mean and presses only afterwards", "[admission][unit]") {
  LatencyDetector detector(local());
  for (int i = 1; i <= 10; ++i) {
    detector.add_sample(0.1 * i, at(0));
    CHECK_FALSE(detector.is_under_pressure(at(0)));  // even at a hundred times the mark
  }
  CHECK(detector.average(at(0)) == Approx(0.55));
  detector.add_sample(0.55, at(0));
  CHECK(detector.is_under_pressure(at(0)));
}

TEST_CASE("without warm-up the first sample counts from 0", "[admission][unit]") {
  auto options = local();
  options.warmup_completions = 0;
  LatencyDetector detector(options);
  detector.add_sample(0.1, at(0));
  CHECK(detector.average(at(0)) == Approx(0.015));
  CHECK(detector.is_under_pressure(at(0)));
}

TEST_CASE(".020 decays to .002 in 6.64 seconds", "[admission][unit]") {
  const auto detector = with_average(0.020, 0);
  REQUIRE(detector.is_under_pressure(at(0)));
  CHECK(detector.average(at(2)) == Approx(0.010));
  CHECK(detector.average(at(6.64)) == Approx(0.002).epsilon(0.002));
  CHECK(detector.is_under_pressure(at(6.63)));
  CHECK_FALSE(detector.is_under_pressure(at(6.65)));
}

TEST_CASE("a half-life of 0 or less switches decay off", "[admission][unit]") {
  auto options = local();
  options.decay_half_life_s = GENERATE(0.0, -1.0);
  const auto detector = with_average(0.020, 0, options);
  CHECK(detector.average(at(1e6)) == Approx(0.020));
  CHECK(detector.is_under_pressure(at(1e6)));
}

TEST_CASE("the throttled share is met exactly at every value", "[admission][unit]") {
  auto options = local();
  options.decay_half_life_s = 0;  // hold the share still
  const double share = GENERATE(0.1, 0.2, 0.25, 1.0 / 3, 0.4, 0.5, 0.6, 0.75, 0.9, 0.99);
  CAPTURE(share);
  auto detector = with_average(options.high_water * (1 + 2 * share), 0, options);
  int dropped = 0;
  for (int n = 1; n <= 1000; ++n) {
    if (!offer(detector, 0, 3)) ++dropped;
    // Over any prefix the realised number is the computed one, to less than one candidate.
    REQUIRE(std::abs(dropped - share * n) <= 1.0);
  }
  CHECK(dropped == static_cast<int>(std::lround(share * 1000)));
  CHECK(detector.stores_dropped() == static_cast<std::uint64_t>(dropped));
  CHECK(detector.chunks_dropped() == static_cast<std::uint64_t>(3 * dropped));
}

TEST_CASE("the share is 0 up to the high mark and 1 from three times it", "[admission][unit]") {
  CHECK(throttled_drop_share(0.005, 0.010, 2) == 0);
  CHECK(throttled_drop_share(0.010, 0.010, 2) == 0);
  CHECK(throttled_drop_share(0.015, 0.010, 2) == Approx(0.25));
  CHECK(throttled_drop_share(0.020, 0.010, 2) == Approx(0.5));
  CHECK(throttled_drop_share(0.030, 0.010, 2) == Approx(1));
  CHECK(throttled_drop_share(1.0, 0.010, 2) == 1);
  CHECK(throttled_drop_share(0.1, 0, 2) == 1);

  auto options = local();
  options.decay_half_life_s = 0;
  auto all = with_average(0.030, 0, options);
  for (int i = 0; i < 100; ++i) CHECK_FALSE(offer(all, 0));
}

TEST_CASE("pressured between the marks everything passes", "[admission][unit]") {
  auto detector = with_average(0.012, 0);
  REQUIRE(detector.is_under_pressure(at(1)));
  REQUIRE(detector.average(at(1)) < 0.010);
  for (int i = 0; i < 50; ++i) CHECK(offer(detector, 1));
}

TEST_CASE("recovery takes the stated times", "[admission][unit]") {
  auto options = local();
  const double end = 0.240;
  auto detector = with_average(end, 0, options);
  const double first_admitted = 2.0 * std::log2(end / (3 * options.high_water));  // 6 s
  const double cleared = 2.0 * std::log2(end / options.low_water);
  const double step = 0.001;
  double seen_first = -1, last_drop = -1;
  for (double t = step; t < cleared + 2; t += step) {
    if (offer(detector, t)) {
      if (seen_first < 0) seen_first = t;
    } else {
      last_drop = t;
    }
  }
  CHECK(seen_first >= first_admitted - step);
  CHECK(seen_first <= first_admitted + 2 * step);
  CHECK(last_drop <= cleared + options.cooldown_s);
  CHECK(last_drop >= cleared + options.cooldown_s - 3 * step);
  CHECK_FALSE(detector.is_under_pressure(at(cleared + step)));
}

TEST_CASE("in the cooldown every second cascade is dropped, the first passes",
          "[admission][unit]") {
  auto detector = with_average(0.020, 0);
  const double cleared = 2.0 * std::log2(10.0);
  const bool expected[] = {true, false, true, false, true, false};
  for (int i = 0; i < 6; ++i) CHECK(offer(detector, cleared + 0.1 + 0.1 * i) == expected[i]);
  CHECK(detector.stores_dropped() == 3);
  for (int i = 0; i < 6; ++i) CHECK(offer(detector, cleared + 1.01));
}

TEST_CASE("a new pressure ends the cooldown", "[admission][unit]") {
  auto detector = with_average(0.020, 0);
  for (int i = 0; i < 3; ++i) detector.add_sample(1.0, at(7));
  CHECK(detector.is_under_pressure(at(7)));
  for (int i = 0; i < 5; ++i) CHECK_FALSE(offer(detector, 7));
}

TEST_CASE("a tier that is fast ten times in a row skips the cooldown", "[admission][unit]") {
  auto options = local();
  options.decay_half_life_s = 0;
  options.cooldown_s = 1000;
  auto detector = with_average(0.011, 0, options);
  // 11 * .85^11 < 2: the eleventh completion of nothing clears, ten in a row below make it healthy.
  for (int i = 0; i < 11; ++i) detector.add_sample(0, at(0));
  REQUIRE_FALSE(detector.is_under_pressure(at(0)));
  CHECK(offer(detector, 1));
  CHECK_FALSE(offer(detector, 1));
  for (int i = 0; i < 8; ++i) detector.add_sample(0, at(1));
  CHECK(offer(detector, 2));
  CHECK_FALSE(offer(detector, 2));  // a streak of nine is not enough
  CHECK(offer(detector, 2));        // the next one would be dropped again
  detector.add_sample(0, at(2));
  for (int i = 0; i < 20; ++i) CHECK(offer(detector, 3));
}

TEST_CASE("a completion between the marks ends the healthy streak", "[admission][unit]") {
  auto options = local();
  options.decay_half_life_s = 0;
  options.cooldown_s = 1000;
  options.alpha = 1;  // the average is the last sample
  auto detector = with_average(0.011, 0, options);
  for (int i = 0; i < 9; ++i) detector.add_sample(0.001, at(0));
  detector.add_sample(0.005, at(0));
  for (int i = 0; i < 9; ++i) detector.add_sample(0.001, at(0));
  CHECK(offer(detector, 1));
  CHECK_FALSE(offer(detector, 1));
  detector.add_sample(0.001, at(1));
  for (int i = 0; i < 4; ++i) CHECK(offer(detector, 1));
}

TEST_CASE("a sample meets the average as it has decayed by then", "[admission][unit]") {
  auto detector = with_average(0.020, 0);
  detector.add_sample(0.1, at(2));  // one half-life later
  CHECK(detector.average(at(2)) == Approx(0.15 * 0.1 + 0.85 * 0.010));
  CHECK(detector.average(at(4)) == Approx((0.15 * 0.1 + 0.85 * 0.010) / 2));
}

TEST_CASE("every cooldown starts with a candidate that passes", "[admission][unit]") {
  auto detector = with_average(0.020, 0);
  CHECK(offer(detector, 6.7));  // one candidate only in the first cooldown
  for (int i = 0; i < 3; ++i) detector.add_sample(0.2, at(8));
  REQUIRE(detector.is_under_pressure(at(8)));
  const double cleared = 8 + 2.0 * std::log2(detector.average(at(8)) / 0.002);
  CHECK(offer(detector, cleared + 0.1));
  CHECK_FALSE(offer(detector, cleared + 0.2));
}

TEST_CASE("what was owed before everything was refused does not delay recovery",
          "[admission][unit]") {
  auto options = local();
  options.alpha = 1;
  auto detector = with_average(0.020, 0, options);
  CHECK(offer(detector, 0));  // half a refusal is owed now
  detector.add_sample(0.120, at(0));
  CHECK_FALSE(offer(detector, 0));
  CHECK_FALSE(offer(detector, 3.99));
  CHECK(offer(detector, 4.01));  // 2 log2(.120 / .030): the share has just left 1
}

TEST_CASE("drop refuses everything while pressured", "[admission][unit]") {
  auto options = local();
  options.response = PressureResponse::drop;
  auto detector = with_average(0.0101, 0, options);
  for (int i = 0; i < 10; ++i) CHECK_FALSE(offer(detector, 0));
  CHECK(offer(detector, 30));
}

TEST_CASE("a clock that steps back neither decays nor breaks", "[admission][unit]") {
  auto detector = with_average(0.020, 100);
  CHECK(detector.average(at(50)) == Approx(0.020));
  detector.add_sample(0.020, at(50));
  CHECK(detector.average(at(100)) == Approx(0.020));
}

TEST_CASE("per MiB, the latency is divided by the bytes that really moved", "[admission][unit]") {
  CascadeBackpressure::Options options;
  options.signal = LatencySignal::per_mib;
  options.tiers = {local()};
  options.tier_labels = {"1:fs"};
  CascadeBackpressure policy(options);
  AdmissionTicket next = 1;
  const auto store = [&](double seconds, std::uint64_t bytes) {
    policy.on_admitted(cascade(next, 8), at(0));
    policy.on_completed(cascade(next++, 8), ended(0, seconds, bytes), at(seconds));
  };
  for (int i = 0; i < 100; ++i) store(5.0, 0);  // all present already: teaches nothing
  CHECK(policy.detector(0)->average(at(5)) == 0);
  for (int i = 0; i < 10; ++i) store(0.4, 4 << 20);  // .1 s/MiB although the job has 8 MiB
  CHECK(policy.detector(0)->average(at(5)) == Approx(0.1));
  CHECK(policy.submit_times() == 0);
}

TEST_CASE("only the refuser's credit and counters move", "[admission][unit]") {
  CascadeBackpressure::Options options;
  options.signal = LatencySignal::per_mib;
  options.tiers = {local()};
  options.tier_labels = {"1:fs"};
  CascadeBackpressure policy(options);
  for (AdmissionTicket t = 1; t <= 11; ++t) {
    policy.on_admitted(cascade(t), at(0));
    policy.on_completed(cascade(t), ended(0, 0.02), at(0));
  }
  const std::string drops = "vllm:kv_offload_tiering_backpressure_stores_dropped_total";
  const std::string blocks = "vllm:kv_offload_tiering_backpressure_blocks_dropped_total";
  ScriptedPolicy other("other");
  for (int i = 0; i < 10; ++i) policy.on_refused(cascade(0, 5), &other, at(0));
  CHECK(sample_of(policy.stats(at(0)), drops, "1:fs") == 0);
  // Share .5: pass, drop, pass, drop.
  const RefusalReason expected[] = {RefusalReason::none, RefusalReason::backpressure,
                                    RefusalReason::none, RefusalReason::backpressure};
  for (AdmissionTicket t = 100; t < 104; ++t) {
    const auto reason = policy.should_admit(cascade(t, 5), at(0));
    CHECK(reason == expected[t - 100]);
    if (reason == RefusalReason::none)
      policy.on_admitted(cascade(t, 5), at(0));
    else
      policy.on_refused(cascade(t, 5), &policy, at(0));
  }
  CHECK(sample_of(policy.stats(at(0)), drops, "1:fs") == 2);
  CHECK(sample_of(policy.stats(at(0)), blocks, "1:fs") == 10);
}
