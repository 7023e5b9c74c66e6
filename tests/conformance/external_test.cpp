#include "kv_offload/tests/conformance/conformance.hpp"

#include <optional>

// Requests that a tier makes on behalf of somebody else.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

namespace {

template <class T>
struct Answer {
  std::shared_ptr<std::optional<Expected<T>>> value = std::make_shared<std::optional<Expected<T>>>();
  ParentManager::Callback<T> callback() const {
    return [value = value](Expected<T> v) { value->emplace(std::move(v)); };
  }
  const Expected<T>& get() const {
    REQUIRE(value->has_value());
    return **value;
  }
};

RequestHandle open(VirtualEngine& e, std::size_t t, const std::string& id) {
  Answer<OpenedRequest> opened;
  e.tier(t).parent->new_request(NewRequest{.req_id = id}, opened.callback());
  e.run();
  REQUIRE(opened.get());
  return *opened.get();
}

StoreJobPlan store_job(VirtualEngine& e, std::size_t t, RequestHandle r, const KeyList& list) {
  Answer<StoreJobPlan> plan;
  e.tier(t).parent->create_store_job(r, list, plan.callback());
  e.run();
  REQUIRE(plan.get());
  return *plan.get();
}

}  // namespace

TEST_CASE("a tier looks up for somebody else without being asked itself", "[conformance]") {
  auto options = memory_tiers(2);
  options.setup_tier = [](std::size_t, ScriptedTier& tier) {
    tier.in_memory = true;
    tier.tier_traits.asks_requests = true;
  };
  VirtualEngine e(options);
  const auto list = keys("k", 3);
  const auto w = e.request("w");
  e.store(w, {list[0]});
  e.tier(0).present.insert(list[1]);
  e.tier(1).present.insert(list[2]);
  e.tier(0).calls.clear();
  e.tier(1).calls.clear();
  const auto r = open(e, 1, "peer");
  CHECK(e.tier(0).calls == std::vector<std::string>{"open peer"});
  CHECK(e.tier(1).calls.empty());
  Answer<LookupAnswer> found;
  e.tier(1).parent->lookup(r, list, {.scan = LookupScan::window, .hold = false}, found.callback());
  e.run();
  REQUIRE(found.get());
  CHECK(letters(found.get()->results) == "HH.");  // primary, promoted from tier 0, and not its own
  Answer<RequestSummary> finished;
  e.tier(1).parent->request_finished(r, finished.callback());
  e.run();
  REQUIRE(finished.get());
  CHECK(e.tier(0).calls == std::vector<std::string>{"open peer", "close peer"});
  CHECK(e.tier(1).calls.empty());
  CHECK(e.stats().scheduler.external_requests == 1);
  REQUIRE(e.finish(w));
  e.require_promises();
}

TEST_CASE("a store job for somebody else pins what is present until the tier has ended it", "[conformance]") {
  VirtualEngine e(memory_tiers(2));
  e.tier(1).automatic = false;
  const auto list = keys("k", 3);
  const auto w = e.request("w");
  e.store(w, {list[0], list[2]});
  e.tier(1).finish(0);
  e.run();
  CHECK(e.stats().primary.pins_open == 0);
  const auto r = open(e, 1, "peer");
  const auto plan = store_job(e, 1, r, list);
  REQUIRE(plan.job);
  CHECK(plan.key_idx == std::vector<std::uint32_t>{0, 2});
  REQUIRE(e.tier(1).jobs.size() == 1);
  CHECK(e.tier(1).jobs[0].job_id == *plan.job);
  CHECK(e.tier(1).jobs[0].keys == KeyList{list[0], list[2]});
  CHECK(e.tier(0).submitted.size() == 1);  // nobody else gets it
  CHECK(e.stats().primary.pins_open == 2);
  e.tier(1).finish(0);
  e.run();
  CHECK(e.stats().primary.pins_open == 0);
  REQUIRE(e.finish(r));
  REQUIRE(e.finish(w));
  e.require_promises();
}

TEST_CASE("admission may refuse a store job for somebody else", "[conformance]") {
  auto options = memory_tiers();
  options.pin_share = 0.07;  // one of sixteen
  VirtualEngine e(options);
  e.tier().automatic = false;
  const auto w = e.request("w");
  e.store(w, keys("a", 1));
  e.store(w, keys("b", 1));
  const auto r = open(e, 0, "peer");
  const auto plan = store_job(e, 0, r, keys("b", 1));
  CHECK_FALSE(plan.job);
  CHECK(plan.key_idx.empty());
  CHECK(e.stats().primary.pins_open == 1);
  CHECK(e.stats().scheduler.jobs_numbered == 1);  // a refused job has no id
  e.tier().finish(0);
  e.run();
  REQUIRE(e.finish(r));
  REQUIRE(e.finish(w));
  e.require_promises();
}

TEST_CASE("nothing present makes no store job", "[conformance]") {
  VirtualEngine e(memory_tiers());
  const auto r = open(e, 0, "peer");
  CHECK_FALSE(store_job(e, 0, r, keys("k", 2)).job);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a tier stores only for requests of its own", "[conformance]") {
  VirtualEngine e(memory_tiers(2));
  const auto w = e.request("w");
  e.store(w, keys("k", 1));
  Answer<StoreJobPlan> plan;
  e.tier(0).parent->create_store_job(w, keys("k", 1), plan.callback());
  e.run();
  REQUIRE_FALSE(plan.get());
  CHECK(plan.get().error().code == OffloadErrc::invalid_argument);
}

TEST_CASE("a revoked handle answers expired, and is counted", "[conformance]") {
  VirtualEngine e(memory_tiers());
  const auto r = open(e, 0, "peer");
  e.tier().sink->lane_died("pulled out");
  e.run();
  Answer<StoreJobPlan> plan;
  e.tier().parent->create_store_job(r, keys("k", 1), plan.callback());
  REQUIRE_FALSE(plan.get());
  CHECK(plan.get().error().code == OffloadErrc::expired);
  Answer<OpenedRequest> opened;
  e.tier().parent->new_request(NewRequest{.req_id = "late"}, opened.callback());
  CHECK(opened.get().error().code == OffloadErrc::expired);
  CHECK(e.stats().scheduler.external_expired == 2);
}

TEST_CASE("a tier cannot flood the engine with calls", "[conformance]") {
  VirtualEngine e(memory_tiers());
  std::vector<Answer<OpenedRequest>> answers(20);
  for (std::size_t i = 0; i < answers.size(); ++i)
    e.tier().parent->new_request(NewRequest{.req_id = std::to_string(i)}, answers[i].callback());
  e.run();
  std::size_t busy = 0;
  for (const auto& answer : answers)
    busy += !answer.get() && answer.get().error().code == OffloadErrc::busy ? 1U : 0U;
  CHECK(busy == 4);  // sixteen credits
  CHECK(open(e, 0, "later").sequence > 0);  // answered calls give theirs back
}
