#include "kv_offload/tests/support/virtual_engine.hpp"

#include <algorithm>
#include <random>

// Several domains: every key has one home, a request one domain, and callers see one primary tier.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

namespace {

constexpr DomainId kDomains = 2;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kStories = 2;  // a story takes some forty times as long
#else
constexpr int kStories = 20;
#endif

VirtualEngine::Options options(std::uint32_t chunks = 64) {
  VirtualEngine::Options o;
  o.chunks = chunks;
  o.domains = kDomains;
  o.primary = PrimaryConfig{0.0, 0.5, 0.5};
  o.pin_share = 1;
  return o;
}
DomainMap map_of(std::uint32_t chunks = 64) { return {kDomains, chunks / (kDomains * kDomains)}; }

RequestHandle request_in(VirtualEngine& e, DomainId domain, const std::string& id) {
  return e.request(NewRequest{.req_id = id, .domain = domain});
}
/// `n` keys that all have this home.
KeyList keys_of_home(DomainId home, std::size_t n, const std::string& name = "h") {
  KeyList out;
  for (const auto& key : keys(name, 40 * n))
    if (out.size() < n && map_of().home_of(key) == home) out.push_back(key);
  REQUIRE(out.size() == n);
  return out;
}
void put(VirtualEngine& e, const KeyList& keys) {
  e.tier().present.insert(keys.begin(), keys.end());
}
std::vector<OffloadKey> sorted(KeyList keys) {
  std::sort(keys.begin(), keys.end());
  return keys;
}
KeyList loaded_keys(VirtualEngine& e) {
  KeyList all;
  for (const auto& job : e.tier().submitted)
    if (job.is_promotion) all.insert(all.end(), job.keys.begin(), job.keys.end());
  return all;
}
std::uint64_t waiters(VirtualEngine& e) { return e.stats().primary.waiters; }

}  // namespace

TEST_CASE("what one domain stores the other finds, and stores no second time", "[actor][domains]") {
  VirtualEngine e(options());
  const auto a = request_in(e, 0, "a"), b = request_in(e, 1, "b");
  CHECK(a.domain == 0);
  CHECK(b.domain == 1);
  const auto prompt = keys("k", 12);
  e.store(a, prompt);
  CHECK(e.lookup(b, prompt).get()->leading_hits == 12);
  const auto again = e.prepare_store(b, prompt);
  REQUIRE(again);
  CHECK(again->key_idx.empty());
  REQUIRE(e.complete_store(again->lease).get());
  const auto stats = e.stats();
  CHECK(stats.primary.resident == 12);
  REQUIRE(stats.domains.size() == 2);
  CHECK(stats.domains[0].resident + stats.domains[1].resident == 12);
  CHECK(stats.domains[0].resident > 0);
  CHECK(stats.domains[1].resident > 0);
  CHECK(e.tier().present.size() == 12);
  e.require_promises();
}

TEST_CASE(
    "chunks lie in the memory of the domain that stores them, and what is read from elsewhere is "
    "counted",
    "[actor][domains]") {
  VirtualEngine e(options());
  const auto map = map_of();
  const auto a = request_in(e, 0, "a"), b = request_in(e, 1, "b");
  const auto prompt = keys("k", 8);
  const auto stored = e.prepare_store(b, prompt);
  REQUIRE(stored);
  for (std::size_t n = 0; n < 8; ++n) {
    CHECK(map.domain_of(stored->chunk_ids[n]) == 1);
    CHECK(map.home_of(stored->chunk_ids[n]) == map.home_of(prompt[stored->key_idx[n]]));
  }
  REQUIRE(e.complete_store(stored->lease).get());
  for (const auto r : {a, b}) {
    const auto plan = e.prepare_load(r, prompt);
    REQUIRE(plan);
    CHECK(plan->chunk_ids == stored->chunk_ids);
    REQUIRE(e.complete_load(plan->lease));
  }
  const auto stats = e.stats();
  CHECK(stats.scheduler.remote_loaded_chunks == 8);
  CHECK(stats.domains[0].remote_loaded_chunks == 8);
  CHECK(stats.domains[1].remote_loaded_chunks == 0);
  CHECK(stats.scheduler.remote_stored_chunks == 0);
  e.require_promises();
}

