#include "kv_offload/tests/conformance/conformance.hpp"

// What the reference's scheduler-side tests show of the engine below it.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

TEST_CASE("each step's probes ask for that step's new keys alone", "[conformance]") {
  auto options = reference_options();
  options.setup_tier = [](std::size_t, ScriptedTier& tier) { tier.answers_probes = false; };
  VirtualEngine e(options);
  const auto r = e.request();
  poll_all(e, r, keys("k", 2), LookupScan::window);
  e.step_end();
  poll_all(e, r, keys("k", 5), LookupScan::window);
  e.step_end();
  poll_all(e, r, keys("k", 5), LookupScan::window);
  e.step_end();
  REQUIRE(e.tier().probes.size() == 2);
  CHECK(e.tier().probes[0].second == keys("k", 2));
  CHECK(e.tier().probes[1].second == keys("k", 3, 2));
}

TEST_CASE("a preempted request looks up, loads and stores on", "[conformance]") {
  VirtualEngine e(memory_tiers());
  const auto r = e.request();
  e.store(r, keys("k", 2));
  e.step_end({{r}, {}});
  e.step_end({{}, {r}});  // its device blocks are gone, its request is not
  CHECK(letters(poll_all(e, r, keys("k", 3)).results) == "HH.");
  const auto load = e.prepare_load(r, keys("k", 2));
  REQUIRE(load);
  CHECK(load->chunk_ids.size() == 2);
  REQUIRE(e.complete_load(load->lease));
  e.store(r, keys("k", 1, 2));
  CHECK(e.tier().present.size() == 3);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("an aborted request stores nothing more", "[conformance]") {
  VirtualEngine e(memory_tiers());
  const auto r = e.request();
  const auto plan = e.prepare_store(r, keys("k", 1));
  REQUIRE(e.abort(r));
  REQUIRE(e.finish(r));
  CHECK(e.prepare_store(r, keys("n", 1)).error().code == OffloadErrc::unknown_request);
  CHECK(e.tier().submitted.empty());
  REQUIRE(e.complete_store(plan->lease, {.success = false}).get());  // its copy never came
  CHECK(e.tier().submitted.empty());
  CHECK(e.stats().primary.free == 16);
  e.require_promises();
}

TEST_CASE("in a window every key stands for itself: a pending one neither ends nor breaks a run", "[conformance]") {
  VirtualEngine e(memory_tiers());
  e.tier().automatic = false;
  const auto list = keys("k", 6);
  const auto w = e.request("w");
  e.store(w, {list[3], list[5]});
  e.tier().finish(0);
  e.run();
  e.tier().present.insert(list[4]);
  e.tier().present.insert(list[1]);
  const auto r = e.request("r");
  // Rightmost run of hits: 3, 4 (on its way) and 5.
  CHECK(letters(poll_all(e, r, list, LookupScan::window).results) == ".P.HPH");
}

TEST_CASE("in a window an unknown key is said to be unknown, whatever stands around it", "[conformance]") {
  auto options = reference_options();
  options.setup_tier = [](std::size_t, ScriptedTier& tier) { tier.answers_probes = false; };
  VirtualEngine e(options);
  const auto list = keys("k", 4);
  const auto w = e.request("w");
  e.store(w, {list[1], list[2], list[3]});
  const auto r = e.request("r");
  CHECK(letters(poll_all(e, r, list, LookupScan::window).results) == "RHHH");  // a full window, and still to be asked again
  e.tier().answer_probe(e.tier().probes[0].first, e.tier().probes[0].second);
  e.run();
  CHECK(letters(poll_all(e, r, list, LookupScan::window).results) == ".HHH");
}

TEST_CASE("a fence waits for every store that ended before it", "[conformance]") {
  VirtualEngine e(memory_tiers(2));
  e.tier(0).automatic = e.tier(1).automatic = false;
  const auto r = e.request();
  for (int i = 0; i < 4; ++i) e.store(r, keys("k" + std::to_string(i), 1));
  CHECK(e.stats().primary.pins_open == 8);
  for (std::size_t t = 0; t < 2; ++t)
    while (!e.tier(t).jobs.empty()) e.tier(t).finish(0);  // said by the lanes, not yet heard by anyone
  e.step_begin();
  CHECK(e.stats().primary.pins_open == 0);
  CHECK_FALSE(e.has_pending_work());
  REQUIRE(e.finish(r));
  e.require_promises();
}
