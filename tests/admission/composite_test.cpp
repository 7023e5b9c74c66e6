#include "kv_offload/admission/composite.hpp"

#include "kv_offload/admission/promotion_concurrency.hpp"
#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

struct Three {
  ScriptedPolicy* a;
  ScriptedPolicy* b;
  ScriptedPolicy* c;
  std::unique_ptr<Composite> policy;

  Three() {
    Composite::Members members;
    for (ScriptedPolicy** member : {&a, &b, &c}) {
      auto made = std::make_unique<ScriptedPolicy>(member == &a ? "a" : member == &b ? "b" : "c");
      *member = made.get();
      members.push_back(std::move(made));
    }
    policy = Composite::make(std::move(members)).value();
  }
};

Composite::Members one(std::unique_ptr<AdmissionPolicy> policy) {
  Composite::Members members;
  members.push_back(std::move(policy));
  return members;
}

}  // namespace

TEST_CASE("members are asked in order and the first refusal decides", "[admission][unit]") {
  Three three;
  CHECK(three.policy->should_admit(cascade(1), at(0)) == RefusalReason::none);
  three.b->reason_ = RefusalReason::write_budget;
  three.c->reason_ = RefusalReason::payoff;
  three.c->asked_ = 0;
  CHECK(three.policy->should_admit(cascade(1), at(0)) == RefusalReason::write_budget);
  CHECK(three.c->asked_ == 0);
  CHECK(&find_refuser(*three.policy, cascade(1), at(0)) == three.b);
}

TEST_CASE("a refusal reaches every member, the refuser knows itself", "[admission][unit]") {
  Three three;
  three.b->reason_ = RefusalReason::custom;
  three.c->reason_ = RefusalReason::custom;
  three.policy->on_refused(cascade(1), three.policy.get(), at(0));
  CHECK(three.a->refused_ == 1);
  CHECK(three.b->refused_ == 1);
  CHECK(three.c->refused_ == 1);
  CHECK(three.a->refused_by_me_ == 0);
  CHECK(three.b->refused_by_me_ == 1);
  CHECK(three.c->refused_by_me_ == 0);
}

TEST_CASE("a refusal by a stranger moves nobody's credit", "[admission][unit]") {
  Three three;
  three.b->reason_ = RefusalReason::custom;
  ScriptedPolicy stranger("stranger");
  three.policy->on_refused(cascade(1), &stranger, at(0));
  CHECK(three.a->refused_ == 1);
  CHECK(three.a->refused_by_me_ + three.b->refused_by_me_ + three.c->refused_by_me_ == 0);
}

TEST_CASE("the refuser inside nested composites is the leaf", "[admission][unit]") {
  Three inner;
  inner.c->reason_ = RefusalReason::payoff;
  auto middle = Composite::make(one(std::move(inner.policy))).value();
  auto outer = Composite::make(one(std::move(middle))).value();
  CHECK(find_refuser(*outer, cascade(1), at(0)).name() == "c");
  outer->on_refused(cascade(1), outer.get(), at(0));
  CHECK(inner.c->refused_by_me_ == 1);
  CHECK(inner.a->refused_ == 1);
  CHECK(inner.a->refused_by_me_ == 0);
}

TEST_CASE("the other hooks reach every member", "[admission][unit]") {
  Three three;
  three.policy->on_admitted(cascade(1, 4), at(0));
  three.policy->on_completed(cascade(1, 3), ended(0, 1), at(1));
  three.policy->on_withdrawn(cascade(1, 1), at(1));
  for (const auto* member : {three.a, three.b, three.c}) {
    CHECK(member->admitted_ == 1);
    CHECK(member->completed_ == 1);
    CHECK(member->withdrawn_ == 1);
    CHECK(member->in_flight_ == 0);
  }
  three.policy->reset();
  for (const auto* member : {three.a, three.b, three.c}) CHECK(member->resets_ == 1);
}

TEST_CASE("a composite without members admits", "[admission][unit]") {
  auto empty = Composite::make({}).value();
  CHECK(empty->should_admit(cascade(1), at(0)) == RefusalReason::none);
  CHECK(&find_refuser(*empty, cascade(1), at(0)) == empty.get());
}

TEST_CASE("two members of one series are one series", "[admission][unit]") {
  Three three;
  three.a->refused_by_me_ = 2;
  three.b->refused_by_me_ = 3;
  three.a->level_ = 0.5;
  three.c->level_ = 0.75;
  const auto samples = three.policy->stats(at(0));
  CHECK(samples.size() == 2);
  CHECK(sample_of(samples, "scripted_refused_total", "1:fs") == 5);
  CHECK(sample_of(samples, "scripted_level", "1:fs") == 0.75);
}

TEST_CASE("a composite refuses a missing member, too many, and implicit twins",
          "[admission][unit]") {
  const auto missing = Composite::make(one(nullptr));
  REQUIRE_FALSE(missing);
  CHECK(missing.error().detail == "composite: a member is missing");

  Composite::Members twins;
  twins.push_back(std::make_unique<ScriptedPolicy>("backpressure[1:fs]"));
  twins.push_back(std::make_unique<ScriptedPolicy>("backpressure[2:obj]"));
  twins.push_back(std::make_unique<ScriptedPolicy>("backpressure[1:fs]"));
  const auto twice = Composite::make(std::move(twins));
  REQUIRE_FALSE(twice);
  CHECK(twice.error().detail == "composite: backpressure[1:fs] is there twice; expected once");

  Composite::Members explicit_twins;
  explicit_twins.push_back(std::make_unique<PromotionConcurrency>(1));
  explicit_twins.push_back(std::make_unique<PromotionConcurrency>(2));
  CHECK(Composite::make(std::move(explicit_twins)));

  Composite::Members many;
  for (int i = 0; i < 65; ++i) many.push_back(std::make_unique<PromotionConcurrency>(1));
  CHECK_FALSE(Composite::make(std::move(many)));
}
