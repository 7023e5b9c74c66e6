#include "kv_offload/tests/support/virtual_engine.hpp"

using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

TEST_CASE("a published chunk stays pinned for each admitted tier until that tier has quiesced", "[actor]") {
  VirtualEngine::Options options;
  options.tiers = 2;
  options.pin_share = 0.2;
  VirtualEngine e(options);
  e.tier(0).automatic = e.tier(1).automatic = false;
  const auto r = e.request();
  e.store(r, keys("k", 2));
  CHECK(e.stats().primary.pins_open == 4);
  e.tier(0).finish(0);
  e.run();
  CHECK(e.stats().primary.pins_open == 2);
  e.tier(1).finish(0, false);  // Outcome alone releases nothing
  e.advance(200ms);
  CHECK(e.stats().primary.pins_open == 2);
  e.tier(1).sink->job_quiesced(JobId{0, 1});
  e.run();
  CHECK(e.stats().primary.pins_open == 0);
  CHECK(e.stats().primary.evictable == 2);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a refused cascade pins nothing and costs no job id", "[actor]") {
  VirtualEngine::Options options;
  options.pin_share = 0.15;  // two of sixteen
  VirtualEngine e(options);
  e.tier().automatic = false;
  const auto r = e.request();
  e.store(r, keys("a", 2));
  e.store(r, keys("b", 2));  // over the tier's pin share
  auto s = e.stats();
  CHECK(s.primary.pins_open == 2);
  CHECK(s.scheduler.jobs_numbered == 1);
  CHECK(s.scheduler.offers[0].cascade_jobs_refused == 1);
  CHECK(s.scheduler.offers[0].cascades_refused[static_cast<std::size_t>(RefusalReason::pin_share)].chunks == 2);
  e.tier().finish(0);
  e.run();
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("complete_store can wait until its cascades have ended", "[actor]") {
  VirtualEngine e({});
  e.tier().automatic = false;
  const auto r = e.request();
  const auto plan = e.prepare_store(r, keys("k", 2));
  REQUIRE(plan);
  auto call = e.complete_store(plan->lease, {.wait_cascades = true});
  CHECK_FALSE(call.answered());
  e.tier().finish(0);
  e.run();
  const auto outcome = call.get();
  REQUIRE(outcome);
  CHECK(outcome->published == 2);
  CHECK(outcome->chunks_stored == 2);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a failed store frees its slots and reaches no tier", "[actor]") {
  VirtualEngine e({});
  const auto r = e.request();
  const auto plan = e.prepare_store(r, keys("k", 4));
  REQUIRE(plan);
  REQUIRE(e.complete_store(plan->lease, {.success = false}).get());
  const auto s = e.stats();
  CHECK(s.primary.resident == 0);
  CHECK(s.scheduler.offers[0].cascades_offered.chunks == 0);
  CHECK(e.tier().present.empty());
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("prepare_store is all or nothing", "[actor]") {
  VirtualEngine e({});
  e.tier().automatic = false;
  const auto r = e.request();
  const auto all = e.prepare_store(r, keys("a", 16));
  REQUIRE(all);
  CHECK(all->chunk_ids.size() == 16);
  const auto more = e.prepare_store(r, keys("b", 1));
  REQUIRE_FALSE(more);
  CHECK(more.error().code == OffloadErrc::no_space);
  CHECK(e.stats().scheduler.allocation_failures == 1);
  REQUIRE(e.complete_store(all->lease, {.success = false}).get());
  CHECK(e.prepare_store(r, keys("b", 1)));
}

TEST_CASE("a finished request's late completions are legal until it is forgotten", "[actor]") {
  VirtualEngine e({});
  const auto r = e.request("late");
  const auto plan = e.prepare_store(r, keys("k", 2));
  REQUIRE(plan);
  REQUIRE(e.finish(r));
  CHECK(e.stats().scheduler.requests_live == 1);
  const auto again = e.lookup(r, keys("k", 2)).get();
  CHECK(again.error().code == OffloadErrc::unknown_request);
  REQUIRE(e.complete_store(plan->lease).get()->published == 2);
  CHECK(e.stats().scheduler.requests_live == 0);
  e.require_promises();
}

TEST_CASE("misuse is answered, never obeyed", "[actor]") {
  VirtualEngine e({});
  const auto r = e.request("one");
  const auto twice = e.start<OpenedRequest>([](Reply<OpenedRequest> reply) {
                        return NewRequestCall{NewRequest{.req_id = "one"}, std::nullopt, std::move(reply)};
                      }).get();
  CHECK(twice.error().code == OffloadErrc::duplicate_request);
  CHECK(e.complete_store(LeaseId{0, 99}).get().error().code == OffloadErrc::unknown_lease);
  CHECK(e.complete_load(LeaseId{0, 99}).error().code == OffloadErrc::unknown_lease);
  const auto plan = e.prepare_store(r, keys("k", 1));
  CHECK(e.complete_load(plan->lease).error().code == OffloadErrc::unknown_lease);  // it is a store's
  REQUIRE(e.complete_store(plan->lease).get());
  CHECK(e.complete_store(plan->lease).get().error().code == OffloadErrc::unknown_lease);
  REQUIRE(e.finish(r));
  CHECK(e.finish(r).error().code == OffloadErrc::unknown_request);
  CHECK(e.request("one").handle != r.handle);
  e.require_promises();
}

TEST_CASE("prepare_load pins the leading keys that are still there and says how many", "[actor]") {
  VirtualEngine e({});
  const auto r = e.request();
  e.store(r, keys("k", 3));
  auto wanted = keys("k", 2);
  wanted.push_back(keys("gone", 1)[0]);
  wanted.push_back(keys("k", 3)[2]);
  const auto load = e.prepare_load(r, wanted);
  REQUIRE(load);
  CHECK(load->chunk_ids.size() == 2);
  CHECK(e.stats().primary.pins_open == 2);
  REQUIRE(e.complete_load(load->lease));
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("removed events come before the stored event that reuses the slot", "[actor]") {
  VirtualEngine::Options options;
  options.events = true;
  VirtualEngine e(options);
  const auto r = e.request();
  e.store(r, keys("a", 16));
  e.store(r, keys("b", 2));
  const auto events = e.start<std::vector<OffloadingEvent>>([](auto reply) { return EventsCall{std::move(reply)}; }).get();
  REQUIRE(events);
  REQUIRE(events->size() == 3);
  CHECK_FALSE((*events)[0].removed);
  CHECK((*events)[1].removed);
  CHECK((*events)[1].keys == keys("a", 2));
  CHECK_FALSE((*events)[2].removed);
  REQUIRE(e.finish(r));
}

TEST_CASE("a tier that reports nonsense is taken at what its job can mean", "[actor]") {
  VirtualEngine e({});
  e.tier().automatic = false;
  const auto r = e.request();
  const auto plan = e.prepare_store(r, keys("k", 3));
  auto call = e.complete_store(plan->lease, {.wait_cascades = true});
  const auto job = e.tier().jobs.front();
  JobResult result;
  result.job_id = job.job_id;
  result.failure = static_cast<TransferFailure>(200);
  result.fates.assign(1000, KeyFate::done);
  result.fates[1] = static_cast<KeyFate>(77);
  e.tier().sink->job_outcome(result);
  e.tier().sink->job_quiesced(job.job_id);
  e.run();
  const auto outcome = call.get();
  REQUIRE(outcome);
  CHECK(outcome->chunks_stored == 2);
  CHECK(outcome->chunks_failed == 1);
  CHECK(e.stats().tracker.tiers[0].store_failed[static_cast<std::size_t>(TransferFailure::io_error)].chunks == 1);
  REQUIRE(e.finish(r));
  e.require_promises();
}
