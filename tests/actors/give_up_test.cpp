#include "kv_offload/tests/support/virtual_engine.hpp"

// LookupOptions::give_up: a call's own deadline, and what is left when it has passed.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

namespace {

constexpr Duration kTick = 100ms;
LookupOptions within(Duration give_up) { return {.give_up = give_up}; }
std::uint64_t gave_up(VirtualEngine& e, std::size_t origin) {
  return e.stats().scheduler.lookups[origin].gave_up[static_cast<std::size_t>(GiveUpReason::deadline)];
}
void put(VirtualEngine& e, const KeyList& keys, std::size_t tier = 0) {
  e.tier(tier).present.insert(keys.begin(), keys.end());
}

}  // namespace

TEST_CASE("a call that gives up answers with the prefix that has landed, and not before its time", "[actor][deadline]") {
  VirtualEngine::Options options;
  options.tiers = 2;
  options.pin_share = 0.2;
  VirtualEngine e(options);
  const auto k = keys("k", 4);
  put(e, {k[0], k[1]}, 0);
  put(e, {k[2], k[3]}, 1);
  e.tier(0).automatic = e.tier(1).automatic = false;
  const auto r = e.request();
  const auto call = e.lookup(r, k, within(2s));
  e.tier(0).finish(0);
  e.advance(2s - kTick);
  CHECK_FALSE(call.answered());
  e.advance(2 * kTick);
  REQUIRE(call.answered());
  const auto answer = call.get();
  REQUIRE(answer);
  CHECK(answer->leading_hits == 2);
  CHECK(answer->gave_up == 2);
  CHECK(answer->results == std::vector{LookupResult::hit, LookupResult::hit, LookupResult::miss, LookupResult::miss});
  SECTION("what lands later is held for the request and found by its next lookup") {
    e.tier(1).finish(0);
    e.run();
    CHECK(e.stats().primary.held == 4);
    const auto again = e.lookup(r, k).get();
    REQUIRE(again);
    CHECK(again->leading_hits == 4);
    CHECK(again->promoted == 0);
  }
  SECTION("what fails later is nobody's") {
    e.tier(1).present.clear();
    e.tier(1).finish(0);
    e.run();
    CHECK(e.stats().primary.held == 2);
  }
  SECTION("the end of the request leaves nothing behind when it lands after that") {
    REQUIRE(e.finish(r));
    e.tier(1).finish(0);
    e.run();
    CHECK(e.stats().primary.held == 0);
    e.require_promises();
    return;
  }
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("who joined a load gives up on its own time, and the load goes on for the other", "[actor][deadline]") {
  VirtualEngine e({});
  put(e, keys("k", 2));
  e.tier().automatic = false;
  const auto first = e.request("first"), second = e.request("second");
  const auto patient = e.lookup(first, keys("k", 2));
  const auto hasty = e.lookup(second, keys("k", 2), within(1s));
  e.advance(1s + kTick);
  REQUIRE(hasty.answered());
  CHECK(hasty.get()->leading_hits == 0);
  CHECK(gave_up(e, 0) == 1);  // it had asked nobody but the primary tier, and ends at the first
  CHECK_FALSE(patient.answered());
  e.tier().finish(0);
  e.run();
  CHECK(patient.get()->leading_hits == 2);
  REQUIRE(e.finish(first));
  REQUIRE(e.finish(second));
  e.require_promises();
}

TEST_CASE("a silent tier costs a call no more than its own time", "[actor][deadline]") {
  VirtualEngine e({});
  e.tier().answers_probes = false;
  const auto r = e.request();
  const auto call = e.lookup(r, keys("k", 2), within(500ms));
  e.advance(500ms + kTick);
  REQUIRE(call.answered());
  CHECK(call.get()->gave_up == 2);
  CHECK(gave_up(e, 1) == 1);  // a scan key by key ends at the first
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("no call has more time than the engine gives", "[actor][deadline]") {
  const auto asked = GENERATE(Duration{1h}, Duration{0s}, Duration{-1s});
  VirtualEngine e({});
  put(e, keys("k", 1));
  const auto writer = e.request("writer"), r = e.request("r");
  const auto plan = e.prepare_store(writer, keys("w", 1));
  REQUIRE(plan);
  const auto call = e.lookup(r, keys("w", 1), within(asked));
  e.advance(60s - kTick);
  CHECK_FALSE(call.answered());
  e.advance(2 * kTick);
  REQUIRE(call.answered());
  CHECK(call.get()->gave_up == 1);
  REQUIRE(e.complete_store(plan->lease).get());
  REQUIRE(e.finish(writer));
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("who stands in line has half of its time for the whole prefix, and then takes what there is", "[actor][deadline]") {
  VirtualEngine::Options o;
  o.primary = PrimaryConfig{0.0, 0.5, 0.5};  // sixteen slots, eight of them for promotions not read yet
  o.pin_share = 1;
  VirtualEngine e(o);
  put(e, keys("h", 8));
  put(e, keys("k", 5));
  const auto holder = e.request("holder"), r = e.request("r");
  REQUIRE(e.lookup(holder, keys("h", 8)).get()->promoted == 8);
  SECTION("some") {
    const auto some = e.prepare_load(holder, keys("h", 3));
    REQUIRE(some);
    const auto call = e.lookup(r, keys("k", 5), within(4s));
    e.advance(2s - kTick);
    CHECK_FALSE(call.answered());
    e.advance(2 * kTick);
    REQUIRE(call.answered());
    CHECK(call.get()->leading_hits == 3);
    CHECK(call.get()->truncated == 2);
    REQUIRE(e.complete_load(some->lease));
  }
  SECTION("nothing at its half, and its time is over behind another") {
    const auto other = e.request("other");
    put(e, keys("o", 8));
    const auto ahead = e.lookup(other, keys("o", 8));
    const auto behind = e.lookup(r, keys("k", 5), within(200ms));  // its time is over with the tick of its half
    e.advance(300ms);
    REQUIRE(behind.answered());
    CHECK_FALSE(ahead.answered());
    REQUIRE(e.finish(holder));
    CHECK(ahead.get()->leading_hits == 8);
    REQUIRE(e.finish(other));
    REQUIRE(e.finish(r));
    e.require_promises();
    return;
  }
  REQUIRE(e.finish(holder));
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a call whose time is over before its turn has given up, and its loads are dropped as late", "[actor][deadline]") {
  VirtualEngine::Options o;
  o.primary = PrimaryConfig{0.0, 0.5, 0.5};
  o.pin_share = 1;
  o.tiers = 2;
  o.setup_tier = [](std::size_t t, ScriptedTier& tier) { tier.answers_probes = t == 1; };
  VirtualEngine e(o);
  put(e, keys("h", 8), 1);
  put(e, keys("k", 2), 1);
  const auto holder = e.request("holder"), r = e.request("r");
  const auto held = e.lookup(holder, keys("h", 8));
  e.advance(5s + kTick);
  REQUIRE(held.get()->promoted == 8);
  const auto call = e.lookup(r, keys("k", 2), within(6s));  // five of them for the silent tier
  e.advance(5s + kTick);
  CHECK_FALSE(call.answered());
  e.advance(1s);
  REQUIRE(call.answered());
  const auto answer = call.get();
  CHECK(answer->leading_hits == 0);
  CHECK(answer->gave_up == 2);
  CHECK(answer->truncated == 0);
  CHECK(e.stats().scheduler.offers[1].promotions_dropped[static_cast<std::size_t>(DropReason::deadline)].chunks == 2);
  REQUIRE(e.finish(holder));
  REQUIRE(e.finish(r));
  e.require_promises();
}
