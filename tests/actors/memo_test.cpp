#include "kv_offload/tests/support/virtual_engine.hpp"

#include <numeric>
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

namespace {

/// Random calls of three pollers, a writer, a tier and the clock, given to one engine or to several alike.
struct Script {
  struct Asker {
    std::vector<RequestHandle> r;  ///< by engine
    KeyList list;
    SharedKeys shared;
    LookupOptions how;
  };

  Script(std::vector<VirtualEngine*> all, std::uint32_t seed, bool memory)
      : engines(std::move(all)), in_memory(memory), dice(seed) {
    for (auto* e : engines) writers.push_back(e->request("writer"));
    for (auto& a : askers) begin(a);
  }
  std::size_t roll(unsigned n) { return static_cast<std::size_t>(dice() % n); }
  KeyList some_keys(unsigned most) {
    const auto name = "k" + std::to_string(roll(3));
    const auto n = 1 + roll(most);
    return keys(name, n, roll(3));
  }
  void begin(Asker& a) {
    const auto id = "r" + std::to_string(named++);
    a.r.clear();
    for (auto* e : engines) a.r.push_back(e->request(id));
    a.list = some_keys(8);
    a.shared = std::make_shared<const KeyList>(a.list);
    a.how = {};
    a.how.wait = LookupWait::polled;
    a.how.scan = roll(4) == 0 ? LookupScan::window : LookupScan::prefix;
    a.how.hold = roll(5) != 0;
  }
  /// The caller's way of asking: `keeps` its list, or not.
  LookupAnswer ask(const Asker& a, std::size_t engine, bool keeps) {
    auto& e = *engines[engine];
    e.take_trace();
    const auto answer = e.start<LookupAnswer>([&](Reply<LookupAnswer> reply) {
                           return LookupCall{a.r[engine], keeps ? a.shared : std::make_shared<const KeyList>(a.list),
                                             a.how, std::move(reply), {}, keeps};
                         }).get();
    if (keeps && e.take_trace() == kFromMemo) ++from_memo;
    REQUIRE(answer);
    return *answer;
  }
  void finish_job(std::size_t at) {
    for (auto* e : engines) {
      REQUIRE(e->tier().jobs.size() > at);
      e->tier().finish(at);
      e->run();
    }
  }
  void finish_jobs() {
    while (!engines[0]->tier().jobs.empty()) finish_job(0);
  }
  template <class Poll>
  void store(Poll poll) {
    const auto list = roll(3) == 0 ? keys("x" + std::to_string(named++), 6) : some_keys(6);
    const bool fails = roll(4) == 0;
    std::vector<Expected<StorePlan>> plans;
    for (std::size_t i = 0; i < engines.size(); ++i) plans.push_back(engines[i]->prepare_store(writers[i], list));
    for (auto& a : askers) poll(a);  // while it is being written
    for (std::size_t i = 0; i < engines.size(); ++i)
      if (plans[i]) REQUIRE(engines[i]->complete_store(plans[i]->lease, {.success = !fails}).get());
  }
  template <class Poll>
  void step(Poll poll) {
    auto& a = askers[roll(3)];
    switch (roll(16)) {
      default: return poll(a);
      case 0:
        for (auto* e : engines) e->step_end();
        return;
      case 1:
      case 2:
        if (const auto open = engines[0]->tier().jobs.size(); open > 0) finish_job(roll(static_cast<unsigned>(open)));
        return;
      case 3: return store(poll);
      case 4:
        for (std::size_t i = 0; i < engines.size(); ++i)
          if (const auto load = engines[i]->prepare_load(a.r[i], a.list)) REQUIRE(engines[i]->complete_load(load->lease));
        return;
      case 5:
        if (roll(4) != 0) return;
        for (std::size_t i = 0; i < engines.size(); ++i) REQUIRE(engines[i]->finish(a.r[i]));
        return begin(a);
      case 6: {
        if (roll(6) != 0) return;
        finish_jobs();  // a tier forgets behind its jobs
        const auto list = some_keys(3);
        for (auto* e : engines) REQUIRE(e->forget(list));
        return;
      }
      case 7: {
        if (roll(20) != 0) return;
        finish_jobs();
        const bool resets = roll(2) == 0;
        for (auto* e : engines)
          if (resets) REQUIRE(e->reset());
          else e->advance(121s);
        return;
      }
      case 8: {
        if (!in_memory) return;
        const auto list = some_keys(3);
        for (auto* e : engines) e->tier().present.insert(list.begin(), list.end());
        return;
      }
      case 9: {
        const auto what = roll(8);
        for (std::size_t i = 0; i < engines.size(); ++i)
          if (what == 0) REQUIRE(engines[i]->abort(a.r[i]));
          else if (what == 1) engines[i]->allocated(a.r[i], 0);
        return;
      }
    }
  }
  void end() {
    for (auto* e : engines) e->step_end();
    finish_jobs();
    for (std::size_t i = 0; i < engines.size(); ++i) {
      REQUIRE(engines[i]->finish(writers[i]));
      engines[i]->require_promises();
    }
  }