TEST_CASE("answers are in the call's order, whichever home they come from", "[actor][domains]") {
  VirtualEngine e(options());
  const auto a = request_in(e, 0, "a"), b = request_in(e, 1, "b");
  const auto prompt = keys("k", 10);
  KeyList some;
  for (std::size_t i = 0; i < prompt.size(); ++i)
    if (i % 3 != 1) some.push_back(prompt[i]);
  const auto stored = e.prepare_store(a, some);
  REQUIRE(stored);
  CHECK(std::is_sorted(stored->key_idx.begin(), stored->key_idx.end()));
  CHECK(stored->key_idx.size() == some.size());
  REQUIRE(e.complete_store(stored->lease, {.success = true}).get());
  e.tier().present.clear();
  LookupOptions window;
  window.scan = LookupScan::window;
  const auto answer = e.lookup(b, prompt, window).get();
  REQUIRE(answer);
  for (std::size_t i = 0; i < prompt.size(); ++i)
    CHECK(answer->results[i] == (i % 3 != 1 ? LookupResult::hit : LookupResult::miss));
  CHECK(e.lookup(b, prompt).get()->leading_hits == 1);
  const auto plan = e.prepare_load(b, prompt);
  REQUIRE(plan);
  CHECK(plan->chunk_ids.size() == 1);
  REQUIRE(e.complete_load(plan->lease));
  REQUIRE(e.finish(a));
  REQUIRE(e.finish(b));
  CHECK(e.stats().primary.pins_open == 0);
  CHECK(e.stats().primary.holds_open == 0);
  e.require_promises();
}

TEST_CASE("a store has slots in every home or in none", "[actor][domains]") {
  auto o = options(16);  // eight slots a home
  o.tiers = 0;
  VirtualEngine e(o);
  const auto a = request_in(e, 0, "a"), b = request_in(e, 1, "b");
  const auto full = keys_of_home(1, 8, "f");
  const auto kept = e.prepare_store(a, full);
  REQUIRE(kept);
  auto wanted = keys_of_home(0, 4, "w");
  const auto more = keys_of_home(1, 1, "w");
  wanted.insert(wanted.end(), more.begin(), more.end());
  CHECK(e.prepare_store(b, wanted).error().code == OffloadErrc::no_space);
  CHECK(e.stats().primary.write_pending == 8);
  wanted.pop_back();
  const auto fits = e.prepare_store(b, wanted);
  REQUIRE(fits);
  REQUIRE(e.complete_store(fits->lease).get());
  REQUIRE(e.complete_store(kept->lease).get());
  CHECK(e.lookup(a, wanted).get()->leading_hits == 4);
  REQUIRE(e.finish(a));
  REQUIRE(e.finish(b));
  e.require_promises();
}

TEST_CASE("a prefix is loaded into every home by one job, and read in order", "[actor][domains]") {
  VirtualEngine e(options());
  const auto prompt = keys("k", 10);
  put(e, prompt);
  const auto b = request_in(e, 1, "b");
  const auto answer = e.lookup(b, prompt).get();
  REQUIRE(answer);
  CHECK(answer->leading_hits == 10);
  CHECK(answer->promoted == 10);
  REQUIRE(e.tier().submitted.size() == 1);
  CHECK(e.tier().submitted[0].keys == prompt);
  const auto plan = e.prepare_load(b, prompt);
  REQUIRE(plan);
  REQUIRE(plan->chunk_ids == e.tier().submitted[0].chunk_ids);
  for (const auto chunk : plan->chunk_ids) CHECK(map_of().domain_of(chunk) == 1);
  REQUIRE(e.complete_load(plan->lease));
  REQUIRE(e.finish(b));
  e.require_promises();
}

TEST_CASE("requests of two domains share one load", "[actor][domains]") {
  VirtualEngine e(options());
  e.tier().automatic = false;
  const auto prompt = keys("k", 10);
  put(e, prompt);
  const auto a = request_in(e, 0, "a"), b = request_in(e, 1, "b");
  const auto first = e.lookup(a, prompt), second = e.lookup(b, prompt);
  CHECK_FALSE(first.answered());
  CHECK_FALSE(second.answered());
  CHECK(loaded_keys(e) == prompt);
  e.tier().finish(0);
  e.run();
  REQUIRE(first.answered());
  REQUIRE(second.answered());
  CHECK(first.get()->leading_hits == 10);
  CHECK(second.get()->leading_hits == 10);
  REQUIRE(e.finish(a));
  REQUIRE(e.finish(b));
  e.require_promises();
}

