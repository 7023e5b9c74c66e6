#include "kv_offload/tests/support/device_failing_backend.hpp"
#include "kv_offload/tests/support/device_fixture.hpp"

#include <catch2/catch.hpp>

#include <thread>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

constexpr WorkerPlace kPlace{0, 1, 4, ChunkLayout::sharded};
TestCaches one_tensor() { return std::move(TestCaches().tensor(256, 16).ref(0, 0)); }
BlockList blocks(std::vector<std::uint32_t> ids) {
  const auto count = static_cast<std::uint32_t>(ids.size());
  return {std::move(ids), {count}, {0}};
}

/// Positions of the calls in their order; fails if one is missing.
std::vector<std::size_t> positions(const std::vector<std::string>& calls,
                                   std::initializer_list<const char*> which) {
  std::vector<std::size_t> at;
  for (const char* call : which) {
    const auto found = std::find(calls.begin(), calls.end(), call);
    CAPTURE(call);
    REQUIRE(found != calls.end());
    at.push_back(static_cast<std::size_t>(found - calls.begin()));
  }
  return at;
}

}  // namespace

TEST_CASE("a stop runs both streams down, then lets go of registration and streams",
          "[device][worker]") {
  auto backend = std::make_shared<FailingBackend>();
  TestCaches caches = one_tensor();
  TestRows rows(4, 1024);
  TestWorker worker(caches, kPlace, rows, backend);
  worker.start();
  for (std::uint64_t id = 0; id < 20; ++id) {
    CHECK(worker.worker->submit(id % 2 == 0 ? store_job(id, blocks({0, 1, 2, 3}), {1})
                                            : load_job(id, blocks({8, 9}), {2})));
  }
  CHECK(worker.worker->stop(kPatience));
  CHECK(worker.ends.count() == 20);  // each told before stop returned
  CHECK(rows.unused());
  CHECK(backend->registrations == 0);
  const auto at =
      positions(backend->calls(), {"synchronize kvo-store-0", "synchronize kvo-load-0",
                                   "unregister", "close kvo-store-0", "close kvo-load-0"});
  CHECK(std::is_sorted(at.begin(), at.end()));
  CHECK(worker.worker->stop({}));  // once is enough
  CHECK(backend->calls().back() == "close kvo-load-0");
}

TEST_CASE("a stopped worker takes no jobs", "[device][worker]") {
  TestCaches caches = one_tensor();
  TestRows rows(4, 1024);
  TestWorker worker(caches, kPlace, rows);
  worker.start();
  CHECK(worker.worker->stop(kPatience));
  const auto late = worker.worker->submit(store_job(1, blocks({0}), {0}));
  REQUIRE_FALSE(late);
  CHECK(late.error().code == OffloadErrc::shutting_down);
  CHECK(worker.ends.count() == 0);
}

TEST_CASE("the destructor stops a worker that nobody stopped", "[device][worker]") {
  auto backend = std::make_shared<FailingBackend>();
  TestCaches caches = one_tensor();
  TestRows rows(4, 1024);
  TestWorker worker(caches, kPlace, rows, backend);
  worker.start();
  CHECK(worker.worker->submit(store_job(1, blocks({0, 1}), {1})));
  worker.worker.reset();
  CHECK(worker.ends.count() == 1);
  CHECK(backend->registrations == 0);
}

TEST_CASE("a device that failed is logged at the stop, waited for and released all the same",
          "[device][worker]") {
  std::atomic<int> copies{0};
  auto backend = std::make_shared<FailingBackend>(
      0, HostOptions{1, [&](std::span<const CopyFragment>) {
                       return ++copies, HostTrouble{"device lost", true};
                     }});
  TestCaches caches = one_tensor();
  TestRows rows(4, 1024);
  const auto before = rows.bytes;
  TestWorker worker(caches, kPlace, rows, backend);
  worker.start();
  CHECK_FALSE(worker.run(store_job(1, blocks({0}), {0})).success);
  CHECK_FALSE(worker.run(store_job(2, blocks({0}), {0})).success);  // and no copy is tried again
  CHECK(copies == 1);
  CHECK(worker.worker->stop(kPatience));
  CHECK(worker.log.has("error", "device lost"));
  const auto at =
      positions(backend->calls(), {"synchronize kvo-store-0", "synchronize kvo-load-0",
                                   "unregister", "close kvo-store-0", "close kvo-load-0"});
  CHECK(std::is_sorted(at.begin(), at.end()));
  CHECK(rows.bytes == before);
  CHECK(rows.unused());
}

