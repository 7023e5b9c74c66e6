#include "kv_offload/tests/conformance/conformance.hpp"

// Reset, in the polling view.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

TEST_CASE("a reset empties the primary tier, keeps the others, and starts slots at 0", "[conformance]") {
  VirtualEngine e(memory_tiers());
  const auto r = e.request();
  e.store(r, keys("k", 3));
  REQUIRE(e.reset());
  CHECK(e.stats().primary.resident == 0);
  CHECK(e.tier().present.size() == 3);
  const auto plan = e.prepare_store(r, keys("n", 2));
  CHECK(plan->chunk_ids == std::vector<ChunkId>{0, 1});
  REQUIRE(e.complete_store(plan->lease).get());
  CHECK(e.poll(r, keys("k", 1)[0]) == LookupResult::hit_pending);  // the tier still has it
}

TEST_CASE("a reset waits for running transfers and cancels queued ones", "[conformance]") {
  VirtualEngine e(memory_tiers(2));
  e.tier(0).automatic = false;
  const auto r = e.request();
  e.store(r, keys("k", 1));
  REQUIRE(e.reset());  // the scripted tier's jobs are queued: cancelled, and reported
  CHECK(e.tier(0).jobs.empty());
  CHECK(e.stats().tracker.jobs_active == 0);
  CHECK(e.stats().tracker.tiers[0].cascade_job_failures == 1);
}

TEST_CASE("a reset drops promotions that were granted and not submitted", "[conformance]") {
  VirtualEngine e(memory_tiers());
  e.tier().present = {keys("k", 1)[0]};
  const auto r = e.request();
  CHECK(e.poll(r, keys("k", 1)[0]) == LookupResult::hit_pending);
  REQUIRE(e.reset());
  e.step_end();
  CHECK(e.tier().submitted.empty());
  CHECK_FALSE(e.has_pending_work());
  const auto s = e.stats();
  CHECK(s.scheduler.offers[0].promotions_dropped[static_cast<std::size_t>(DropReason::reset)].chunks == 1);
  CHECK(s.primary.free == 16);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a reset ends finished requests that waited for a store, live ones stay", "[conformance]") {
  auto options = memory_tiers();
  options.setup_tier = [](std::size_t, ScriptedTier& tier) { tier.tier_traits.asks_requests = true; };
  VirtualEngine e(options);
  const auto live = e.request("live");
  const auto ended = e.request("ended");
  const auto plan = e.prepare_store(ended, keys("k", 1));
  REQUIRE(e.finish(ended));
  REQUIRE(e.reset());
  REQUIRE(e.complete_store(plan->lease).get());  // from before the reset: legal, and without effect
  CHECK(e.tier().calls.back() == "close ended");
  CHECK(e.poll(live, keys("k", 1)[0]) != LookupResult::hit);
  CHECK(e.tier().submitted.empty());
  e.store(live, keys("n", 1));
  CHECK(e.tier().submitted.size() == 1);
}

TEST_CASE("a load from before a reset may be completed after it", "[conformance]") {
  VirtualEngine e(memory_tiers(0));
  const auto r = e.request();
  e.store(r, keys("k", 1));
  const auto load = e.prepare_load(r, keys("k", 1));
  REQUIRE(e.reset());
  CHECK(e.prepare_store(r, keys("n", 1))->chunk_ids[0] == 1);  // slot 0 may still be read
  REQUIRE(e.complete_load(load->lease));
  CHECK(e.stats().primary.pins_open == 0);
}

TEST_CASE("a second reset during a reset is refused, and so is new work", "[conformance]") {
  VirtualEngine e(memory_tiers());
  e.tier().automatic = false;
  const auto r = e.request();
  const auto plan = e.prepare_store(r, keys("k", 1));
  e.store(r, keys("q", 1));
  auto drain = e.start<Ok>([](Reply<Ok> reply) { return DrainCall{false, std::nullopt, std::move(reply)}; });
  CHECK_FALSE(drain.answered());
  e.tier().finish(0);
  e.run();
  REQUIRE(drain.get());
  REQUIRE(e.complete_store(plan->lease).get());
}
