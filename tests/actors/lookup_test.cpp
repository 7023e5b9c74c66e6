#include "kv_offload/tests/support/virtual_engine.hpp"

using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

TEST_CASE("a lookup promotes what the tier holds and answers when it has landed", "[actor]") {
  VirtualEngine e({});
  for (const auto& key : keys("k", 3)) e.tier().present.insert(key);
  e.tier().automatic = false;
  const auto r = e.request();
  auto call = e.lookup(r, keys("k", 4));
  CHECK_FALSE(call.answered());
  e.tier().finish(0);
  e.run();
  const auto answer = call.get();
  REQUIRE(answer);
  CHECK(answer->leading_hits == 3);
  CHECK(answer->promoted == 3);
  CHECK(answer->results == std::vector{LookupResult::hit, LookupResult::hit, LookupResult::hit, LookupResult::miss});
  CHECK(answer->tier_hits == std::vector<std::uint32_t>{0, 3});
  CHECK(e.stats().primary.held == 3);  // until read or until the request ends
  REQUIRE(e.finish(r));
  CHECK(e.stats().primary.held == 0);
  e.require_promises();
}

TEST_CASE("a lookup that does not wait for landing says hit_pending", "[actor]") {
  VirtualEngine e({});
  for (const auto& key : keys("k", 2)) e.tier().present.insert(key);
  e.tier().automatic = false;
  const auto r = e.request();
  LookupOptions options;
  options.wait = LookupWait::resolved;
  const auto answer = e.lookup(r, keys("k", 2), options).get();
  REQUIRE(answer);
  CHECK(answer->results == std::vector{LookupResult::hit_pending, LookupResult::hit_pending});
  CHECK(answer->leading_hits == 2);
  e.tier().finish(0);
  e.run();
  CHECK(e.lookup(r, keys("k", 2), options).get()->results == std::vector{LookupResult::hit, LookupResult::hit});
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("requests that want the same cold prefix share one load", "[actor]") {
  VirtualEngine e({});
  for (const auto& key : keys("k", 3)) e.tier().present.insert(key);
  e.tier().automatic = false;
  std::vector<RequestHandle> requests;
  std::vector<VirtualEngine::Call<LookupAnswer>> calls;
  for (int i = 0; i < 20; ++i) {
    requests.push_back(e.request("r" + std::to_string(i)));
    calls.push_back(e.lookup(requests.back(), keys("k", 3)));
  }
  CHECK(e.tier().jobs.size() == 1);
  e.tier().finish(0);
  e.run();
  for (auto& call : calls) CHECK(call.get()->leading_hits == 3);
  CHECK(e.stats().tracker.jobs_registered == 1);
  for (const auto r : requests) REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a storm is one load also when admission allows few promotions", "[actor]") {
  VirtualEngine::Options options;
  options.admission = R"({"type": "promotion_concurrency", "max_inflight_promotions": 4})";
  VirtualEngine e(options);
  for (const auto& key : keys("k", 3)) e.tier().present.insert(key);
  e.tier().automatic = false;
  // All lookups are in the mailbox before any of them is handled.
  std::vector<RequestHandle> requests;
  for (int i = 0; i < 10; ++i) requests.push_back(e.request("r" + std::to_string(i)));
  std::vector<std::shared_ptr<CompletionSlot<LookupAnswer>>> slots;
  for (const auto r : requests) {
    slots.push_back(std::make_shared<CompletionSlot<LookupAnswer>>(0U));
    caf::anon_send(e.actors.steps.front(), LookupCall{r,
                                                      std::make_shared<const KeyList>(keys("k", 3)),
                                                      {},
                                                      Reply<LookupAnswer>(slots.back())});
  }
  e.run();
  REQUIRE(e.tier().jobs.size() == 1);
  e.tier().finish(0);
  e.run();
  for (auto& slot : slots) {
    REQUIRE(slot->ready());
    CHECK(slot->take()->leading_hits == 3);
  }
  for (const auto r : requests) REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a key whose load fails goes on with the next tier, once per tier", "[actor]") {
  VirtualEngine::Options options;
  options.tiers = 2;
  options.pin_share = 0.2;
  VirtualEngine e(options);
  for (std::size_t t = 0; t < 2; ++t)
    for (const auto& key : keys("k", 3)) e.tier(t).present.insert(key);
  e.tier(0).unreadable.insert(keys("k", 3)[1]);
  const auto r = e.request();
  SECTION("the second tier has it") {
    const auto answer = e.lookup(r, keys("k", 3)).get();
    REQUIRE(answer);
    CHECK(answer->leading_hits == 3);
    CHECK(answer->tier_hits == std::vector<std::uint32_t>{0, 2, 1});
  }
  SECTION("no tier can read it: a miss, after one try each") {
    e.tier(1).unreadable.insert(keys("k", 3)[1]);
    const auto answer = e.lookup(r, keys("k", 3)).get();
    REQUIRE(answer);
    CHECK(answer->leading_hits == 1);
    CHECK(e.stats().tracker.jobs_registered == 2);
  }
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("probe windows grow and stop at the first miss", "[actor]") {
  VirtualEngine::Options options;
  options.chunks = 64;
  VirtualEngine e(options);
  for (const auto& key : keys("k", 10)) e.tier().present.insert(key);
  const auto r = e.request();
  const auto answer = e.lookup(r, keys("k", 200)).get();
  REQUIRE(answer);
  CHECK(answer->leading_hits == 10);
  REQUIRE(e.tier().probes.size() == 2);
  CHECK(e.tier().probes[0].second.size() == 8);
  CHECK(e.tier().probes[1].second.size() == 32);
  // Metrics cover exactly what a key-by-key scan reaches: ten hits and the first miss.
  const auto& l = e.stats().scheduler.lookups;
  CHECK(l[0].chunk_queries == 11);
  CHECK(l[1].chunk_queries == 11);
  CHECK(l[1].chunk_hits == 10);
  REQUIRE(e.finish(r));
  e.require_promises();
}

namespace {

/// Keys that the tier was asked for, probe by probe, since the last call.
std::vector<std::size_t> windows(VirtualEngine& e) {
  std::vector<std::size_t> sizes;
  for (const auto& [id, keys] : std::exchange(e.tier().probes, {})) sizes.push_back(keys.size());
  return sizes;
}

using Windows = std::vector<std::size_t>;

}  // namespace

TEST_CASE("the first window follows what the latest lookups found", "[actor]") {
  VirtualEngine::Options options;
  options.chunks = 1024;
  VirtualEngine e(options);
  for (const auto* prompt : {"a", "b", "c"})
    for (const auto& key : keys(prompt, 40)) e.tier().present.insert(key);
  const auto r = e.request();
  const auto found = [&](const std::string& prompt) {
    return e.lookup(r, keys(prompt, 100)).get()->leading_hits;
  };
  CHECK(found("a") == 40);
  CHECK(windows(e) == Windows{8, 32, 60});
  CHECK(found("b") == 40);
  CHECK(windows(e) == Windows{40, 60});  // the miss behind it has to be seen as well
  SECTION("what is asked in vain is less every time") {
    for (const auto expected : {40, 20, 10, 8, 8}) {
      CHECK(found("nowhere" + std::to_string(expected)) == 0);
      CHECK(windows(e) == Windows{static_cast<std::size_t>(expected)});
    }
    CHECK(found("c") == 40);
    CHECK(windows(e) == Windows{8, 32, 60});
  }
  SECTION("lookups that begin together share it") {
    e.tier().answers_probes = false;
    const auto others = e.request("others");
    std::vector<VirtualEngine::Call<LookupAnswer>> calls;
    for (int n = 0; n < 8; ++n)
      calls.push_back(e.lookup(others, keys("nowhere" + std::to_string(n), 100)));
    CHECK(windows(e) == Windows{40, 20, 10, 8, 8, 8, 8, 8});
    e.tier().answers_probes = true;
    e.advance(6s);
    for (auto& call : calls) CHECK(call.get()->leading_hits == 0);
    REQUIRE(e.finish(others));
  }
  SECTION("a short prompt takes no more away than it asks for") {
    CHECK(e.lookup(r, keys("nowhere", 4)).get()->leading_hits == 0);
    CHECK(windows(e) == Windows{4});
    CHECK(found("c") == 40);
    CHECK(windows(e) == Windows{38, 62});
  }
  SECTION("pollers neither use nor change it") {
    e.tier().answers_probes = false;
    CHECK(e.poll(r, keys("nowhere", 1)[0]) == LookupResult::retry);
    e.tier().answers_probes = true;
    windows(e);
    CHECK(found("c") == 40);
    CHECK(windows(e) == Windows{40, 60});
  }
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("no window is larger than what a tier asks for at a time", "[actor]") {
  VirtualEngine::Options options;
  options.chunks = 1024;
  options.probes_max = GENERATE(5U, 20U);
  VirtualEngine e(options);
  for (const auto* prompt : {"a", "b"})
    for (const auto& key : keys(prompt, 60)) e.tier().present.insert(key);
  const auto r = e.request();
  for (const auto* prompt : {"a", "b"}) {
    CHECK(e.lookup(r, keys(prompt, 60)).get()->leading_hits == 60);
    for (const auto window : windows(e)) CHECK(window <= options.probes_max);
  }
  CHECK(
      e.stats().scheduler.lookups[1].gave_up[static_cast<std::size_t>(GiveUpReason::probes_full)] ==
      0);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("window lookups resolve every key on its own", "[actor]") {
  VirtualEngine e({});
  const auto k = keys("k", 4);
  e.tier().present = {k[1], k[3]};
  const auto r = e.request();
  LookupOptions options;
  options.scan = LookupScan::window;
  const auto answer = e.lookup(r, k, options).get();
  REQUIRE(answer);
  CHECK(answer->results == std::vector{LookupResult::miss, LookupResult::hit, LookupResult::miss, LookupResult::hit});
  CHECK(answer->leading_hits == 0);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("promotions beyond the unread share are truncated, reported and counted", "[actor]") {
  VirtualEngine e({});  // 16 chunks, a third of them for unread promotions
  for (const auto& key : keys("k", 12)) e.tier().present.insert(key);
  const auto r = e.request();
  const auto answer = e.lookup(r, keys("k", 12)).get();
  REQUIRE(answer);
  CHECK(answer->leading_hits == 4);
  CHECK(answer->truncated > 0);
  const auto s = e.stats();
  CHECK(s.scheduler.promotion_allocation_failures == 1);
  CHECK(s.scheduler.offers[0].promotions_dropped[static_cast<std::size_t>(DropReason::no_space)].chunks > 0);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a refused promotion is a miss, counted once per request and chunk", "[actor]") {
  VirtualEngine::Options options;
  options.admission = R"({"type": "promotion_concurrency", "max_inflight_promotions": 2})";
  VirtualEngine e(options);
  for (const auto& key : keys("k", 4)) e.tier().present.insert(key);
  e.tier().automatic = false;
  const auto r = e.request();
  LookupOptions options_resolved;
  options_resolved.wait = LookupWait::resolved;
  for (int again = 0; again < 3; ++again) {
    const auto answer = e.lookup(r, keys("k", 4), options_resolved).get();
    REQUIRE(answer);
    CHECK(answer->leading_hits == 2);
    CHECK(answer->refused == 1);
  }
  const auto s = e.stats();
  CHECK(s.scheduler.offers[0].promotions_refused_once == 1);
  CHECK(s.primary.write_pending == 2);  // a refused chunk costs no slot
  e.tier().finish(0);
  e.run();
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a tier that never answers a probe costs its deadline, not the lookup", "[actor][deadline]") {
  VirtualEngine::Options options;
  options.tiers = 2;
  options.pin_share = 0.2;
  VirtualEngine e(options);
  e.tier(0).answers_probes = false;
  for (const auto& key : keys("k", 2)) e.tier(1).present.insert(key);
  const auto r = e.request();
  auto call = e.lookup(r, keys("k", 2));
  e.advance(4s);
  CHECK_FALSE(call.answered());
  e.advance(1100ms);
  REQUIRE(call.answered());
  const auto answer = call.get();
  CHECK(answer->leading_hits == 2);
  CHECK(e.stats().scheduler.lookups[1].gave_up[static_cast<std::size_t>(GiveUpReason::deadline)] == 2);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a load that never ends: Outcome by deadline, slots only at Quiesced, late data discarded", "[actor][deadline]") {
  VirtualEngine e({});
  for (const auto& key : keys("k", 2)) e.tier().present.insert(key);
  e.tier().automatic = false;
  const auto r = e.request();
  auto call = e.lookup(r, keys("k", 2));
  e.advance(31s);
  REQUIRE(call.answered());
  CHECK(call.get()->leading_hits == 0);
  auto s = e.stats();
  CHECK(s.tracker.deadline_outcomes == 1);
  CHECK(s.primary.quarantined == 2);
  CHECK(s.admission.tiers[0].in_flight == 2);
  CHECK(e.tier().cancelled.size() == 1);
  e.tier().finish(0);  // late, and successful
  e.run();
  s = e.stats();
  CHECK(s.tracker.late_results == 1);
  CHECK(s.primary.quarantined == 0);
  CHECK(s.primary.resident == 0);
  CHECK(s.admission.tiers[0].in_flight == 0);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a lane that never quiesces loses its tier, not the engine", "[actor][deadline]") {
  VirtualEngine e({});
  for (const auto& key : keys("k", 2)) e.tier().present.insert(key);
  e.tier().automatic = false;
  const auto r = e.request();
  e.lookup(r, keys("k", 2));
  e.advance(61s);
  const auto s = e.stats();
  CHECK(s.tracker.abandoned == 1);
  CHECK(s.tracker.tiers[0].disabled);
  CHECK(s.primary.quarantined == 2);  // until the engine ends
  e.store(r, keys("n", 2));           // refused by the disabled tier, but the engine lives
  CHECK(e.stats().scheduler.offers[0].cascades_refused[static_cast<std::size_t>(RefusalReason::tier_disabled)].chunks == 2);
  CHECK(e.lookup(r, keys("n", 2)).get()->leading_hits == 2);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a lane that lets queued jobs miss their deadlines again and again loses its tier", "[actor][deadline]") {
  VirtualEngine e({});
  e.tier().automatic = false;
  const auto r = e.request();
  const auto miss_a_deadline = [&](const std::string& name) {
    e.store(r, keys(name, 1));
    e.advance(31s);
    e.tier().cancel_queued();  // the dead lane's queue answers the cancellation, nothing else does
    e.run();
  };
  miss_a_deadline("a");
  CHECK_FALSE(e.stats().tracker.tiers[0].disabled);
  SECTION("silent") {
    miss_a_deadline("b");
    CHECK(e.stats().tracker.tiers[0].disabled);
    CHECK(e.stats().tracker.abandoned == 0);  // every job had quiesced
  }
  SECTION("but not if anything ends in between") {
    e.store(r, keys("c", 1));
    e.tier().finish(0);
    e.run();
    miss_a_deadline("b");
    CHECK_FALSE(e.stats().tracker.tiers[0].disabled);
  }
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("an abort answers at once and never cancels a load that others wait for", "[actor]") {
  VirtualEngine e({});
  for (const auto& key : keys("k", 2)) e.tier().present.insert(key);
  e.tier().automatic = false;
  const auto first = e.request("first"), second = e.request("second");
  auto aborted = e.lookup(first, keys("k", 2));
  auto served = e.lookup(second, keys("k", 2));
  REQUIRE(e.abort(first));
  REQUIRE(aborted.answered());
  CHECK(aborted.get().error().code == OffloadErrc::aborted);
  CHECK_FALSE(served.answered());
  e.tier().finish(0);
  e.run();
  CHECK(served.get()->leading_hits == 2);
  REQUIRE(e.finish(first));
  REQUIRE(e.finish(second));
  e.require_promises();
}

TEST_CASE("an unread promotion is held until its time is up", "[actor][deadline]") {
  VirtualEngine e({});
  for (const auto& key : keys("k", 2)) e.tier().present.insert(key);
  const auto r = e.request();
  REQUIRE(e.lookup(r, keys("k", 2)).get()->leading_hits == 2);
  e.advance(119s);
  CHECK(e.stats().primary.held == 2);
  e.advance(2s);
  CHECK(e.stats().primary.held == 0);
  CHECK(e.stats().primary.pins_expired_unread == 2);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a request's filter limits the secondary tiers only", "[actor]") {
  VirtualEngine e({});
  for (const auto& key : keys("k", 2)) e.tier().present.insert(key);
  const auto none = e.request("none", TierFilter::only({}));
  CHECK(e.lookup(none, keys("k", 2)).get()->leading_hits == 0);
  CHECK(e.tier().probes.empty());
  e.store(none, keys("p", 2));
  CHECK(e.lookup(none, keys("p", 2)).get()->leading_hits == 2);
  const auto remote = e.request("remote", TierFilter::only({TierMatcher{std::nullopt, Locality::remote}}));
  CHECK(e.lookup(remote, keys("k", 2)).get()->leading_hits == 0);
  const auto local = e.request("local", TierFilter::only({TierMatcher{Medium::storage, Locality::local}}));
  CHECK(e.lookup(local, keys("k", 2)).get()->leading_hits == 2);
  for (const auto r : {none, remote, local}) REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a key being stored by another caller is waited for", "[actor]") {
  VirtualEngine e({});
  const auto writer = e.request("writer"), reader = e.request("reader");
  const auto plan = e.prepare_store(writer, keys("k", 2));
  REQUIRE(plan);
  auto call = e.lookup(reader, keys("k", 2));
  CHECK_FALSE(call.answered());
  SECTION("and found when it is published") {
    REQUIRE(e.complete_store(plan->lease).get());
    REQUIRE(call.answered());
    CHECK(call.get()->leading_hits == 2);
  }
  SECTION("and missed when the store fails") {
    REQUIRE(e.complete_store(plan->lease, {.success = false}).get());
    REQUIRE(call.answered());
    CHECK(call.get()->leading_hits == 0);
  }
  SECTION("and given up at the lookup's deadline") {
    e.advance(61s);
    REQUIRE(call.answered());
    CHECK(call.get()->gave_up == 2);
    REQUIRE(e.complete_store(plan->lease).get());
  }
  REQUIRE(e.finish(writer));
  REQUIRE(e.finish(reader));
  e.require_promises();
}
