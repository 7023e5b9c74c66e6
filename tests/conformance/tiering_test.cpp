#include "kv_offload/tests/conformance/conformance.hpp"

#include <algorithm>

// The reference's tests of its tiering manager, in the polling view.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

TEST_CASE("a store lands in the primary tier and is a hit", "[conformance]") {
  VirtualEngine e(memory_tiers());
  const auto r = e.request();
  const auto list = keys("k", 3);
  const auto plan = e.prepare_store(r, list);
  REQUIRE(plan);
  CHECK(plan->key_idx == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(plan->chunk_ids == std::vector<ChunkId>{0, 1, 2});
  CHECK(e.poll(r, list[0]) == LookupResult::hit_pending);
  REQUIRE(e.complete_store(plan->lease).get());
  for (const auto& key : list) CHECK(e.poll(r, key) == LookupResult::hit);
  CHECK(e.poll(r, keys("other", 1)[0]) == LookupResult::miss);
}

TEST_CASE("a store cascades to every tier with its request", "[conformance]") {
  VirtualEngine e(memory_tiers(3));
  const auto r = e.request("who");
  e.store(r, keys("k", 2));
  for (std::size_t t = 0; t < 3; ++t) {
    REQUIRE(e.tier(t).submitted.size() == 1);
    const auto& job = e.tier(t).submitted[0];
    CHECK_FALSE(job.is_promotion);
    CHECK(job.keys == keys("k", 2));
    CHECK(job.request->request.req_id == "who");
    CHECK(job.job_id.sequence == t);
  }
}

TEST_CASE("a chunk is evictable only when its slowest cascade has ended", "[conformance]") {
  VirtualEngine e(memory_tiers(3));
  for (std::size_t t = 0; t < 3; ++t) e.tier(t).automatic = false;
  const auto r = e.request();
  e.store(r, keys("k", 1));
  for (std::size_t t = 0; t < 3; ++t) {
    CHECK(e.stats().primary.pins_open == 3 - t);
    CHECK(e.stats().primary.evictable == 0);
    e.tier(t).finish(0);
    e.run();
  }
  CHECK(e.stats().primary.evictable == 1);
}

TEST_CASE("a failed store is gone and reaches no tier", "[conformance]") {
  VirtualEngine e(memory_tiers(2));
  const auto r = e.request();
  const auto plan = e.prepare_store(r, keys("k", 2));
  REQUIRE(plan);
  REQUIRE(e.complete_store(plan->lease, {.success = false}).get());
  CHECK(e.poll(r, keys("k", 1)[0]) == LookupResult::miss);
  CHECK(e.tier(0).submitted.empty());
  CHECK(e.tier(1).submitted.empty());
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a promotion is pending until it lands, then a hit", "[conformance]") {
  VirtualEngine e(memory_tiers());
  e.tier().automatic = false;
  const auto list = keys("k", 1);
  e.tier().present = {list[0]};
  const auto r = e.request();
  CHECK(e.poll(r, list[0]) == LookupResult::hit_pending);
  CHECK(e.poll(r, list[0]) == LookupResult::hit_pending);
  CHECK(e.tier().submitted.empty());  // not before the step ends
  e.step_end();
  REQUIRE(e.tier().submitted.size() == 1);
  CHECK(e.tier().submitted[0].is_promotion);
  CHECK(e.poll(r, list[0]) == LookupResult::hit_pending);
  e.tier().finish(0);
  e.step_begin();
  CHECK(e.poll(r, list[0]) == LookupResult::hit);
  const auto load = e.prepare_load(r, list);
  REQUIRE(load);
  CHECK(load->chunk_ids.size() == 1);
  REQUIRE(e.complete_load(load->lease));
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a prefix is found in parts: primary, tier, nowhere", "[conformance]") {
  VirtualEngine e(memory_tiers());
  const auto list = keys("k", 4);
  const auto w = e.request("w");
  e.store(w, {list[0]});
  e.tier().present = {list[0], list[1], list[3]};
  const auto r = e.request();
  CHECK(letters(poll_all(e, r, list).results) == "HP..");
  CHECK(letters(poll_all(e, r, list, LookupScan::window).results) == "HP.P");
}

TEST_CASE("promotions of a step become one job per request and tier, keys in lookup order", "[conformance]") {
  VirtualEngine e(memory_tiers(2));
  e.tier(0).automatic = e.tier(1).automatic = false;
  const auto list = keys("k", 6);
  e.tier(0).present = {list[0], list[2], list[4]};
  e.tier(1).present = {list[1], list[3]};
  const auto a = e.request("a"), b = e.request("b");
  for (const auto i : {2, 0, 1}) CHECK(e.poll(a, list[i]) == LookupResult::hit_pending);
  for (const auto i : {4, 3}) CHECK(e.poll(b, list[i]) == LookupResult::hit_pending);
  CHECK(e.stats().scheduler.promotions_pending == 5);
  e.step_end();
  REQUIRE(e.tier(0).submitted.size() == 2);
  CHECK(e.tier(0).submitted[0].keys == KeyList{list[2], list[0]});
  CHECK(e.tier(0).submitted[0].request->request.req_id == "a");
  CHECK(e.tier(0).submitted[1].keys == KeyList{list[4]});
  REQUIRE(e.tier(1).submitted.size() == 2);
  CHECK(e.tier(1).submitted[0].keys == KeyList{list[1]});
  CHECK(e.tier(1).submitted[1].keys == KeyList{list[3]});
  e.step_end();  // nothing is submitted twice
  CHECK(e.tier(0).submitted.size() == 2);
  while (!e.tier(0).jobs.empty()) e.tier(0).finish(0);
  while (!e.tier(1).jobs.empty()) e.tier(1).finish(0);
  e.run();
  REQUIRE(e.finish(a));
  REQUIRE(e.finish(b));
  e.require_promises();
}

TEST_CASE("a chunk that two requests look up is promoted once", "[conformance]") {
  VirtualEngine e(memory_tiers());
  const auto list = keys("k", 1);
  e.tier().present = {list[0]};
  const auto a = e.request("a"), b = e.request("b");
  CHECK(e.poll(a, list[0]) == LookupResult::hit_pending);
  CHECK(e.poll(b, list[0]) == LookupResult::hit_pending);
  e.step_end();
  CHECK(e.tier().submitted.size() == 1);
  e.step_begin();
  CHECK(e.poll(b, list[0]) == LookupResult::hit);
}

TEST_CASE("a failed promotion frees its slot and is a miss afterwards, never retried", "[conformance]") {
  VirtualEngine e(reference_options());
  e.tier().automatic = false;
  const auto list = keys("k", 1);
  e.tier().present = {list[0]};
  const auto r = e.request();
  CHECK(e.poll(r, list[0]) == LookupResult::retry);
  e.step_begin();
  CHECK(e.poll(r, list[0]) == LookupResult::hit_pending);
  e.step_end();
  e.tier().unreadable = {list[0]};
  e.tier().finish(0);
  e.step_begin();
  CHECK(e.stats().primary.resident == 0);
  for (int step = 0; step < 3; ++step) {
    CHECK(e.poll(r, list[0]) == LookupResult::miss);
    e.step_end();
  }
  CHECK(e.tier().submitted.size() == 1);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a promotion that failed in part publishes exactly its good chunks", "[conformance]") {
  VirtualEngine e(memory_tiers());
  e.tier().automatic = false;
  const auto list = keys("k", 3);
  e.tier().present = {list[0], list[1], list[2]};
  e.tier().unreadable = {list[1]};
  const auto r = e.request();
  CHECK(letters(poll_all(e, r, list).results) == "PPP");
  e.step_end();
  e.tier().present.erase(list[1]);
  e.tier().finish(0);
  e.step_begin();
  CHECK(letters(poll_all(e, r, list, LookupScan::window).results) == "H.H");
  CHECK(e.stats().primary.resident == 2);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a tier hit without a free slot is a miss at once, later tiers are not asked", "[conformance]") {
  VirtualEngine e(memory_tiers(2, 2));
  const auto w = e.request("w");
  e.store(w, keys("busy", 2));
  const auto busy = e.prepare_load(w, keys("busy", 2));
  const auto list = keys("k", 1);
  e.tier(0).present = e.tier(1).present = {list[0]};
  const auto r = e.request();
  CHECK(e.poll(r, list[0]) == LookupResult::miss);
  const auto s = e.stats();
  CHECK(s.scheduler.promotion_allocation_failures == 1);
  CHECK(s.scheduler.lookups[1].chunk_hits == 1);  // the tier had it
  CHECK(s.scheduler.lookups[2].looked_up == 0);
  REQUIRE(e.complete_load(busy->lease));
  CHECK(e.poll(r, list[0]) == LookupResult::hit_pending);
}

TEST_CASE("a tier's retry does not hide a later tier's hit", "[conformance]") {
  auto options = reference_options(2);
  options.setup_tier = [](std::size_t t, ScriptedTier& tier) { tier.in_memory = t == 1; };
  VirtualEngine e(options);
  e.tier(0).answers_probes = false;
  const auto list = keys("k", 2);
  e.tier(1).present = {list[0]};
  const auto r = e.request();
  CHECK(e.poll(r, list[0]) == LookupResult::hit_pending);
  CHECK(e.poll(r, list[1]) == LookupResult::retry);
}

TEST_CASE("the load order of tiers decides who serves", "[conformance]") {
  VirtualEngine e(memory_tiers(2));
  const auto list = keys("k", 1);
  e.tier(0).present = e.tier(1).present = {list[0]};
  const auto r = e.request();
  CHECK(e.poll(r, list[0]) == LookupResult::hit_pending);
  e.step_end();
  CHECK(e.tier(0).submitted.size() == 1);
  CHECK(e.tier(1).submitted.empty());
}

TEST_CASE("the primary tier evicts what is least recent, and never a key of the call", "[conformance]") {
  VirtualEngine e(reference_options(0, 4));
  const auto list = keys("k", 8);
  const auto r = e.request();
  e.store(r, {list[1], list[2]});
  e.touch(r, {list[1]});
  const auto plan = e.prepare_store(r, {list[2], list[3], list[4], list[5]});
  REQUIRE(plan);
  CHECK(plan->key_idx == std::vector<std::uint32_t>{1, 2, 3});
  CHECK(plan->chunk_ids == std::vector<ChunkId>{2, 3, 0});
  CHECK(plan->evicted == 1);
  CHECK(e.poll(r, list[1]) == LookupResult::miss);
  CHECK(e.poll(r, list[2]) == LookupResult::hit);
}

TEST_CASE("a touch reaches the tiers that want it", "[conformance]") {
  auto options = memory_tiers(3);
  options.setup_tier = [](std::size_t t, ScriptedTier& tier) { tier.tier_traits.wants_touch = t != 1; };
  VirtualEngine e(options);
  const auto r = e.request();
  e.touch(r, keys("k", 3));
  e.touch(r, keys("k", 3));  // recency counts once per request
  CHECK(e.tier(0).calls == std::vector<std::string>{"touch 3"});
  CHECK(e.tier(1).calls.empty());
  CHECK(e.tier(2).calls == std::vector<std::string>{"touch 3"});
}

TEST_CASE("everything works without secondary tiers", "[conformance]") {
  VirtualEngine e(reference_options(0));
  const auto r = e.request();
  e.store(r, keys("k", 2));
  CHECK(e.poll(r, keys("k", 1)[0]) == LookupResult::hit);
  CHECK(e.poll(r, keys("other", 1)[0]) == LookupResult::miss);
  CHECK_FALSE(e.has_pending_work());
  REQUIRE(e.reset());
  CHECK(e.poll(r, keys("k", 1)[0]) == LookupResult::miss);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("events come from the primary tier first, then from the tiers in order", "[conformance]") {
  auto options = memory_tiers(2);
  options.events = true;
  VirtualEngine e(options);
  const auto r = e.request();
  e.store(r, keys("k", 1));
  e.tier(1).events.push_back({keys("b", 1), false, std::nullopt, Locality::remote, {}});
  e.tier(0).events.push_back({keys("a", 1), false, Medium::storage, std::nullopt, {}});
  const auto events = e.take_events();
  REQUIRE(events.size() == 3);
  CHECK(events[0].medium == Medium::cpu);
  CHECK(events[0].keys == keys("k", 1));
  CHECK(events[1].keys == keys("a", 1));
  CHECK(events[2].keys == keys("b", 1));
  CHECK(events[2].locality == Locality::remote);
  CHECK(e.take_events().empty());
}

TEST_CASE("work is pending exactly while jobs or parked cascades are", "[conformance]") {
  VirtualEngine e(memory_tiers());
  e.tier().automatic = false;
  CHECK_FALSE(e.has_pending_work());
  const auto r = e.request();
  e.store(r, keys("k", 1));
  CHECK(e.has_pending_work());
  e.tier().finish(0);
  e.run();
  CHECK_FALSE(e.has_pending_work());
  e.tier().present.insert(keys("p", 1)[0]);
  CHECK(e.poll(r, keys("p", 1)[0]) == LookupResult::hit_pending);
  CHECK(e.has_pending_work());  // granted, not yet submitted
}

TEST_CASE("a step that never ends does not keep promotions waiting", "[conformance]") {
  VirtualEngine e(memory_tiers());
  e.tier().present = {keys("k", 1)[0]};
  const auto r = e.request();
  CHECK(e.poll(r, keys("k", 1)[0]) == LookupResult::hit_pending);
  e.advance(1200ms);
  CHECK(e.tier().submitted.size() == 1);
  CHECK(e.poll(r, keys("k", 1)[0]) == LookupResult::hit);
}
