#include "kv_offload/tests/conformance/conformance.hpp"

#include "kv_offload/actors/verdict_table.hpp"

// Tiers that have to look: what the polling view says while they do, and afterwards.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

namespace {

/// One tier whose probes wait until the test answers them.
VirtualEngine::Options slow_prober() {
  auto options = reference_options();
  options.setup_tier = [](std::size_t, ScriptedTier& tier) { tier.answers_probes = false; };
  return options;
}
void answer_probes(VirtualEngine& e) {
  auto probes = std::exchange(e.tier().probes, {});
  for (const auto& [id, list] : probes) e.tier().answer_probe(id, list);
  e.run();
}

}  // namespace

TEST_CASE("a key that nobody asked for before is a retry, then what the tier says", "[conformance]") {
  VirtualEngine e(slow_prober());
  e.tier().present = {keys("k", 1)[0]};
  const auto r = e.request();
  CHECK(letters(poll_all(e, r, keys("k", 2), LookupScan::window).results) == "RR");
  CHECK(letters(poll_all(e, r, keys("k", 2), LookupScan::window).results) == "RR");
  CHECK(e.tier().probes.size() == 1);  // asked once, both keys together
  answer_probes(e);
  CHECK(letters(poll_all(e, r, keys("k", 2), LookupScan::window).results) == "P.");
  CHECK(e.tier().probes.empty());
}

TEST_CASE("a poll asks on behind a retry, so that one step starts every probe", "[conformance]") {
  auto options = slow_prober();
  options.chunks = 32;
  VirtualEngine e(options);
  const auto list = keys("k", 20);
  for (const auto& key : list) e.tier().present.insert(key);
  const auto r = e.request();
  const auto first = poll_all(e, r, list);
  CHECK(letters(first.results) == std::string(20, 'R'));
  CHECK(first.leading_hits == 0);
  std::size_t asked = 0;
  for (const auto& [id, probed] : e.tier().probes) asked += probed.size();
  CHECK(asked == 20);
  answer_probes(e);
  CHECK(letters(poll_all(e, r, list).results) == std::string(20, 'P'));
}

TEST_CASE("a prefix scan counts and promotes nothing behind its first miss", "[conformance]") {
  VirtualEngine e(reference_options());
  const auto list = keys("k", 12);
  e.tier().present = {list[0], list[2], list[11]};
  const auto r = e.request();
  poll_all(e, r, list);
  CHECK(letters(poll_all(e, r, list).results) == "P...........");
  CHECK(e.stats().scheduler.lookups[1].chunk_queries == 2);  // the hit and the miss that ends the scan
  e.step_end();
  REQUIRE(e.tier().submitted.size() == 1);
  CHECK(e.tier().submitted[0].keys == KeyList{list[0]});
}

TEST_CASE("a verdict is shared by requests and lives as long as the last of them", "[conformance]") {
  VirtualEngine e(slow_prober());
  const auto list = keys("k", 1);
  const auto a = e.request("a"), b = e.request("b");
  CHECK(e.poll(a, list[0]) == LookupResult::retry);
  CHECK(e.poll(b, list[0]) == LookupResult::retry);
  CHECK(e.tier().probes.size() == 1);
  answer_probes(e);
  REQUIRE(e.finish(a));
  CHECK(e.stats().tiers[0].verdicts == 1);
  CHECK(e.poll(b, list[0]) == LookupResult::miss);
  CHECK(e.tier().probes.empty());
  REQUIRE(e.finish(b));
  CHECK(e.stats().tiers[0].verdicts == 0);
  e.require_promises();
}

TEST_CASE("ended and aborted requests leave no verdict behind", "[conformance]") {
  VirtualEngine e(slow_prober());
  const auto a = e.request("a"), b = e.request("b");
  poll_all(e, a, keys("a", 3));
  poll_all(e, b, keys("b", 3));
  REQUIRE(e.abort(a));
  REQUIRE(e.finish(a));
  REQUIRE(e.finish(b));
  CHECK(e.stats().tiers[0].verdicts == 0);
  answer_probes(e);  // nobody wants to know any more
  CHECK(e.stats().tiers[0].verdicts == 0);
  e.require_promises();
}

TEST_CASE("a key asked again while its first probe runs takes the second probe's word", "[conformance]") {
  VirtualEngine e(slow_prober());
  const auto list = keys("k", 1);
  const auto a = e.request("a");
  CHECK(e.poll(a, list[0]) == LookupResult::retry);
  REQUIRE(e.finish(a));
  const auto b = e.request("b");
  CHECK(e.poll(b, list[0]) == LookupResult::retry);
  REQUIRE(e.tier().probes.size() == 2);
  const auto late = e.tier().probes.front();
  e.tier().probes.erase(e.tier().probes.begin());
  e.tier().sink->probed(late.first, {LookupResult::hit});
  e.run();
  CHECK(e.poll(b, list[0]) == LookupResult::retry);  // the first probe's answer is nobody's
  answer_probes(e);
  CHECK(e.poll(b, list[0]) == LookupResult::miss);
}

