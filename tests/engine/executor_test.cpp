// EngineConfig::executor: where a host's callbacks run, and what becomes of them at the end. Growth and prefetch
// through the facade.
#include "kv_offload/tests/support/engine_fixture.hpp"

#include <atomic>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <thread>

using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

namespace {

/// Keeps tasks for the test to run.
struct Queue {
  Executor executor() {
    return [this](std::function<void()> task) {
      const std::scoped_lock lock(mutex);
      tasks.push_back(std::move(task));
    };
  }
  std::size_t run_all() {
    std::size_t ran = 0;
    for (;; ++ran) {
      std::function<void()> task;
      {
        const std::scoped_lock lock(mutex);
        if (tasks.empty()) return ran;
        task = std::move(tasks.front());
        tasks.pop_front();
      }
      task();
    }
  }
  std::mutex mutex;
  std::deque<std::function<void()>> tasks;
};

EngineConfig config_with(Executor executor) {
  auto config = small_config();
  config.executor = std::move(executor);
  return config;
}
/// Waits for `done`; false after far longer than anything here takes.
template <class Done>
bool comes_true(Done done) {
  for (int i = 0; i < 10000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

}  // namespace

TEST_CASE("callbacks run where the host's executor runs them, answers come by get as ever", "[engine][executor]") {
  Queue queue;
  auto engine = start(config_with(queue.executor()));
  const auto r = *engine->new_request({.req_id = "r"}).get();
  std::atomic<int> called{0};
  std::thread::id where;
  engine->lookup(r, keys('a', 2)).then([&](Expected<LookupAnswer> answer) {
    CHECK(answer);
    where = std::this_thread::get_id();
    ++called;
  });
  REQUIRE(comes_true([&] { return queue.run_all() > 0; }));
  CHECK(called == 1);
  CHECK(where == std::this_thread::get_id());
  SECTION("an answer that is there already and a refusal take the same way") {
    auto there = engine->lookup(r, keys('a', 2));
    REQUIRE(comes_true([&] { return there.ready(); }));
    std::move(there).then([&](const Expected<LookupAnswer>&) { ++called; });
    CHECK(called == 1);
    CHECK(queue.run_all() == 1);
    CHECK(called == 2);
    engine->lookup(r, KeyList(config_with({}).keys_max + 1)).then([&](Expected<LookupAnswer> answer) {
      CHECK_FALSE(answer);
      ++called;
    });
    CHECK(queue.run_all() == 1);
    CHECK(called == 3);
  }
  SECTION("get and future need no executor") {
    CHECK(engine->lookup(r, keys('a', 2)).future().get());
    CHECK(engine->lookup(r, keys('a', 2)).get());
    CHECK(queue.run_all() == 0);
  }
}

TEST_CASE("an executor that runs tasks inside its call may call the engine from them", "[engine][executor]") {
  auto engine = start(config_with([](const std::function<void()>& task) { task(); }));
  const auto r = *engine->new_request({.req_id = "r"}).get();
  std::atomic<bool> done{false};
  engine->lookup(r, keys('a', 2)).then([&](const Expected<LookupAnswer>&) {
    engine->prepare_store(r, keys('a', 2)).then([&](Expected<StorePlan> plan) {
      engine->complete_store(plan->lease, {.success = false}).then([&](const Expected<StoreOutcome>&) { done = true; });
    });
  });
  REQUIRE(comes_true([&] { return done.load(); }));
  require_promises(*engine);
}

TEST_CASE("an executor that drops or throws loses callbacks and nothing else", "[engine][executor]") {
  const bool throws = GENERATE(false, true);
  std::atomic<int> asked{0};
  auto config = config_with([&, throws](const std::function<void()>&) {
    ++asked;
    if (throws) throw std::runtime_error("no");
  });
  config.calls_max = 4;
  auto engine = start(config);
  const auto r = *engine->new_request({.req_id = "r"}).get();
  bool called = false;
  for (int i = 1; i <= 20; ++i) {  // credits come back, or the fifth would be busy
    engine->lookup(r, keys('a', 2)).then([&](const Expected<LookupAnswer>&) { called = true; });
    REQUIRE(comes_true([&] { return asked == i; }));
  }
  CHECK_FALSE(called);
  CHECK(engine->lookup(r, keys('a', 2)).get());
  REQUIRE(engine->request_finished(r).get());
  require_promises(*engine);
}

TEST_CASE("shutdown hands over every callback before it returns, and they may run after the engine is gone", "[engine][executor]") {
  TempDir dir;
  Queue queue;
  auto config = config_with(queue.executor());
  auto faults = std::make_shared<TierFaults>();
  config.secondary_tiers.push_back(fs_tier(dir.path, faults));
  auto engine = start(config);
  const auto r = *engine->new_request({.req_id = "r"}).get();
  store(*engine, r, keys('a', 2), std::byte{1}, true);
  REQUIRE(engine->reset().get());
  faults->hang = true;
  std::atomic<int> answered{0};
  std::vector<std::uint32_t> told;
  for (int i = 0; i < 3; ++i)
    engine->lookup(r, keys('a', 2)).then([&](const Expected<LookupAnswer>&) { ++answered; });
  engine->lookup_growing(r, keys('a', 2), {}, [&](std::uint32_t n) { told.push_back(n); })
      .then([&](const Expected<LookupAnswer>&) { ++answered; });
  std::thread release([&] {
    std::this_thread::sleep_for(50ms);
    faults->hang = false;
  });
  engine->shutdown();
  release.join();
  {
    const std::scoped_lock lock(queue.mutex);
    CHECK(queue.tasks.size() >= 4);
  }
  CHECK(answered == 0);
  engine.reset();
  queue.run_all();
  CHECK(answered == 4);
  CHECK(told.empty());  // its answer was handed out before the host looked
}

TEST_CASE("a prefix that grows is told before the answer, from files", "[engine][executor]") {
  TempDir dir;
  auto config = small_config();
  config.primary = {.headroom_share = 0.1, .hold_share = 0.1, .max_pinned_share = 0.6};
  config.secondary_tiers.push_back(fs_tier(dir.path));
  config.secondary_tiers[0].pin_share = 0.2;
  auto engine = start(config);
  const auto r = *engine->new_request({.req_id = "r", .priority = 3}).get();
  store(*engine, r, keys('a', 12), std::byte{1}, true);
  REQUIRE(engine->reset().get());
  std::mutex mutex;
  std::vector<std::uint32_t> told;
  const auto answer = engine->lookup_growing(r, keys('a', 14), {.give_up = 20s}, [&](std::uint32_t n) {
                              const std::scoped_lock lock(mutex);
                              told.push_back(n);
                            }).get();
  REQUIRE(answer);
  CHECK(answer->leading_hits == 12);
  const std::scoped_lock lock(mutex);
  REQUIRE_FALSE(told.empty());
  CHECK(std::is_sorted(told.begin(), told.end()));
  CHECK(told.back() == 12);
}

TEST_CASE("a prefetch through the facade, and a timeout of nothing", "[engine]") {
  TempDir dir;
  auto config = small_config();
  config.secondary_tiers.push_back(fs_tier(dir.path));
  auto engine = start(config);
  const auto r = *engine->new_request({.req_id = "r"}).get();
  store(*engine, r, keys('a', 3), std::byte{1}, true);
  REQUIRE(engine->reset().get());
  const auto submitted = engine->prefetch(r, keys('a', 3)).get();
  REQUIRE(submitted);
  CHECK(submitted->promoted == 3);
  const auto landed = engine->prefetch(r, keys('a', 3), {.mode = PrefetchMode::complete}).get();
  REQUIRE(landed);
  CHECK(landed->results == std::vector(3, LookupResult::hit));
  CHECK(engine->prefetch(r, keys('a', 3), {.mode = PrefetchMode::timeout, .timeout = 10s}).get()->leading_hits == 3);
  CHECK(engine->prefetch(r, keys('a', 3), {.mode = PrefetchMode::timeout}).get().error().code ==
        OffloadErrc::invalid_argument);
  REQUIRE(engine->request_finished(r).get());
  require_promises(*engine);
}

TEST_CASE("a list that is asked for again through the facade says what has changed", "[engine]") {
  auto engine = start(small_config());
  const auto r = *engine->new_request({.req_id = "r"}).get();
  const auto list = std::make_shared<const KeyList>(keys('a', 2));
  LookupOptions polled;
  polled.wait = LookupWait::polled;
  for (int i = 0; i < 3; ++i) CHECK(engine->lookup_shared(r, list, polled).get()->leading_hits == 0);
  store(*engine, r, keys('a', 2), std::byte{1}, true);
  for (int i = 0; i < 3; ++i) CHECK(engine->lookup_shared(r, list, polled).get()->leading_hits == 2);
  CHECK(engine->lookup_shared(r, nullptr).get().error().code == OffloadErrc::invalid_argument);
  CHECK(engine->lookup_shared(r, std::make_shared<const KeyList>()).get()->results.empty());
  REQUIRE(engine->request_finished(r).get());
  require_promises(*engine);
}