TEST_CASE("where one home is short, the other's slots behind it are given back",
          "[actor][domains]") {
  auto o = options(16);
  o.primary = PrimaryConfig{0.0, 0.0, 1.0};
  VirtualEngine e(o);
  const auto a = request_in(e, 0, "a"), b = request_in(e, 1, "b"), c = request_in(e, 0, "c");
  const auto taken = e.prepare_store(a, keys_of_home(1, 7, "t"));  // one slot is left in home 1
  REQUIRE(taken);
  const auto zero = keys_of_home(0, 5, "p"), one = keys_of_home(1, 3, "p");
  const KeyList prompt{zero[0], one[0], zero[1], one[1], zero[2], one[2], zero[3], zero[4]};
  put(e, prompt);
  e.tier().automatic = false;
  const auto call = e.lookup(b, prompt);
  const auto joined = e.lookup(c, {zero[3]});  // behind what b can have: it is its own to load then
  CHECK_FALSE(call.answered());
  CHECK(e.stats().primary.claims == 8);
  e.advance(31s);  // half of deadlines.lookup: b takes what there is
  CHECK(loaded_keys(e) == KeyList{zero[0], one[0], zero[1], zero[3]});
  while (!e.tier().jobs.empty()) {
    e.tier().finish(0);
    e.run();
  }
  REQUIRE(call.answered());
  REQUIRE(joined.answered());
  const auto answer = call.get();
  CHECK(answer->leading_hits == 3);
  CHECK(answer->promoted == 3);
  CHECK(answer->truncated == 5);
  CHECK(joined.get()->leading_hits == 1);
  REQUIRE(e.complete_store(taken->lease, {.success = false}).get());
  for (const auto r : {a, b, c}) REQUIRE(e.finish(r));
  CHECK(e.stats().primary.resident == 4);
  CHECK(waiters(e) == 0);
  e.require_promises();
}

TEST_CASE("a request that ends while one home has slots for it waits for no other",
          "[actor][domains]") {
  auto o = options(16);
  o.primary = PrimaryConfig{0.0, 0.0, 1.0};
  VirtualEngine e(o);
  const auto a = request_in(e, 0, "a"), b = request_in(e, 1, "b");
  const auto taken = e.prepare_store(a, keys_of_home(1, 8, "t"));
  REQUIRE(taken);
  auto prompt = keys_of_home(0, 3, "p");
  const auto one = keys_of_home(1, 3, "p");
  prompt.insert(prompt.end(), one.begin(), one.end());
  put(e, prompt);
  const auto call = e.lookup(b, prompt);
  CHECK_FALSE(call.answered());
  REQUIRE(e.abort(b));
  e.run();
  REQUIRE(call.answered());
  CHECK(call.get().error().code == OffloadErrc::aborted);
  REQUIRE(e.complete_store(taken->lease).get());
  REQUIRE(e.finish(a));
  REQUIRE(e.finish(b));
  const auto stats = e.stats();
  CHECK(stats.primary.claims == 0);
  CHECK(stats.primary.waiters == 0);
  e.require_promises();
}

TEST_CASE("a reset empties every home and stops every domain meanwhile", "[actor][domains]") {
  VirtualEngine e(options());
  e.tier().automatic = false;
  const auto a = request_in(e, 0, "a"), b = request_in(e, 1, "b");
  const auto prompt = keys("k", 6);
  put(e, prompt);
  const auto loading = e.lookup(b, prompt);
  const auto leased = e.prepare_store(b, keys("l", 4));
  REQUIRE(leased);
  const auto reset = e.start<Ok>([](Reply<Ok> reply) {
    return ResetCall{false, {}, std::move(reply)};
  });
  REQUIRE(loading.answered());
  CHECK(loading.get().error().code == OffloadErrc::resetting);
  // The load that runs is waited for; both domains refuse work until it has ended.
  if (!reset.answered()) {
    for (const auto r : {a, b}) {
      const auto refused = e.lookup(r, prompt);
      REQUIRE(refused.answered());
      CHECK(refused.get().error().code == OffloadErrc::resetting);
    }
    while (!e.tier().jobs.empty()) e.tier().finish(0);
    e.run();
  }
  e.advance(1s);
  REQUIRE(reset.answered());
  REQUIRE(reset.get());
  CHECK(e.stats().primary.resident == 0);
  CHECK(e.complete_store(leased->lease).get()->published == 0);  // of the epoch before
  e.tier().automatic = true;
  e.tier().present.clear();
  for (const auto r : {a, b}) {
    const auto more = keys("m" + std::to_string(r.domain), 5);
    e.store(r, more);
    CHECK(e.lookup(r, more).get()->leading_hits == 5);
  }
  REQUIRE(e.finish(a));
  REQUIRE(e.finish(b));
  e.require_promises();
}

