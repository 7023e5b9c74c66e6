#include "kv_offload/tests/support/virtual_engine.hpp"

#include <algorithm>

// What the gates are told by lookups, allocations and stores, and what they forbid.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

namespace {

constexpr const char* kGate =
    R"({"type": "lookup_gate", "mode": "enforce", "min_load_tokens": 64, "min_issued": 64, "probe_every": 32})";

VirtualEngine::Options gated(const char* admission = kGate, std::size_t tiers = 1) {
  VirtualEngine::Options options;
  options.chunks = 64;
  options.tiers = tiers;
  options.pin_share = 0.4;
  options.tokens_per_chunk = 16;
  options.admission = admission;
  return options;
}
OpenedRequest prompt(VirtualEngine& e, const std::string& id, std::uint64_t tokens) {
  return e.request(NewRequest{.req_id = id, .prompt_tokens = tokens});
}
double sample(VirtualEngine& e, const std::string& name, const std::string& label = {}) {
  const auto stats = e.stats();
  double sum = 0;
  bool found = false;
  for (const auto& s : stats.admission.policy_samples) {
    const bool fits = label.empty() || std::any_of(s.labels.begin(), s.labels.end(), [&](const auto& l) { return l.second == label; });
    if (s.name.find(name) == std::string::npos || !fits) continue;
    sum += s.value;
    found = true;
  }
  INFO(name << " " << label);
  CHECK(found);
  return sum;
}

}  // namespace

TEST_CASE("a tier whose best answer could not pay is not asked", "[actor][gates]") {
  VirtualEngine e(gated());
  const auto r = prompt(e, "r", 100);
  e.tier().present = {keys("k", 1)[0]};
  // 100 - 1 - 48 = 51 tokens at most, and 64 are the least worth loading.
  const auto answer = e.lookup(r, keys("k", 5), {.device_tokens = 48}).get();
  REQUIRE(answer);
  CHECK(answer->leading_hits == 3);  // the device's own
  CHECK(e.tier().probes.empty());
  REQUIRE(e.lookup(r, keys("k", 5), {.device_tokens = 48}).get());
  CHECK(e.tier().probes.empty());  // nor later for the same request
  CHECK(e.stats().scheduler.lookups[1].looked_up == 0);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a prompt long enough, or of unknown length, is always looked up", "[actor][gates]") {
  VirtualEngine e(gated());
  const auto r = prompt(e, "r", 1000);
  REQUIRE(e.lookup(r, keys("k", 5), {.device_tokens = 48}).get());
  CHECK(e.tier().probes.size() == 1);
  const auto unknown = prompt(e, "u", 0);
  REQUIRE(e.lookup(unknown, keys("u", 3)).get());
  CHECK(e.tier().probes.size() == 2);
}

TEST_CASE("every 32nd lookup that could be skipped is made all the same", "[actor][gates]") {
  VirtualEngine e(gated());
  for (int i = 1; i <= 64; ++i) {
    const auto r = prompt(e, std::to_string(i), 50);
    REQUIRE(e.lookup(r, keys("k" + std::to_string(i), 2)).get());
    CHECK(e.tier().probes.size() == static_cast<std::size_t>(i / 32));
    REQUIRE(e.finish(r));
  }
  e.require_promises();
}

TEST_CASE("the primary tier is asked whatever the gate says", "[actor][gates]") {
  VirtualEngine e(gated());
  const auto w = prompt(e, "w", 50);
  e.store(w, keys("k", 2));
  const auto r = prompt(e, "r", 50);
  CHECK(e.lookup(r, keys("k", 2)).get()->leading_hits == 2);
  CHECK(e.tier().probes.empty());
}

TEST_CASE("after a skip the prefix on the device is not stored to the skipped tier", "[actor][gates]") {
  VirtualEngine e(gated());
  const auto r = prompt(e, "r", 100);
  REQUIRE(e.lookup(r, keys("k", 5), {.device_tokens = 40}).get());  // skipped; the floor is at two whole chunks
  const auto plan = e.prepare_store(r, keys("k", 5), {.first_token = 0});
  REQUIRE(plan);
  CHECK(plan->key_idx.size() == 5);
  REQUIRE(e.complete_store(plan->lease).get());
  REQUIRE(e.tier().submitted.size() == 1);
  CHECK(e.tier().submitted[0].keys == KeyList{keys("k", 5)[2], keys("k", 5)[3], keys("k", 5)[4]});
  auto s = e.stats();
  CHECK(s.scheduler.offers[0].cascades_refused[static_cast<std::size_t>(RefusalReason::save_floor)].chunks == 2);
  CHECK(s.primary.resident == 5);
  CHECK(s.primary.pins_open == 0);
  const auto other = prompt(e, "other", 1000);  // looked up in earnest: the floor is no longer there
  REQUIRE(e.lookup(other, keys("m", 2), {.device_tokens = 32}).get());
  REQUIRE(e.complete_store(e.prepare_store(other, keys("m", 2), {.first_token = 0})->lease).get());
  CHECK(e.tier().submitted.back().keys.size() == 2);
  REQUIRE(e.finish(r));
  REQUIRE(e.finish(other));
  e.require_promises();
}