  std::vector<VirtualEngine*> engines;
  bool in_memory;
  std::mt19937 dice;
  std::vector<RequestHandle> writers;
  std::array<Asker, 3> askers;
  int named = 0;
  int from_memo = 0;
};

VirtualEngine::Options scripted(std::uint32_t chunks, bool in_memory) {
  auto o = options();
  o.chunks = chunks;
  o.setup_tier = [in_memory](std::size_t, ScriptedTier& tier) {
    tier.automatic = false;
    tier.in_memory = in_memory;
  };
  return o;
}
void require_same(const LookupAnswer& a, const LookupAnswer& b) {
  REQUIRE(a.results == b.results);
  REQUIRE(a.tier_hits == b.tier_hits);
  REQUIRE(std::tuple(a.leading_hits, a.promoted, a.unheld, a.truncated, a.refused, a.gave_up) ==
          std::tuple(b.leading_hits, b.promoted, b.unheld, b.truncated, b.refused, b.gave_up));
}

}  // namespace

TEST_CASE("an answer from memory is what the engine would find if it looked", "[actor][memo]") {
  const bool in_memory = GENERATE(false, true);
  const auto seed = std::random_device{}();
  INFO("seed " << seed << (in_memory ? ", a tier that answers from memory" : ""));
  VirtualEngine e(scripted(24, in_memory));  // few enough that stores evict what nobody holds
  Script script({&e}, seed, in_memory);
  int compared = 0;
  for (int step = 0; step < 3000; ++step)
    script.step([&](Script::Asker& a) {
      const auto before = script.from_memo;
      const auto answer = script.ask(a, 0, true);
      if (script.from_memo == before || script.roll(4) != 0) return;
      ++compared;
      require_same(answer, script.ask(a, 0, false));  // looks, and so ends the memo
    });
  CHECK(compared > 20);
  for (const auto& a : script.askers) REQUIRE(e.finish(a.r[0]));
  script.end();
}

// Enough slots that nothing is evicted: looking again for what lies behind a gap moves its place in the order of
// eviction, and an answer from memory does not.
TEST_CASE("with and without a memo every answer and every count is the same", "[actor][memo]") {
  const bool in_memory = GENERATE(false, true);
  const auto seed = std::random_device{}();
  INFO("seed " << seed << (in_memory ? ", a tier that answers from memory" : ""));
  VirtualEngine kept(scripted(1024, in_memory)), plain(scripted(1024, in_memory));
  Script script({&kept, &plain}, seed, in_memory);
  for (int step = 0; step < 1500; ++step)
    script.step([&](Script::Asker& a) { require_same(script.ask(a, 0, true), script.ask(a, 1, false)); });
  CHECK(script.from_memo > 20);
  for (auto* e : script.engines) e->step_end();
  script.finish_jobs();
  for (const auto& a : script.askers) {
    const auto mine = kept.finish(a.r[0]), other = plain.finish(a.r[1]);
    REQUIRE(mine);
    CHECK(mine->looked_up_chunks == other->looked_up_chunks);
    CHECK(mine->hit_chunks == other->hit_chunks);
  }
  const auto mine = kept.stats(), other = plain.stats();
  REQUIRE(mine.primary.evictions == 0);
  for (std::size_t t = 0; t < 2; ++t) {
    const auto& l = mine.scheduler.lookups[t];
    const auto& m = other.scheduler.lookups[t];
    // A tier that was disabled gives up what it missed before: a kept answer still says that it missed.
    const auto unanswered = [](const LookupTotals& of) {
      return std::accumulate(of.gave_up.begin(), of.gave_up.end(), of.miss);
    };
    CHECK(std::tuple(l.looked_up, l.hit, l.chunk_hits, unanswered(l)) ==
          std::tuple(m.looked_up, m.hit, m.chunk_hits, unanswered(m)));
    if (t > 0 && other.tracker.tiers[t - 1].disabled) continue;
    CHECK(std::tuple(l.miss, l.chunk_queries) == std::tuple(m.miss, m.chunk_queries));
    CHECK(l.gave_up == m.gave_up);
  }
  CHECK(mine.tracker.jobs_registered == other.tracker.jobs_registered);
  script.end();
}
