#include "kv_offload/admission/latency_detector.hpp"
#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

namespace kv_offload::test {
namespace {

/// Marks, weight and samples are powers of two, so that every average is exact.
LatencyDetectorOptions exact() {
  LatencyDetectorOptions options;
  options.high_water = 1.0;
  options.low_water = 0.25;
  options.alpha = 0.5;
  options.warmup_completions = 1;
  options.seed = WarmupSeed::mean;
  return options;
}

TEST_CASE("an average that meets a mark has not crossed it", "[admission][unit]") {
  LatencyDetector tier(exact());
  for (int i = 0; i < 3; ++i) tier.add_sample(1.0, at(i));
  REQUIRE(tier.average(at(3)) == 1.0);
  CHECK_FALSE(tier.is_under_pressure(at(3)));
  tier.add_sample(1.0 + 1.0 / 1024, at(3));
  CHECK(tier.is_under_pressure(at(3)));

  LatencyDetector slow(exact());
  for (int i = 0; i < 2; ++i) slow.add_sample(2.0, at(i));
  REQUIRE(slow.is_under_pressure(at(1)));
  for (const double sample : {1.0, 0.5, 0.5}) slow.add_sample(sample, at(1));  // 1.5, 1, .75
  slow.add_sample(-0.25, at(1));                                             // .25: the low mark
  REQUIRE(slow.average(at(1)) == 0.25);
  CHECK(slow.is_under_pressure(at(1)));
  slow.add_sample(0.125, at(1));
  CHECK_FALSE(slow.is_under_pressure(at(1)));
}

}  // namespace
}  // namespace kv_offload::test
