#include "kv_offload/tests/support/virtual_engine.hpp"

#include "kv_offload/messages/prefix_growth.hpp"

#include <thread>

// How a caller hears of its prefix while its lookup is open.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

namespace {

using Told = std::vector<std::uint32_t>;

VirtualEngine::Options options() {
  VirtualEngine::Options o;
  o.chunks = 64;
  o.primary = PrimaryConfig{0.0, 0.5, 0.5};
  o.pin_share = 1;
  o.setup_tier = [](std::size_t, ScriptedTier& tier) { tier.automatic = false; };
  return o;
}
void put(VirtualEngine& e, const KeyList& keys, std::size_t tier = 0) {
  e.tier(tier).present.insert(keys.begin(), keys.end());
}
KeyList operator+(KeyList a, const KeyList& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A lookup that notes what it is told, and whether anything came behind its answer.
struct Growing {
  Growing(VirtualEngine& e, RequestHandle request, const KeyList& keys, LookupOptions how = {})
      : answer(std::make_shared<CompletionSlot<LookupAnswer>>(0U)),
        growth(std::make_shared<PrefixGrowth>([this](std::uint32_t n) {
          late = late || answer->ready();
          told.push_back(n);
        })) {
    auto inner = std::make_shared<CompletionSlot<LookupAnswer>>(0U);
    answer_behind(growth, *inner, answer);
    caf::anon_send(e.actors.steps.front(),
                   LookupCall{request, std::make_shared<const KeyList>(keys), how,
                              Reply<LookupAnswer>(inner), growth});
    e.run();
  }
  Expected<LookupAnswer> get() {
    REQUIRE(answer->ready());
    CHECK_FALSE(late);
    return answer->take();
  }
  std::shared_ptr<CompletionSlot<LookupAnswer>> answer;
  Told told;
  bool late = false;
  std::shared_ptr<PrefixGrowth> growth;
};
void finish(VirtualEngine& e, std::size_t job, std::size_t tier = 0) {
  e.tier(tier).finish(job);
  e.run();
}

}  // namespace

TEST_CASE("a growing lookup tells what is there at once and what lands, and then answers", "[actor][growth]") {
  VirtualEngine e(options());
  const auto r = e.request();
  e.tier().automatic = true;
  e.store(r, keys("p", 2));
  e.tier().automatic = false;
  put(e, keys("k", 20));
  Growing call(e, r, keys("p", 2) + keys("k", 20));
  CHECK(call.told == Told{2});
  REQUIRE(e.tier().jobs.size() == 2);  // the first eight on their own
  finish(e, 0);
  CHECK(call.told == Told{2, 10});
  CHECK_FALSE(call.answer->ready());
  const auto load = e.prepare_load(r, keys("p", 2) + keys("k", 20));  // it may be read while the rest is on its way
  REQUIRE(load);
  CHECK(load->chunk_ids.size() == 10);
  REQUIRE(e.complete_load(load->lease));
  finish(e, 0);
  CHECK(call.told == Told{2, 10, 22});
  const auto answer = call.get();
  REQUIRE(answer);
  CHECK(answer->leading_hits == 22);
  CHECK(answer->promoted == 20);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("what lands behind a gap is told when the gap is closed, once", "[actor][growth]") {
  VirtualEngine e(options());
  put(e, keys("k", 20));
  const auto r = e.request();
  Growing call(e, r, keys("k", 20));
  finish(e, 1);
  CHECK(call.told.empty());
  finish(e, 0);
  CHECK(call.told == Told{20});
  CHECK(call.get()->leading_hits == 20);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a prefix does not grow beyond a load that fails", "[actor][growth]") {
  VirtualEngine e(options());
  put(e, keys("k", 12));
  e.tier().unreadable.insert(keys("k", 12)[5]);
  const auto r = e.request();
  Growing call(e, r, keys("k", 12));
  finish(e, 0);
  CHECK(call.told == Told{5});
  finish(e, 0);
  CHECK(call.told == Told{5});
  CHECK(call.get()->leading_hits == 5);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("nothing is told after an abort, a deadline or the engine's end", "[actor][growth]") {
  std::optional<Growing> call;
  bool ended = false;
  {
    VirtualEngine e(options());
    put(e, keys("k", 12));
    const auto r = e.request();
    LookupOptions how;
    how.give_up = 1s;
    call.emplace(e, r, keys("k", 12), how);
    finish(e, 0);
    CHECK(call->told == Told{8});
    SECTION("abort") {
      REQUIRE(e.abort(r));
      CHECK(call->get().error().code == OffloadErrc::aborted);
    }
    SECTION("deadline") {
      e.advance(1200ms);
      CHECK(call->get()->leading_hits == 8);
    }
    SECTION("end of the engine") { ended = true; }
    if (!ended) {
      finish(e, 0);
      CHECK(call->told == Told{8});
      REQUIRE(e.finish(r));
      e.require_promises();
    }
  }
  if (ended) CHECK(call->get().error().code == OffloadErrc::shutting_down);
  CHECK(call->told == Told{8});
}

TEST_CASE("the device's own keys count as readable, and a set of cache groups as one", "[actor][growth]") {
  auto o = options();
  SECTION("device") {
    o.tokens_per_chunk = 16;
    VirtualEngine e(o);
    put(e, keys("k", 6));
    const auto r = e.request();
    LookupOptions how;
    how.device_tokens = 2 * 16;
    Growing call(e, r, keys("k", 6), how);
    CHECK(call.told == Told{2});
    finish(e, 0);
    CHECK(call.told == Told{2, 6});
    CHECK(call.get()->leading_hits == 6);
    REQUIRE(e.finish(r));
    e.require_promises();
  }
  SECTION("groups") {
    o.atomic_groups = {{0, 1}};
    o.tiers = 2;
    VirtualEngine e(o);
    KeyList k;
    for (const std::byte i : {std::byte{1}, std::byte{2}})
      for (std::uint32_t group = 0; group < 2; ++group) k.push_back(*OffloadKey::make(std::span(&i, 1), group));
    put(e, {k[0], k[2]}, 0);
    put(e, {k[1], k[3]}, 1);
    const auto r = e.request();
    Growing call(e, r, k);
    finish(e, 0, 0);
    CHECK(call.told.empty());  // each half of a pair
    finish(e, 0, 1);
    CHECK(call.told == Told{4});
    CHECK(call.get()->leading_hits == 4);
    REQUIRE(e.finish(r));
    e.require_promises();
  }
}

TEST_CASE("growth costs the messages of its first jobs' ends, and none by key", "[actor][growth][trace]") {
  const auto messages = [](bool growing, std::size_t n) {
    auto o = options();
    o.setup_tier = {};
    VirtualEngine e(o);
    put(e, keys("k", n));
    const auto r = e.request();
    e.take_trace();
    if (growing) CHECK(Growing(e, r, keys("k", n)).get()->leading_hits == n);
    else CHECK(e.lookup(r, keys("k", n)).get()->leading_hits == n);
    return e.take_trace();
  };
  CHECK(messages(true, 8) == messages(false, 8));
  // One job more: LaneReport twice, TransfersEnded, AdmissionCompleted, JobsEnded, KeysResolved.
  CHECK(messages(true, 9).size() == messages(false, 9).size() + 6);
  CHECK(messages(true, 32).size() == messages(false, 32).size() + 6);
}

// -- by way of an executor ------------------------------------------------------------------------------------

namespace {

/// Keeps tasks until the test runs or drops them.
struct Queue {
  SharedExecutor executor() {
    return std::make_shared<const Executor>([this](std::function<void()> task) { tasks.push_back(std::move(task)); });
  }
  void run_one() {
    const auto task = std::move(tasks.front());
    tasks.pop_front();
    task();
  }
  std::deque<std::function<void()>> tasks;
};

}  // namespace

TEST_CASE("a slow host is told once of all that grew meanwhile", "[growth]") {
  Queue queue;
  Told told;
  const auto growth = std::make_shared<PrefixGrowth>([&](std::uint32_t n) { told.push_back(n); }, queue.executor());
  for (std::uint32_t n = 1; n <= 100; ++n) growth->report(n);
  REQUIRE(queue.tasks.size() == 1);
  queue.run_one();
  CHECK(told == Told{100});
  growth->report(101);
  queue.run_one();
  CHECK(told == Told{100, 101});
}

TEST_CASE("a call of growth that the answer overtakes does not run", "[growth]") {
  Queue queue;
  Told told;
  bool answered = false;
  const auto growth = std::make_shared<PrefixGrowth>([&](std::uint32_t n) { told.push_back(n); }, queue.executor());
  growth->report(3);
  growth->finish([&] { answered = true; });
  CHECK(answered);
  queue.run_one();
  growth->report(4);
  CHECK(told.empty());
  CHECK(queue.tasks.empty());
}

TEST_CASE("an answer that comes while growth is told waits for that call", "[growth]") {
  Queue queue;
  bool answered = false;
  std::shared_ptr<PrefixGrowth> growth;
  growth = std::make_shared<PrefixGrowth>(
      [&](std::uint32_t) {
        growth->report(5);  // as another thread would, meanwhile
        growth->finish([&] { answered = true; });
        CHECK_FALSE(answered);
      },
      queue.executor());
  growth->report(3);
  queue.run_one();
  CHECK(answered);
  growth = nullptr;
}

TEST_CASE("an executor that drops a call of growth gets the next one, and the answer is not lost", "[growth]") {
  Queue queue;
  Told told;
  bool answered = false;
  const auto growth = std::make_shared<PrefixGrowth>([&](std::uint32_t n) { told.push_back(n); }, queue.executor());
  growth->report(1);
  queue.tasks.clear();
  growth->report(2);
  REQUIRE(queue.tasks.size() == 1);
  queue.run_one();
  CHECK(told == Told{2});
  growth->report(3);
  queue.tasks.clear();
  growth->finish([&] { answered = true; });
  CHECK(answered);
}

TEST_CASE("threads that run growth never tell it twice at a time, out of order or after the answer", "[growth]") {
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> inside{0};
    std::atomic<bool> answered{false}, wrong{false};
    std::uint32_t last = 0;
    std::mutex mutex;
    std::deque<std::function<void()>> tasks;
    const auto executor = std::make_shared<const Executor>([&](std::function<void()> task) {
      const std::scoped_lock lock(mutex);
      tasks.push_back(std::move(task));
    });
    const auto growth = std::make_shared<PrefixGrowth>(
        [&](std::uint32_t n) {
          if (inside.fetch_add(1) != 0 || n <= last || answered) wrong = true;
          last = n;
          inside.fetch_sub(1);
        },
        executor);
    std::atomic<bool> stop{false};
    const auto work = [&] {
      for (;;) {
        const bool last_look = stop;
        std::function<void()> task;
        {
          const std::scoped_lock lock(mutex);
          if (!tasks.empty()) {
            task = std::move(tasks.front());
            tasks.pop_front();
          }
        }
        if (task) task();
        else if (last_look) return;
      }
    };
    std::thread a(work), b(work);
    for (std::uint32_t n = 1; n <= 50; ++n) growth->report(n);
    growth->finish([&] { answered = true; });
    stop = true;
    a.join();
    b.join();
    CHECK_FALSE(wrong);
    CHECK(answered);
  }
}
