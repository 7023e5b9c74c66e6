#include "kv_offload/tests/support/virtual_engine.hpp"

using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

namespace {

VirtualEngine::Call<Ok> reset(VirtualEngine& e) {
  return e.start<Ok>([](Reply<Ok> reply) { return ResetCall{false, {}, std::move(reply)}; });
}
VirtualEngine::Call<Ok> drain(VirtualEngine& e) {
  return e.start<Ok>([](Reply<Ok> reply) { return DrainCall{false, std::nullopt, std::move(reply)}; });
}

}  // namespace

TEST_CASE("reset forgets the primary tier and keeps requests and secondary tiers", "[actor][reset]") {
  VirtualEngine e({});
  const auto r = e.request();
  e.store(r, keys("k", 3));
  REQUIRE(reset(e).get());
  auto s = e.stats();
  CHECK(s.primary.resident == 0);
  CHECK(s.scheduler.requests_live == 1);
  CHECK(e.lookup(r, keys("k", 3)).get()->tier_hits == std::vector<std::uint32_t>{0, 3});
  const auto plan = e.prepare_store(r, keys("n", 1));
  CHECK(plan->chunk_ids == std::vector<ChunkId>{3});  // numbering began at 0 again: 0–2 were promoted
  REQUIRE(e.complete_store(plan->lease).get());
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a reset waits for running transfers, cancels queued ones and refuses new work", "[actor][reset]") {
  VirtualEngine e({});
  e.tier().automatic = false;
  const auto r = e.request();
  e.store(r, keys("k", 2));
  // The scripted tier cancels what is queued; what it calls running is taken out first.
  const auto running = e.tier().jobs.front();
  e.tier().jobs.clear();
  auto call = reset(e);
  CHECK_FALSE(call.answered());
  CHECK(e.lookup(r, keys("k", 2)).get().error().code == OffloadErrc::resetting);
  e.tier().jobs.push_back(running);
  e.tier().finish(0);
  e.run();
  REQUIRE(call.answered());
  REQUIRE(call.get());
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a reset ends by its deadline: busy slots stay out of use and late results are stale", "[actor][reset]") {
  VirtualEngine e({});
  e.tier().automatic = false;
  const auto r = e.request();
  e.store(r, keys("k", 2));
  auto running = e.tier().jobs.front();
  e.tier().jobs.clear();
  auto call = reset(e);
  e.advance(29s);
  CHECK_FALSE(call.answered());
  e.advance(2s);
  REQUIRE(call.answered());
  REQUIRE(call.get());
  CHECK(e.stats().primary.quarantined == 2);
  const auto plan = e.prepare_store(r, keys("n", 2));
  REQUIRE(plan);
  CHECK(plan->chunk_ids == std::vector<ChunkId>{2, 3});  // 0 and 1 may still be read by the lane
  REQUIRE(e.complete_store(plan->lease, {.success = false}).get());
  e.tier().jobs.push_back(running);
  e.tier().finish(0);
  e.run();
  CHECK(e.stats().primary.quarantined == 0);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("completions are accepted during and after a reset", "[actor][reset]") {
  VirtualEngine e({});
  const auto r = e.request();
  const auto plan = e.prepare_store(r, keys("k", 2));
  REQUIRE(plan);
  REQUIRE(reset(e).get());
  CHECK(e.stats().primary.quarantined == 2);  // the caller may still write into them
  const auto outcome = e.complete_store(plan->lease).get();
  REQUIRE(outcome);
  CHECK(outcome->published == 0);
  CHECK(e.stats().primary.quarantined == 0);
  CHECK(e.lookup(r, keys("k", 2)).get()->leading_hits == 0);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("an open lookup is answered when a reset begins", "[actor][reset]") {
  VirtualEngine e({});
  for (const auto& key : keys("k", 2)) e.tier().present.insert(key);
  e.tier().automatic = false;
  const auto r = e.request();
  auto call = e.lookup(r, keys("k", 2));
  auto resetting = reset(e);
  REQUIRE(call.answered());
  CHECK(call.get().error().code == OffloadErrc::resetting);
  REQUIRE(resetting.answered());  // the queued load was cancelled
  REQUIRE(resetting.get());
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("who stands in line for slots when a reset begins loads nothing afterwards",
          "[actor][reset][grants]") {
  VirtualEngine::Options o;
  o.chunks = 16;
  o.primary = PrimaryConfig{0.0, 0.5, 0.5};
  o.pin_share = 1;
  VirtualEngine e(o);
  for (const auto* name : {"h", "a", "b"})
    for (const auto& key : keys(name, 8)) e.tier().present.insert(key);
  const auto holder = e.request("holder"), a = e.request("a"), b = e.request("b");
  REQUIRE(e.lookup(holder, keys("h", 8)).get()->promoted == 8);
  const auto first = e.lookup(a, keys("a", 6)), second = e.lookup(b, keys("b", 6));
  CHECK_FALSE(first.answered());
  CHECK_FALSE(second.answered());
  const auto jobs = e.tier().submitted.size();
  REQUIRE(reset(e).get());
  CHECK(first.get().error().code == OffloadErrc::resetting);
  CHECK(second.get().error().code == OffloadErrc::resetting);
  CHECK(e.tier().submitted.size() ==
        jobs);  // the end of the first made room for the second: too late
  CHECK(e.stats().primary.resident == 0);
  CHECK(e.lookup(a, keys("a", 6)).get()->leading_hits == 6);
  for (const auto r : {holder, a, b}) REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("drain answers when no job is active, or by its deadline", "[actor]") {
  VirtualEngine e({});
  e.tier().automatic = false;
  const auto r = e.request();
  CHECK(drain(e).get());
  e.store(r, keys("k", 2));
  SECTION("ended") {
    auto call = drain(e);
    CHECK_FALSE(call.answered());
    e.tier().finish(0);
    e.run();
    REQUIRE(call.answered());
    CHECK(call.get());
  }
  SECTION("stuck") {
    auto call = drain(e);
    e.advance(31s);
    REQUIRE(call.answered());
    CHECK(call.get().error().code == OffloadErrc::deadline);
    e.tier().finish(0);
    e.run();
  }
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a tier whose lane dies fails its jobs at once while the other tier serves", "[actor]") {
  VirtualEngine::Options options;
  options.tiers = 2;
  options.pin_share = 0.2;
  VirtualEngine e(options);
  e.tier(0).automatic = false;
  const auto r = e.request();
  e.store(r, keys("k", 2));
  e.tier(0).sink->lane_died("the ring is gone");
  e.run();
  const auto s = e.stats();
  CHECK(s.tracker.abandoned == 1);
  CHECK(s.tracker.tiers[0].disabled);
  CHECK(s.tracker.tiers[0].store_failed[static_cast<std::size_t>(TransferFailure::lane_dead)].chunks == 2);
  CHECK(s.tracker.tiers[1].stored.chunks == 2);
  CHECK(s.primary.pins_abandoned == 2);
  REQUIRE(reset(e).get());
  CHECK(e.lookup(r, keys("k", 2)).get()->tier_hits == std::vector<std::uint32_t>{0, 0, 2});
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("the death of a stateful actor names a failed state", "[actor]") {
  VirtualEngine e({});
  e.tier().answers_probes = false;
  const auto r = e.request();
  const auto open = e.lookup(r, keys("k", 1));
  caf::anon_send_exit(e.actors.primaries.front(), caf::exit_reason::kill);
  e.run();
  CHECK(open.get().error().code == OffloadErrc::engine_failed);
  REQUIRE_FALSE(e.log.empty());
  CHECK(e.log.back().find("kv_offload.primary_tier died") != std::string::npos);
  CHECK(e.lookup(r, keys("k", 1)).get().error().code == OffloadErrc::engine_failed);
}

TEST_CASE("the same run repeats message by message", "[actor]") {
  const auto play = [] {
    VirtualEngine e({});
    const auto a = e.request("a"), b = e.request("b");
    e.store(a, keys("k", 5));
    e.store(b, keys("n", 12));
    e.lookup(a, keys("k", 6));
    e.lookup(b, keys("k", 6));
    return e.take_trace();
  };
  CHECK(play() == play());
}
