#include "kv_offload/tests/support/virtual_engine.hpp"

#include <random>

// The memo of a request that asks every step for the same keys: what it saves, and what it must never hide.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

namespace {

using Lines = std::vector<std::string>;
using Results = std::vector<LookupResult>;
constexpr auto kHit = LookupResult::hit, kMiss = LookupResult::miss, kPending = LookupResult::hit_pending;

const Lines kFromMemo{"scheduler_step LookupCall"};

VirtualEngine::Options options() {
  VirtualEngine::Options o;
  o.chunks = 32;
  o.primary = PrimaryConfig{0.0, 0.5, 0.5};
  o.pin_share = 1;
  return o;
}

/// One caller that keeps its list.
struct Poller {
  Poller(VirtualEngine& engine, const KeyList& list, RequestHandle handle, LookupOptions how = {})
      : e(engine), keys(std::make_shared<const KeyList>(list)), r(handle), options(how) {
    options.wait = LookupWait::polled;
  }
  LookupAnswer ask() {
    e.take_trace();
    const auto answer = e.start<LookupAnswer>([&](Reply<LookupAnswer> reply) {
                           return LookupCall{r, keys, options, std::move(reply), {}, true};
                         }).get();
    trace = e.take_trace();
    REQUIRE(answer);
    return *answer;
  }
  /// Asks until an answer is kept.
  void settle() {
    for (int i = 0; i < 5 && trace != kFromMemo; ++i) ask();
    REQUIRE(trace == kFromMemo);
  }
  [[nodiscard]] bool asked_anew() const { return trace.size() > 1; }