TEST_CASE("forgotten keys are gone from every home, and counted once", "[actor][domains]") {
  VirtualEngine e(options());
  const auto a = request_in(e, 0, "a"), b = request_in(e, 1, "b");
  const auto prompt = keys("k", 12);
  e.store(a, prompt);
  const auto gone = e.forget(prompt);
  REQUIRE(gone);
  CHECK(gone->primary_chunks == 12);
  CHECK(gone->tier_chunks == 12);
  CHECK(e.lookup(b, prompt).get()->leading_hits == 0);
  const auto tenant = e.request(NewRequest{.req_id = "t", .tenant = "acme", .domain = 1});
  e.store(tenant, prompt);
  const auto theirs = e.forget({}, "acme", true);
  REQUIRE(theirs);
  CHECK(theirs->primary_chunks == 12);
  CHECK(e.lookup(tenant, prompt).get()->leading_hits == 0);
  e.require_promises();
}

TEST_CASE("events of all homes are taken in one call, those of a key in their order",
          "[actor][domains]") {
  auto o = options(16);
  o.events = true;
  VirtualEngine e(o);
  const auto a = request_in(e, 0, "a"), b = request_in(e, 1, "b");
  std::map<OffloadKey, std::vector<bool>> removed;  // per key: removed or stored, in order
  for (int round = 0; round < 20; ++round) {
    e.store(round % 2 == 0 ? a : b, keys("k" + std::to_string(round % 5), 6));
    for (const auto& event : e.take_events())
      if (event.medium == Medium::cpu)
        for (const auto& key : event.keys) removed[key].push_back(event.removed);
  }
  CHECK(removed.size() == 30);
  for (const auto& [key, story] : removed)
    for (std::size_t n = 0; n < story.size(); ++n)
      CHECK(story[n] == (n % 2 == 1));  // stored, removed, stored, …
  e.require_promises();
}

TEST_CASE("pollers of two domains see one primary tier, and one step ends for both",
          "[actor][domains]") {
  VirtualEngine e(options());
  const auto a = request_in(e, 0, "a"), b = request_in(e, 1, "b");
  const auto prompt = keys("k", 6);
  put(e, prompt);
  e.step_begin();
  for (const auto& key : prompt) CHECK(e.poll(a, key) == LookupResult::retry);
  e.step_end();
  e.step_begin();
  for (const auto& key : prompt) {
    CHECK(e.poll(a, key) == LookupResult::hit_pending);
    CHECK(e.poll(b, key) == LookupResult::hit_pending);
  }
  CHECK(e.has_pending_work());
  e.step_end();
  for (const auto& key : prompt) {
    CHECK(e.poll(a, key) == LookupResult::hit);
    CHECK(e.poll(b, key) == LookupResult::hit);
  }
  CHECK(sorted(loaded_keys(e)) == sorted(prompt));
  REQUIRE(e.finish(a));
  REQUIRE(e.finish(b));
  e.step_end();
  CHECK_FALSE(e.has_pending_work());
  e.require_promises();
}

TEST_CASE("a repeated lookup hears of changes in any home", "[actor][domains]") {
  VirtualEngine e(options());
  const auto a = request_in(e, 0, "a"), b = request_in(e, 1, "b");
  const auto zero = keys_of_home(0, 2, "p"), one = keys_of_home(1, 2, "p");
  const auto shared = std::make_shared<const KeyList>(KeyList{zero[0], one[0], zero[1], one[1]});
  LookupOptions polled;
  polled.wait = LookupWait::polled;
  polled.scan = LookupScan::window;
  const auto ask = [&] {
    return e
        .start<LookupAnswer>([&](Reply<LookupAnswer> reply) {
          return LookupCall{b, shared, polled, std::move(reply), {}, true};
        })
        .get();
  };
  e.tier().present.clear();
  REQUIRE(ask());
  e.step_end();
  for (const auto& key : *shared) {
    const auto before = ask();
    REQUIRE(before);
    e.store(a, {key});
    const auto after = ask();
    REQUIRE(after);
    CHECK(std::count(after->results.begin(), after->results.end(), LookupResult::hit) ==
          std::count(before->results.begin(), before->results.end(), LookupResult::hit) + 1);
  }
}

