#include "kv_offload/tests/support/virtual_engine.hpp"

#include <algorithm>
#include <string>

// Keys of a lookup that the device holds already: found, and otherwise left alone; the last one tells whether the
// tiers have what was not needed.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kTokens = 16;  // per chunk

VirtualEngine::Options options(std::size_t tiers = 1) {
  VirtualEngine::Options o;
  o.chunks = 64;
  o.tiers = tiers;
  o.tokens_per_chunk = kTokens;
  o.admission = R"({"type": "payoff", "mode": "observe"})";
  return o;
}
LookupOptions device(std::uint64_t chunks, LookupWait wait = LookupWait::landed) {
  LookupOptions o;
  o.wait = wait;
  o.device_tokens = chunks * kTokens;
  return o;
}
RequestHandle prompt(VirtualEngine& e, const std::string& id = "r") {
  return e.request(NewRequest{.req_id = id, .prompt_tokens = 20000});
}
void put(VirtualEngine& e, const KeyList& keys, std::size_t tier = 0) {
  e.tier(tier).present.insert(keys.begin(), keys.end());
}
double verdicts(VirtualEngine& e, const std::string& name, const std::string& tier = "1:scripted") {
  double sum = 0;
  for (const auto& s : e.stats().admission.policy_samples) {
    const auto has = [&](const std::string& value) {
      return std::any_of(s.labels.begin(), s.labels.end(), [&](const auto& l) { return l.second == value; });
    };
    if (s.name.find("verdict") != std::string::npos && has(name) && has(tier)) sum += s.value;
  }
  return sum;
}
double all_verdicts(VirtualEngine& e) {
  double sum = 0;
  for (const char* name : {"hbm_satisfies_after_alloc", "unaligned_hbm_prefill", "too_small", "aligned_large_hit",
                           "nothing_needed", "lookup_skipped"})
    sum += verdicts(e, name);
  return sum;
}
KeyList asked(const ScriptedTier& tier) {
  KeyList all;
  for (const auto& [id, list] : tier.probes) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace

TEST_CASE("what the device holds is found, and neither held nor loaded nor counted", "[actor][device]") {
  VirtualEngine e(options());
  const auto k = keys("k", 6);
  put(e, k);
  const auto r = prompt(e);
  const auto answer = e.lookup(r, k, device(4)).get();
  REQUIRE(answer);
  CHECK(answer->leading_hits == 6);
  CHECK(answer->tier_hits == std::vector<std::uint32_t>{0, 2});
  CHECK(answer->promoted == 2);
  CHECK(answer->results == std::vector(6, LookupResult::hit));
  REQUIRE(e.tier().submitted.size() == 1);
  CHECK(e.tier().submitted[0].keys == keys("k", 2, 4));
  const auto s = e.stats();
  CHECK(s.primary.held == 2);
  CHECK(s.primary.resident == 2);
  CHECK(s.scheduler.lookups[0].looked_up == 2);  // in the primary tier
  CHECK(s.scheduler.lookups[1].looked_up == 2);
  CHECK(s.scheduler.lookups[1].hit == 2);
  CHECK(s.scheduler.lookups[1].chunk_queries == 2);
  const auto summary = e.finish(r);
  REQUIRE(summary);
  CHECK(summary->looked_up_chunks == 2);
  CHECK(summary->hit_chunks == 2);
  CHECK(e.stats().primary.held == 0);
  e.require_promises();
}

TEST_CASE("what the device holds is not held even where the primary tier has it", "[actor][device]") {
  VirtualEngine e(options());
  const auto w = prompt(e, "w");
  e.store(w, keys("k", 4));
  REQUIRE(e.finish(w));
  const auto r = prompt(e);
  const auto answer = e.lookup(r, keys("k", 4), device(3)).get();
  CHECK(answer->leading_hits == 4);
  CHECK(answer->tier_hits == std::vector<std::uint32_t>{1, 0});
  CHECK(e.stats().primary.held == 1);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("only whole chunks are the device's, counted from the first key's token", "[actor][device]") {
  VirtualEngine e(options());
  put(e, keys("k", 6));
  const auto r = prompt(e);
  LookupOptions o;
  o.first_token = 2 * kTokens;        // the first key is the prompt's third chunk
  o.device_tokens = 4 * kTokens + 7;  // ends inside its fifth
  const auto answer = e.lookup(r, keys("k", 4), o).get();
  CHECK(answer->leading_hits == 4);
  CHECK(answer->tier_hits == std::vector<std::uint32_t>{0, 2});
  CHECK(answer->promoted == 2);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("without tokens_per_chunk, and in a window scan, no key is the device's", "[actor][device]") {
  const bool window = GENERATE(false, true);
  auto o = options();
  if (!window) o.tokens_per_chunk = 0;
  VirtualEngine e(o);
  put(e, keys("k", 3));
  const auto r = prompt(e);
  auto how = device(2);
  if (window) how.scan = LookupScan::window;
  const auto answer = e.lookup(r, keys("k", 3), how).get();
  CHECK(answer->promoted == 3);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("the device's last key is asked of the tier together with its follower", "[actor][device]") {
  VirtualEngine e(options());
  put(e, keys("k", 4));  // what the device has, and nothing beyond
  const auto r = prompt(e);
  const auto answer = e.lookup(r, keys("k", 8), device(4)).get();
  CHECK(answer->leading_hits == 4);
  REQUIRE(e.tier().probes.size() == 1);
  CHECK(e.tier().probes[0].second.size() == 5);  // the follower, three more of the window, and it
  CHECK(e.tier().probes[0].second[0] == keys("k", 4)[3]);
  CHECK(e.tier().probes[0].second[1] == keys("k", 5)[4]);
  CHECK(e.tier().submitted.empty());
  CHECK(verdicts(e, "nothing_needed") == 1);
  e.allocated(r, 4 * kTokens);
  CHECK(all_verdicts(e) == 1);  // judged once
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a tier that has more than the device is judged when the request is allocated", "[actor][device]") {
  VirtualEngine e(options());
  put(e, keys("k", 6));
  const auto r = prompt(e);
  CHECK(e.lookup(r, keys("k", 6), device(4)).get()->promoted == 2);
  CHECK(all_verdicts(e) == 0);
  e.allocated(r, 4 * kTokens);
  CHECK(verdicts(e, "too_small") == 1);  // two chunks are less than min_load_tokens
  CHECK(all_verdicts(e) == 1);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a tier that has neither claimed nothing", "[actor][device]") {
  VirtualEngine e(options());
  put(e, keys("k", 3));  // not the device's last
  const auto r = prompt(e);
  CHECK(e.lookup(r, keys("k", 8), device(4)).get()->leading_hits == 4);
  e.allocated(r, 4 * kTokens);
  CHECK(all_verdicts(e) == 0);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("with two tiers the device's last key follows its successor, and the first that has it is judged",
          "[actor][device]") {
  VirtualEngine e(options(2));
  put(e, keys("k", 4), 1);
  const auto r = prompt(e);
  CHECK(e.lookup(r, keys("k", 6), device(4)).get()->leading_hits == 4);
  CHECK(e.tier(0).probes.size() == 1);
  CHECK(e.tier(1).probes.size() == 1);
  CHECK(verdicts(e, "nothing_needed", "1:scripted") == 0);
  CHECK(verdicts(e, "nothing_needed", "2:scripted") == 1);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a call that names only what the device holds is answered before the tier is", "[actor][device]") {
  VirtualEngine e(options());
  e.tier().answers_probes = false;
  put(e, keys("k", 3));
  const auto r = prompt(e);
  const auto before = e.scheduler().clock().now();
  const auto call = e.lookup(r, keys("k", 3), device(3));
  REQUIRE(call.answered());
  CHECK(e.scheduler().clock().now() == before);
  const auto answer = call.get();
  REQUIRE(answer);
  CHECK(answer->leading_hits == 3);
  CHECK(answer->tier_hits == std::vector<std::uint32_t>{0, 0});
  CHECK(asked(e.tier()) == KeyList{keys("k", 3)[2]});
  e.allocated(r, 3 * kTokens);
  CHECK(all_verdicts(e) == 0);
  e.advance(1s);
  const auto [id, list] = e.tier().probes.front();
  e.tier().answer_probe(id, list);
  e.run();
  CHECK(verdicts(e, "nothing_needed") == 1);  // after all
  CHECK(all_verdicts(e) == 1);
  const auto s = e.stats();
  CHECK(s.scheduler.calls_open == 0);
  CHECK(s.scheduler.lookups[0].looked_up == 0);
  CHECK(s.scheduler.lookups[1].looked_up == 0);
  CHECK(s.scheduler.lookups[1].miss == 0);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a lone device key that no tier has is asked of each, and is no verdict", "[actor][device]") {
  VirtualEngine e(options(2));
  const auto r = prompt(e);
  REQUIRE(e.lookup(r, keys("k", 2), device(2)).answered());
  CHECK(e.tier(0).probes.size() == 1);
  CHECK(e.tier(1).probes.size() == 1);
  CHECK(e.stats().scheduler.calls_open == 0);
  CHECK(all_verdicts(e) == 0);
  CHECK(verdicts(e, "nothing_needed", "2:scripted") == 0);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("polled lookups ask nothing about what the device holds", "[actor][device]") {
  VirtualEngine e(options());
  put(e, keys("k", 3));
  const auto r = prompt(e);
  const auto answer = e.lookup(r, keys("k", 3), device(3, LookupWait::polled)).get();
  CHECK(answer->leading_hits == 3);
  CHECK(answer->results == std::vector(3, LookupResult::hit));
  CHECK(e.tier().probes.empty());
  const auto more = e.lookup(r, keys("k", 4), device(3, LookupWait::polled)).get();
  CHECK(more->results.back() == LookupResult::retry);
  CHECK(asked(e.tier()) == KeyList{keys("k", 4)[3]});
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a tier that does not answer about a lone device key changes nothing for the caller", "[actor][device]") {
  VirtualEngine e(options());
  e.tier().answers_probes = false;
  const auto r = prompt(e);
  REQUIRE(e.lookup(r, keys("k", 3), device(3)).answered());
  CHECK(e.stats().scheduler.calls_open == 1);
  e.advance(6s);  // deadlines.probe
  const auto s = e.stats();
  CHECK(s.scheduler.calls_open == 0);
  for (const auto n : s.scheduler.lookups[1].gave_up) CHECK(n == 0);
  CHECK(all_verdicts(e) == 0);
  const auto [id, list] = e.tier().probes.front();
  e.tier().answer_probe(id, list);  // too late for anybody
  e.run();
  CHECK(all_verdicts(e) == 0);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a tier that does not answer counts as given up for what was asked beyond the device only",
          "[actor][device]") {
  VirtualEngine e(options());
  e.tier().answers_probes = false;
  const auto r = prompt(e);
  const auto call = e.lookup(r, keys("k", 6), device(4));
  CHECK_FALSE(call.answered());
  e.advance(6s);
  REQUIRE(call.answered());
  CHECK(call.get()->leading_hits == 4);
  const auto s = e.stats();
  CHECK(s.scheduler.lookups[1].gave_up[static_cast<std::size_t>(GiveUpReason::deadline)] == 1);  // the scan ends there
  CHECK(all_verdicts(e) == 0);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("end of request, abort and reset while a silent probe is open", "[actor][device]") {
  const int how = GENERATE(0, 1, 2);
  CAPTURE(how);
  VirtualEngine e(options());
  e.tier().answers_probes = false;
  put(e, keys("k", 3));
  const auto r = prompt(e);
  const auto call = e.lookup(r, keys("k", 3), device(3));
  REQUIRE(call.answered());
  CHECK(call.get()->leading_hits == 3);
  if (how == 0) REQUIRE(e.finish(r));
  if (how == 1) REQUIRE(e.abort(r));
  if (how == 2) REQUIRE(e.reset());
  CHECK(e.stats().scheduler.calls_open == 0);
  const auto [id, list] = e.tier().probes.front();
  e.tier().answer_probe(id, list);  // nobody asks any more
  e.run();
  CHECK(all_verdicts(e) == 0);
  if (how > 0) REQUIRE(e.finish(r));
  const auto s = e.stats();
  CHECK(s.scheduler.requests_live == 0);
  CHECK(s.primary.resident == 0);
  e.require_promises();
}

TEST_CASE("an engine ends while a silent probe is open", "[actor][device]") {
  VirtualEngine e(options());
  e.tier().answers_probes = false;
  const auto call = e.lookup(prompt(e), keys("k", 3), device(3));
  REQUIRE(call.answered());
  CHECK(call.get()->leading_hits == 3);
}

TEST_CASE("a tier that dies while a silent probe is open leaves nothing behind", "[actor][device]") {
  VirtualEngine e(options());
  e.tier().answers_probes = false;
  const auto r = prompt(e);
  REQUIRE(e.lookup(r, keys("k", 3), device(3)).answered());
  caf::anon_send(e.actors.steps.front(), TierDown{0, "test"});
  e.run();
  REQUIRE(e.finish(r));
  e.advance(200ms);
  const auto s = e.stats();
  CHECK(s.scheduler.calls_open == 0);
  CHECK(s.scheduler.requests_live == 0);
}