TEST_CASE("jobs queued behind a device that is lost end without a copy", "[device][worker]") {
  Gate gate;
  std::atomic<int> copies{0};
  auto backend = make_host_backend({1, [&](std::span<const CopyFragment>) {
                                      ++copies;
                                      gate.pass();
                                      return HostTrouble{"device lost", true};
                                    }});
  REQUIRE(backend);
  TestCaches caches = one_tensor();
  TestRows rows(4, 1024);
  const auto before = rows.bytes;
  TestWorker worker(caches, kPlace, rows, *backend);
  worker.start();
  for (std::uint64_t id = 1; id <= 5; ++id)
    CHECK(worker.worker->submit(store_job(id, blocks({0}), {0})));
  gate.open();
  CHECK(worker.worker->stop(kPatience));
  for (std::uint64_t id = 1; id <= 5; ++id) CHECK(worker.ends.wait_for(id).error == "device lost");
  CHECK(copies == 1);
  CHECK(rows.bytes == before);
}

TEST_CASE("a copy that hangs: stop answers false, says so, and leaks what it may still touch",
          "[device][worker]") {
  auto gate = std::make_shared<Gate>();
  auto backend = std::make_shared<FailingBackend>(
      0, HostOptions{1, [gate](std::span<const CopyFragment>) {
                       gate->pass();
                       return HostTrouble{
                           "too late", false};  // what it would touch is the test's, and soon gone
                     }});
  TestCaches caches = one_tensor();
  TestRows rows(4, 1024);
  TestWorker worker(caches, kPlace, rows, backend);
  auto token = std::make_shared<int>();
  const std::weak_ptr<const void> buffer(token);
  worker.options.caches.tensors[0].alive = buffer;
  worker.start();
  CHECK(worker.worker->submit(store_job(1, blocks({0}), {3})));
  gate->wait_for_arrivals(1);
  CHECK_FALSE(worker.worker->stop({}));
  CHECK(worker.log.has("error", "1 copy jobs did not end"));
  CHECK(worker.log.has("error", "a copy is running"));
  CHECK(worker.log.has("error", "must not be freed"));
  CHECK_FALSE(worker.worker->stop(kPatience));  // the answer stays
  CHECK(backend->registrations == 1);           // the device may still use it
  CHECK(rows.in_use[3] == 1);
  const DeviceWorkerStats stats = worker.worker->stats();
  CHECK(stats.running_jobs == 1);
  worker.worker.reset();
  token.reset();
  CHECK_FALSE(buffer.expired());
  // Late: nobody is told, nothing of the embedder is touched.
  gate->open();
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (backend->calls().back() != "told" && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  REQUIRE(backend->calls().back() == "told");  // the stream has passed the end
  CHECK(worker.ends.count() == 0);
  CHECK(rows.in_use[3] == 1);
}

TEST_CASE("an end that the device cannot tell counts as running until the stop has waited for it",
          "[device][worker]") {
  auto backend = std::make_shared<FailingBackend>();
  TestCaches caches = one_tensor();
  TestRows rows(4, 1024);
  TestWorker worker(caches, kPlace, rows, backend);
  worker.start();
  backend->then_fails = true;
  CHECK(worker.worker->submit(store_job(1, blocks({0}), {3})));
  CHECK(worker.log.has("error", "cannot be told: then failed"));
  CHECK(worker.worker->stats().running_jobs == 1);
  CHECK(rows.in_use[3] == 1);
  backend->then_fails = false;
  CHECK(says(worker.refusal(store_job(2, blocks({1}), {2})), {"store stream", "then failed"}));
  CHECK(worker.run(load_job(3, blocks({1}), {2})).success);  // the other direction lives
  CHECK(worker.worker->stop(kPatience));
  CHECK_FALSE(worker.ends.wait_for(1).success);
  CHECK(rows.unused());
}

TEST_CASE("many threads submit while one stops: every accepted job ends exactly once",
          "[device][worker]") {
  TestCaches caches = one_tensor();
  TestRows rows(4, 1024);
  TestWorker worker(caches, kPlace, rows);
  worker.start();
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<int> started{0};
  std::vector<std::thread> callers;
  for (std::uint64_t t = 0; t < 4; ++t)
    callers.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 200; ++i) {
        const auto block = static_cast<std::uint32_t>(t);
        CopyJob job = store_job(t * 1000 + i, blocks({block}), {block});
        job.is_load = t % 2 == 1;
        if (worker.worker->submit(std::move(job))) ++accepted;
        if (i == 20) ++started;
      }
    });
  while (started < 4) std::this_thread::yield();
  CHECK(worker.worker->stop(kPatience));
  const std::size_t told = worker.ends.count();
  for (auto& caller : callers) caller.join();
  CHECK(told == accepted);
  CHECK(worker.ends.count() == accepted);
  CHECK(rows.unused());
}