TEST_CASE("a call for a request that no domain gave out is refused", "[actor][domains]") {
  VirtualEngine e(options());
  CHECK(e.lookup(RequestHandle{7, 3}, keys("k", 2)).get().error().code ==
        OffloadErrc::unknown_request);
  CHECK(e.complete_load(LeaseId{9, 1}).error().code == OffloadErrc::unknown_lease);
}

TEST_CASE("any story of requests in one to three domains keeps every promise", "[actor][domains]") {
  const DomainId domains = GENERATE(as<DomainId>{}, 1, 2, 3);
  const auto seed = GENERATE(range(1, kStories + 1));
  CAPTURE(domains, seed);
  VirtualEngine::Options o;
  o.domains = domains;
  o.chunks = 72;
  o.tiers = 2;
  o.primary = PrimaryConfig{0.05, 0.3, 0.4};
  o.pin_share = 0.3;
  o.shuffle = static_cast<std::uint64_t>(seed);
  VirtualEngine e(o);
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  const auto up_to = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::vector<RequestHandle> live;
  std::vector<LeaseId> loads, stores;
  std::vector<VirtualEngine::Call<LookupAnswer>> calls;
  for (int i = 0; i < 400; ++i) {
    for (std::size_t t = 0; t < 2; ++t) e.tier(t).automatic = up_to(4) > 0;
    const auto prompt = keys("p" + std::to_string(up_to(6)), 1 + up_to(14), up_to(3));
    if (live.empty() || (live.size() < 8 && up_to(3) == 0)) {
      live.push_back(request_in(e, static_cast<DomainId>(up_to(domains)), "r" + std::to_string(i)));
      continue;
    }
    const auto r = live[up_to(live.size())];
    switch (up_to(10)) {
      case 0:
      case 1:
        if (const auto plan = e.prepare_store(r, prompt)) stores.push_back(plan->lease);
        break;
      case 2:
      case 3: {
        LookupOptions how;
        how.wait = up_to(3) == 0 ? LookupWait::resolved : LookupWait::landed;
        how.scan = up_to(4) == 0 ? LookupScan::window : LookupScan::prefix;
        calls.push_back(e.lookup(r, prompt, how));
        break;
      }
      case 4:
        if (const auto plan = e.prepare_load(r, prompt)) loads.push_back(plan->lease);
        break;
      case 5:
        if (!loads.empty()) {
          REQUIRE(e.complete_load(loads.back()));
          loads.pop_back();
        }
        break;
      case 6:
        if (!stores.empty()) {
          e.complete_store(stores.back(), {.success = up_to(5) > 0});
          stores.pop_back();
        }
        break;
      case 7:
        for (std::size_t t = 0; t < 2; ++t)
          if (!e.tier(t).jobs.empty()) e.tier(t).finish(up_to(e.tier(t).jobs.size()));
        e.run();
        break;
      case 8:
        if (up_to(3) == 0)
          REQUIRE(e.abort(r));
        else if (up_to(12) == 0)
          (void)e.start<Ok>([](Reply<Ok> reply) { return ResetCall{false, {}, std::move(reply)}; });
        else
          e.advance(std::chrono::milliseconds(up_to(3000)));
        break;
      default: std::erase(live, r); REQUIRE(e.finish(r));
    }
  }
  for (std::size_t t = 0; t < 2; ++t) {
    e.tier(t).automatic = true;
    while (!e.tier(t).jobs.empty()) e.tier(t).finish(0);
  }
  e.advance(70s);
  for (const auto lease : loads) REQUIRE(e.complete_load(lease));
  for (const auto lease : stores) e.complete_store(lease);
  for (const auto r : live) REQUIRE(e.finish(r));
  for (std::size_t t = 0; t < 2; ++t)
    while (!e.tier(t).jobs.empty()) e.tier(t).finish(0);
  e.advance(70s);
  for (const auto& call : calls) CHECK(call.answered());
  const auto stats = e.stats();
  CHECK(stats.primary.waiters == 0);
  CHECK(stats.primary.claims == 0);
  CHECK(stats.primary.pins_open == 0);
  CHECK(stats.primary.holds_open == 0);
  CHECK(stats.scheduler.calls_open == 0);
  CHECK(stats.scheduler.requests_live == 0);
  e.require_promises();
}