TEST_CASE("a store that the engine makes corrects a stale miss", "[conformance]") {
  VirtualEngine e(reference_options(1, 2));
  const auto list = keys("k", 1);
  const auto r = e.request("r"), w = e.request("w");
  CHECK(e.poll(r, list[0]) == LookupResult::retry);
  CHECK(e.poll(r, list[0]) == LookupResult::miss);
  e.store(w, list);
  e.store(w, keys("x", 2));  // out of the primary tier again
  CHECK(e.poll(r, list[0]) == LookupResult::hit_pending);
  CHECK(e.tier().probes.size() == 1);
}

TEST_CASE("a key whose store into a tier runs is neither hit nor miss there", "[conformance]") {
  VirtualEngine e(reference_options());
  e.tier().automatic = false;
  const auto list = keys("k", 1);
  const auto w = e.request("w");
  e.store(w, list);
  REQUIRE(e.tier().jobs.size() == 1);
  // The primary tier has it as long as the store runs, so the tier itself is asked.
  auto call = e.start<ForgetSummary>([&](Reply<ForgetSummary> reply) {
    return ForgetCall{std::make_shared<const KeyList>(list), {}, false, std::move(reply)};
  });
  CHECK_FALSE(call.answered());
  const auto r = e.request("r");
  CHECK(e.poll(r, list[0]) == LookupResult::retry);
  CHECK(e.tier().probes.empty());
  auto landed = e.lookup(r, list);
  CHECK(letters(landed.get()->results) == "R");
  e.tier().finish(0);
  e.run();
  REQUIRE(call.get());
  CHECK(e.poll(r, list[0]) == LookupResult::retry);  // now it is asked for
  CHECK(e.poll(r, list[0]) == LookupResult::miss);
}

TEST_CASE("a failed probe is asked again, a few times, and then is a miss", "[conformance]") {
  VirtualEngine e(slow_prober());
  const auto list = keys("k", 1);
  const auto r = e.request();
  for (std::uint32_t tries = 0; tries < VerdictTable::kTriesMax; ++tries) {
    CHECK(e.poll(r, list[0]) == LookupResult::retry);
    REQUIRE(e.tier().probes.size() == 1);
    e.tier().sink->probed(e.tier().probes[0].first, {LookupResult::retry});
    e.tier().probes.clear();
    e.run();
  }
  CHECK(e.poll(r, list[0]) == LookupResult::miss);
  CHECK(e.tier().probes.empty());
  const auto s = e.stats();
  CHECK(s.scheduler.lookups[1].gave_up[static_cast<std::size_t>(GiveUpReason::error)] == 1);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a probe that is never answered ends by its deadline", "[conformance]") {
  VirtualEngine e(slow_prober());
  const auto r = e.request();
  CHECK(e.poll(r, keys("k", 1)[0]) == LookupResult::retry);
  e.advance(6s);
  CHECK(e.poll(r, keys("k", 1)[0]) == LookupResult::retry);  // asked anew
  CHECK(e.tier().probes.size() == 2);
  e.advance(6s);
  CHECK(e.poll(r, keys("k", 1)[0]) == LookupResult::retry);
  e.advance(6s);
  CHECK(e.poll(r, keys("k", 1)[0]) == LookupResult::miss);  // a tier that does not answer has not got it
}

TEST_CASE("the verdict table is bounded, beyond it a tier does not hold the poller up", "[conformance]") {
  auto options = slow_prober();
  options.probes_max = 4;
  VirtualEngine e(options);
  const auto r = e.request();
  CHECK(letters(poll_all(e, r, keys("k", 6), LookupScan::window).results) == "RRRR..");
  const auto s = e.stats();
  CHECK(s.tiers[0].verdicts == 4);
  CHECK(s.tiers[0].verdicts_full == 2);
  CHECK(s.scheduler.lookups[1].gave_up[static_cast<std::size_t>(GiveUpReason::probes_full)] == 2);
}

TEST_CASE("answered verdicts fill the table, too", "[conformance]") {
  VerdictTable table(2);
  const MonotonicTime now{};
  const auto list = keys("k", 3);
  const RequestHandle a{0, 1}, b{0, 2};
  for (const std::size_t i : {0U, 1U}) {
    CHECK(table.ask(list[i], a, 7, now) == VerdictTable::Ask::probe);
    table.answer(list[i], 7, true, now);
  }
  CHECK(table.ask(list[2], a, 8, now) == VerdictTable::Ask::full);
  CHECK(table.ask(list[1], b, 8, now) == VerdictTable::Ask::known);  // known ones are still answered
  table.close(a);
  CHECK(table.size() == 1);  // b asked for one of them
  CHECK(table.ask(list[2], b, 9, now) == VerdictTable::Ask::probe);
}

TEST_CASE("a tier that goes down answers its pollers", "[conformance]") {
  VirtualEngine e(slow_prober());
  const auto r = e.request();
  CHECK(e.poll(r, keys("k", 1)[0]) == LookupResult::retry);
  e.tier().sink->lane_died("pulled out");
  e.run();
  CHECK(e.poll(r, keys("k", 1)[0]) == LookupResult::miss);
}