TEST_CASE("a store that lies wholly below the floor reaches no skipped tier", "[actor][gates]") {
  VirtualEngine e(gated());
  const auto r = prompt(e, "r", 100);
  REQUIRE(e.lookup(r, keys("k", 5), {.device_tokens = 48}).get());
  const auto outcome = e.complete_store(e.prepare_store(r, keys("k", 2), {.first_token = 0})->lease).get();
  REQUIRE(outcome);
  CHECK(outcome->published == 2);
  CHECK(outcome->cascades_refused == 1);
  CHECK(e.tier().submitted.empty());
  CHECK(e.stats().primary.evictable == 2);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("each request gives one verdict per tier that claimed something", "[actor][gates]") {
  VirtualEngine e(gated(R"({"type": "payoff", "mode": "observe"})"));
  const auto verdicts = [&](const char* name) { return sample(e, "verdict", name); };
  const auto list = keys("k", 1000);
  for (int i = 0; i < 4; ++i) e.tier().present.insert(list[i]);
  const auto claim = [&](const std::string& id, std::uint64_t device) {
    const auto r = prompt(e, id, 20000);
    const auto found = e.lookup(r, KeyList(list.begin(), list.begin() + 6)).get();
    CHECK(found->leading_hits == 4);
    e.allocated(r, device);
    e.allocated(r, device);  // said twice, judged once
    REQUIRE(e.finish(r));
  };
  claim("first", 64);   // the device holds as much as the tier claims
  CHECK(verdicts("hbm_satisfies_after_alloc") == 1);
  REQUIRE(e.reset());   // so that the tier is asked again
  claim("second", 8);   // ends inside a chunk
  CHECK(verdicts("unaligned_hbm_prefill") == 1);
  REQUIRE(e.reset());
  claim("third", 0);    // 64 tokens are less than 8192
  CHECK(verdicts("too_small") == 1);
  const auto miss = prompt(e, "miss", 20000);
  REQUIRE(e.lookup(miss, keys("x", 2)).get());
  e.allocated(miss, 0);
  CHECK(verdicts("too_small") + verdicts("hbm_satisfies_after_alloc") + verdicts("unaligned_hbm_prefill") +
            verdicts("aligned_large_hit") + verdicts("nothing_needed") ==
        3);  // a miss is no verdict
}

TEST_CASE("a load that pays is a paid verdict", "[actor][gates]") {
  auto options = gated(R"({"type": "composite", "policies": [{"type": "payoff", "mode": "observe"},
                          {"type": "lookup_gate", "mode": "observe", "min_load_tokens": 32}]})");
  VirtualEngine e(options);
  const auto list = keys("k", 4);
  for (const auto& k : list) e.tier().present.insert(k);
  const auto r = prompt(e, "r", 1000);
  CHECK(e.lookup(r, list, {.device_tokens = 16}).get()->leading_hits == 4);
  e.allocated(r, 16);
  CHECK(sample(e, "verdict", "aligned_large_hit") == 1);
  const auto held = prompt(e, "held", 1000);
  REQUIRE(e.reset());
  REQUIRE(e.lookup(held, list, {.device_tokens = 64}).get());  // nothing of it is needed
  CHECK(sample(e, "verdict", "nothing_needed") == 1);
}

TEST_CASE("a cascade that its deadline gives up counts as a failure for the breaker", "[actor][gates]") {
  VirtualEngine e(gated(R"({"type": "circuit_breaker", "mode": "enforce"})"));
  e.tier().automatic = false;
  const auto r = prompt(e, "r", 1000);
  for (int i = 0; i < 12; ++i) e.store(r, keys("s" + std::to_string(i), 1));
  e.advance(30200ms);  // the breaker is open for a second, then lets a probe through
  const auto before = e.stats().scheduler.offers[0].cascades_refused[static_cast<std::size_t>(RefusalReason::circuit_breaker)].chunks;
  e.store(r, keys("after", 1));
  const auto after = e.stats().scheduler.offers[0].cascades_refused[static_cast<std::size_t>(RefusalReason::circuit_breaker)].chunks;
  CHECK(after > before);
}