  VirtualEngine& e;
  SharedKeys keys;
  RequestHandle r;
  LookupOptions options;
  Lines trace;
};
KeyList operator+(KeyList a, const KeyList& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("an unchanged request's repeated lookup is answered without a message", "[actor][memo][trace]") {
  VirtualEngine e(options());
  const auto r = e.request();
  e.store(r, keys("k", 3));
  e.tier().present.clear();
  Poller p(e, keys("k", 4), r);
  p.settle();
  const auto before = e.stats();
  CHECK(p.ask().results == Results{kHit, kHit, kHit, kMiss});
  CHECK(p.trace == kFromMemo);
  CHECK(p.ask().tier_hits == std::vector<std::uint32_t>{3, 0});
  const auto after = e.stats();
  SECTION("it counts as a lookup, and asks for no key a second time") {
    const auto& was = before.scheduler.lookups;
    const auto& is = after.scheduler.lookups;
    CHECK(is[0].looked_up == was[0].looked_up + 8);
    CHECK(is[0].hit == was[0].hit + 6);
    CHECK(is[0].miss == was[0].miss + 2);
    CHECK(is[1].looked_up == was[1].looked_up + 2);
    CHECK(is[1].miss == was[1].miss + 2);
    CHECK(is[0].chunk_queries == 4);
    CHECK(is[1].chunk_queries == 1);
  }
  SECTION("other options, or another list with the same keys, ask anew") {
    Poller other(e, keys("k", 4), r);
    other.ask();
    CHECK(other.asked_anew());
    p.settle();
    p.options.scan = LookupScan::window;
    p.ask();
    CHECK(p.asked_anew());
  }
  SECTION("a caller that does not keep its list is asked for anew, too") {
    e.take_trace();
    LookupOptions how;
    how.wait = LookupWait::polled;
    e.lookup(r, keys("k", 4), how);
    CHECK(e.take_trace().size() > 1);
  }
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a poller waits for its loads without asking, and hears of their landing or failure at once", "[actor][memo]") {
  VirtualEngine e(options());
  const auto k = keys("k", 4);
  e.tier().present.insert(k.begin(), k.end());
  e.tier().automatic = false;
  const auto r = e.request();
  Poller p(e, k, r);
  p.ask();
  CHECK(p.ask().results == Results(4, kPending));
  e.step_end();
  p.settle();
  CHECK(p.ask().results == Results(4, kPending));
  SECTION("landed") {
    e.tier().finish(0);
    e.run();
    CHECK(p.ask().results == Results(4, kHit));
    CHECK(p.asked_anew());
    p.settle();
    CHECK(p.ask().results == Results(4, kHit));
  }
  SECTION("one failed") {
    e.tier().unreadable.insert(k[2]);
    e.tier().finish(0);
    e.run();
    CHECK(p.ask().results == Results{kHit, kHit, kMiss, kMiss});
    p.settle();
    CHECK(p.ask().results == Results{kHit, kHit, kMiss, kMiss});
  }
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a missing key that somebody stores or loads is seen at once", "[actor][memo]") {
  VirtualEngine e(options());
  const auto writer = e.request("writer"), r = e.request("r");
  Poller p(e, keys("k", 2), r);
  p.settle();
  SECTION("stored") {
    const auto plan = e.prepare_store(writer, keys("k", 1));
    REQUIRE(plan);
    CHECK(p.ask().results == Results{kPending, kMiss});
    p.settle();
    REQUIRE(e.complete_store(plan->lease).get());
    CHECK(p.ask().results == Results{kHit, kMiss});
  }
  SECTION("a store that fails") {
    const auto plan = e.prepare_store(writer, keys("k", 1));
    REQUIRE(plan);
    p.settle();
    REQUIRE(e.complete_store(plan->lease, {.success = false}).get());
    CHECK(p.ask().results == Results{kMiss, kMiss});
  }
  SECTION("loaded by a request whose filter allows more") {
    const auto list = keys("k", 2);
    const auto narrow = e.request("narrow", TierFilter::only({}));
    Poller n(e, list, narrow);
    n.settle();
    e.tier().present.insert(list.begin(), list.end());
    e.tier().automatic = false;
    const auto load = e.lookup(writer, list);
    CHECK(n.ask().results == Results(2, kPending));
    n.settle();
    e.tier().finish(0);
    e.run();
    CHECK(n.ask().results == Results(2, kHit));
    REQUIRE(e.finish(narrow));
  }
  REQUIRE(e.finish(writer));
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("whatever ends a hold ends the memo", "[actor][memo]") {
  VirtualEngine e(options());
  const auto writer = e.request("writer"), r = e.request("r");
  const auto k = keys("k", 3);
  e.tier().present.insert(k.begin(), k.end());
  Poller p(e, k, r);
  p.ask();
  p.ask();
  e.step_end();
  p.settle();
  CHECK(p.ask().results == Results(3, kHit));
  // What is not held goes; the tier still has it, so that it is loaded again.
  const auto evict_all = [&] { e.store(writer, keys("x", 32)); };
  const Results again(3, kPending);
  SECTION("the clock of unread promotions") {
    e.advance(121s);
    evict_all();
    CHECK(p.ask().results == again);
  }
  SECTION("prepare_load") {
    const auto load = e.prepare_load(r, k);
    REQUIRE(load);
    REQUIRE(e.complete_load(load->lease));
    evict_all();
    CHECK(p.ask().results == again);
  }
  SECTION("abort") {
    REQUIRE(e.abort(r));
    evict_all();
    CHECK(p.ask().results == again);
  }
  SECTION("forget") {
    REQUIRE(e.forget({k[1]}));
    CHECK(p.ask().results == Results{kHit, kMiss, kMiss});
  }
  SECTION("reset") {
    REQUIRE(e.reset());
    CHECK(p.ask().results == again);
  }
  SECTION("another lookup of the request") {
    Poller other(e, keys("y", 1) + k, r);  // a prefix that ends at once lets go of what lies behind
    other.ask();
    other.ask();
    evict_all();
    CHECK(p.ask().results == again);
  }
  SECTION("nothing did: what is held stays") {
    REQUIRE_FALSE(e.prepare_store(writer, keys("x", 30)));
    CHECK(p.ask().results == Results(3, kHit));
    CHECK(p.trace == kFromMemo);
  }
  e.step_end();
  REQUIRE(e.finish(writer));
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("what can change unseen is not kept", "[actor][memo]") {
  auto o = options();
  LookupOptions how;
  Results expected{kHit, kMiss};
  SECTION("hits without a hold") { how.hold = false; }
  SECTION("hits beyond the share of holds") { o.primary = PrimaryConfig{0.0, 0.0, 0.0}; }
  SECTION("a tier's own memory") {
    o.setup_tier = [](std::size_t, ScriptedTier& tier) { tier.in_memory = true; };
  }
  SECTION("a refusal") {
    o.admission = R"({"type": "promotion_concurrency", "max_inflight_promotions": 1})";
    expected = {kHit, kPending, kMiss};
  }
  VirtualEngine e(o);
  const auto r = e.request();
  e.store(r, keys("k", 1));
  e.tier().present.clear();
  const auto list = keys("k", expected.size());
  if (!o.admission.empty()) e.tier().present.insert(list.begin() + 1, list.end());
  Poller p(e, list, r, how);
  for (int i = 0; i < 4; ++i) p.ask();
  CHECK(p.ask().results == expected);
  CHECK(p.asked_anew());
  e.step_end();
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("watches are bounded by the slots, and end with their requests", "[actor][memo]") {
  VirtualEngine e(options());  // 32 slots
  std::vector<RequestHandle> requests;
  LookupOptions window;
  window.scan = LookupScan::window;
  std::vector<Poller> pollers;
  for (int i = 0; i < 5; ++i) {
    requests.push_back(e.request("r" + std::to_string(i)));
    pollers.emplace_back(e, keys("m" + std::to_string(i) + "-", 8), requests.back(), window);
    for (int n = 0; n < 3; ++n) pollers.back().ask();
  }
  for (int i = 0; i < 4; ++i) CHECK(pollers[static_cast<std::size_t>(i)].trace == kFromMemo);
  CHECK(pollers[4].asked_anew());
  REQUIRE(e.finish(requests[0]));
  pollers[4].ask();
  pollers[4].ask();
  CHECK(pollers[4].trace == kFromMemo);
  for (std::size_t i = 1; i < 5; ++i) REQUIRE(e.finish(requests[i]));
  e.require_promises();
}

// Two engines get the same calls; one of them may keep its answers. Whoever polls must not be able to tell.
TEST_CASE("with and without a memo every answer and every count is the same", "[actor][memo]") {
  const bool in_memory = GENERATE(false, true);
  const auto seed = std::random_device{}();
  INFO("seed " << seed << (in_memory ? ", a tier that answers from memory" : ""));
  std::mt19937 dice(seed);
  const auto roll = [&](unsigned n) { return static_cast<std::size_t>(dice() % n); };
  auto o = options();
  o.setup_tier = [&](std::size_t, ScriptedTier& tier) {
    tier.automatic = false;
    tier.in_memory = in_memory;
  };
  VirtualEngine kept(o), plain(o);
  VirtualEngine* const engines[] = {&kept, &plain};
  struct Asker {
    RequestHandle r[2];
    KeyList list;
    SharedKeys shared;
    LookupOptions how;
  };
  int named = 0;
  RequestHandle writer[2];
  for (int i = 0; i < 2; ++i) writer[i] = engines[i]->request("writer");
  const auto some_keys = [&](std::size_t most) {
    return keys("k" + std::to_string(roll(3)), 1 + roll(static_cast<unsigned>(most)), roll(3));
  };
  const auto begin = [&](Asker& a) {
    const auto id = "r" + std::to_string(named++);
    for (int i = 0; i < 2; ++i) a.r[i] = engines[i]->request(id);
    a.list = some_keys(8);
    a.shared = std::make_shared<const KeyList>(a.list);
    a.how = {};
    a.how.wait = LookupWait::polled;
    a.how.scan = roll(4) == 0 ? LookupScan::window : LookupScan::prefix;
    a.how.hold = roll(5) != 0;
  };
  std::vector<Asker> askers(3);
  for (auto& a : askers) begin(a);
  int from_memo = 0;
  const auto poll = [&](Asker& a) {
    kept.take_trace();
    const auto mine = kept.start<LookupAnswer>([&](Reply<LookupAnswer> reply) {
                             return LookupCall{a.r[0], a.shared, a.how, std::move(reply), {}, true};
                           }).get();
    from_memo += kept.take_trace() == kFromMemo ? 1 : 0;
    const auto other = plain.lookup(a.r[1], a.list, a.how).get();
    REQUIRE(mine);
    REQUIRE(other);
    REQUIRE(mine->results == other->results);
    REQUIRE(mine->tier_hits == other->tier_hits);
    REQUIRE(std::tuple(mine->leading_hits, mine->promoted, mine->unheld, mine->truncated, mine->refused, mine->gave_up) ==
            std::tuple(other->leading_hits, other->promoted, other->unheld, other->truncated, other->refused, other->gave_up));
  };
  for (int step = 0; step < 1500; ++step) {
    auto& a = askers[roll(3)];
    switch (roll(16)) {
      default: poll(a); break;
      case 0:
        for (auto* e : engines) e->step_end();
        break;
      case 1:
      case 2: {
        if (kept.tier().jobs.empty()) break;
        const auto at = roll(static_cast<unsigned>(kept.tier().jobs.size()));
        for (auto* e : engines) {
          REQUIRE(e->tier().jobs.size() > at);
          e->tier().finish(at);
          e->run();
        }
        break;
      }
      case 3: {
        const auto list = roll(3) == 0 ? keys("x" + std::to_string(step), 6) : some_keys(6);
        const bool fails = roll(4) == 0;
        Expected<StorePlan> plans[] = {kept.prepare_store(writer[0], list), plain.prepare_store(writer[1], list)};
        REQUIRE(plans[0].has_value() == plans[1].has_value());
        if (!plans[0]) break;
        for (auto& other : askers) poll(other);  // while it is being written
        for (int i = 0; i < 2; ++i) REQUIRE(engines[i]->complete_store(plans[i]->lease, {.success = !fails}).get());
        break;
      }
      case 4:
        for (int i = 0; i < 2; ++i)
          if (const auto load = engines[i]->prepare_load(a.r[i], a.list)) REQUIRE(engines[i]->complete_load(load->lease));
        break;
      case 5: {
        if (roll(4) != 0) break;
        for (int i = 0; i < 2; ++i) REQUIRE(engines[i]->finish(a.r[i]));
        begin(a);
        break;
      }
      case 6: {
        if (roll(6) != 0) break;
        const auto list = some_keys(3);
        while (!kept.tier().jobs.empty())  // a tier forgets behind its jobs
          for (auto* e : engines) {
            e->tier().finish(0);
            e->run();
          }
        for (auto* e : engines) REQUIRE(e->forget(list));
        break;
      }
      case 7: {
        if (roll(20) != 0) break;
        while (!kept.tier().jobs.empty())
          for (auto* e : engines) {
            e->tier().finish(0);
            e->run();
          }
        if (roll(2) == 0) {
          for (auto* e : engines) e->advance(121s);
        } else {
          for (auto* e : engines) REQUIRE(e->reset());
        }
        break;
      }
      case 8: {
        if (!in_memory) break;
        const auto list = some_keys(3);
        for (auto* e : engines) e->tier().present.insert(list.begin(), list.end());
        break;
      }
      case 9:
        if (roll(4) == 0)
          for (int i = 0; i < 2; ++i) REQUIRE(engines[i]->abort(a.r[i]));
        else if (roll(4) == 0)
          for (int i = 0; i < 2; ++i) engines[i]->allocated(a.r[i], 0);
        break;
    }
  }
  CHECK(from_memo > 100);
  for (auto* e : engines) e->step_end();
  while (!kept.tier().jobs.empty())
    for (auto* e : engines) {
      e->tier().finish(0);
      e->run();
    }
  for (const auto& a : askers) {
    const auto mine = kept.finish(a.r[0]), other = plain.finish(a.r[1]);
    REQUIRE(mine);
    CHECK(mine->looked_up_chunks == other->looked_up_chunks);
    CHECK(mine->hit_chunks == other->hit_chunks);
  }
  const auto mine = kept.stats(), other = plain.stats();
  for (std::size_t t = 0; t < 2; ++t) {
    const auto& l = mine.scheduler.lookups[t];
    const auto& m = other.scheduler.lookups[t];
    CHECK(std::tuple(l.looked_up, l.hit, l.miss, l.chunk_queries, l.chunk_hits, l.gave_up) ==
          std::tuple(m.looked_up, m.hit, m.miss, m.chunk_queries, m.chunk_hits, m.gave_up));
  }
  CHECK(mine.tracker.jobs_registered == other.tracker.jobs_registered);
  CHECK(mine.primary.evictions == other.primary.evictions);
  for (int i = 0; i < 2; ++i) REQUIRE(engines[i]->finish(writer[i]));
  kept.require_promises();
  plain.require_promises();
}
