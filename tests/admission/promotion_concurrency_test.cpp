#include "kv_offload/admission/promotion_concurrency.hpp"

#include "kv_offload/admission/always_admit.hpp"
#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {
bool admits(const AdmissionPolicy& policy, const JobMetadata& job) {
  return policy.should_admit(job, at(0)) == RefusalReason::none;
}
}  // namespace

TEST_CASE("the cap-th promotion is admitted, the next refused", "[admission][unit]") {
  const std::uint32_t cap = GENERATE(1U, 2U, 512U);
  PromotionConcurrency policy(cap);
  for (std::uint32_t i = 0; i < cap; ++i) {
    REQUIRE(admits(policy, promotion(1)));
    policy.on_admitted(promotion(1), at(0));
  }
  CHECK(policy.should_admit(promotion(1), at(0)) == RefusalReason::promotion_concurrency);
  CHECK(admits(policy, cascade(2, 1000)));
  policy.on_completed(promotion(1), ended(0, 1), at(1));
  CHECK(admits(policy, promotion(3)));
  CHECK(policy.in_flight_chunks() == cap - 1);
}

TEST_CASE("the default cap is 512", "[admission][unit]") {
  CHECK(PromotionConcurrency().max_inflight_promotions() == 512);
}

TEST_CASE("counts are chunks: many admissions, one completion", "[admission][unit]") {
  PromotionConcurrency policy(10);
  for (int i = 0; i < 10; ++i) policy.on_admitted(promotion(7), at(0));
  REQUIRE_FALSE(admits(policy, promotion(8)));
  policy.on_withdrawn(promotion(7, 4), at(0));
  CHECK(policy.in_flight_chunks() == 6);
  policy.on_completed(promotion(7, 6), failed(0, 1), at(1));  // a failed one frees its place too
  CHECK(policy.in_flight_chunks() == 0);
}

TEST_CASE("ends that were never admitted do not free places", "[admission][unit]") {
  PromotionConcurrency policy(2);
  policy.on_admitted(promotion(1, 2), at(0));
  policy.on_completed(promotion(99, 2), ended(0, 1), at(1));
  policy.on_withdrawn(promotion(98, 2), at(1));
  policy.on_completed(cascade(1, 2), ended(0, 1), at(1));
  CHECK(policy.in_flight_chunks() == 2);
  CHECK_FALSE(admits(policy, promotion(2)));
  policy.on_completed(promotion(1, 100), ended(0, 1), at(1));
  CHECK(policy.in_flight_chunks() == 0);
}

TEST_CASE("asking for promotions changes nothing", "[admission][unit]") {
  PromotionConcurrency policy(2);
  policy.on_admitted(promotion(1), at(0));
  const auto before = bytes_of(policy);
  for (int i = 0; i < 1000; ++i) CHECK(admits(policy, promotion(2)));
  CHECK(bytes_of(policy) == before);
  policy.on_refused(promotion(2), &policy, at(0));
  CHECK(policy.in_flight_chunks() == 1);
}

TEST_CASE("reset frees every place", "[admission][unit]") {
  PromotionConcurrency policy(2);
  policy.on_admitted(promotion(1, 2), at(0));
  policy.reset();
  CHECK(policy.in_flight_chunks() == 0);
  CHECK(admits(policy, promotion(2)));
  policy.on_admitted(promotion(2), at(0));
  policy.on_completed(promotion(1, 2), ended(0, 1), at(1));  // of before the reset
  CHECK(policy.in_flight_chunks() == 1);
}

TEST_CASE("always_admit admits, counts nothing and reports nothing", "[admission][unit]") {
  AlwaysAdmit policy;
  CHECK(admits(policy, cascade(1, 1000)));
  CHECK(admits(policy, promotion(1)));
  policy.on_admitted(cascade(1), at(0));
  CHECK(policy.stats(at(0)).empty());
  CHECK(policy.metric_definitions().empty());
  CHECK(policy.in_flight_chunks() == -1);
}
