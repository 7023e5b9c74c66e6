#include "kv_offload/tests/support/device_failing_backend.hpp"
#include "kv_offload/tests/support/device_fixture.hpp"

#include <catch2/catch.hpp>

#include <sys/mman.h>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

constexpr WorkerPlace kPlace{0, 1, 4, ChunkLayout::sharded};

TestCaches one_tensor() { return std::move(TestCaches().tensor(256, 16).ref(0, 0)); }
BlockList blocks(std::vector<std::uint32_t> ids) {
  const auto count = static_cast<std::uint32_t>(ids.size());
  return {std::move(ids), {count}, {0}};
}
std::unique_ptr<HostStream> compute_stream() {
  auto backend = make_host_backend();
  REQUIRE(backend);
  auto stream = (*backend)->open_compute_stream("compute");
  REQUIRE(stream);
  return std::move(*stream);
}

}  // namespace

TEST_CASE("what is stored comes back, and the totals say how much", "[device][worker]") {
  TestCaches caches = one_tensor();
  caches.fill(1);
  const auto original = caches.memory(0);
  TestRows rows(4, 1024);
  TestWorker worker(caches, kPlace, rows);
  worker.start();
  const CopyResult stored = worker.run(store_job(1, blocks({3, 1, 0, 2, 5}), {2, 0}));
  CHECK(stored.success);
  CHECK(stored.error.empty());
  CHECK(stored.bytes == 5 * 256);
  CHECK(stored.time > Duration{});
  std::fill(caches.memory(0).begin(), caches.memory(0).end(), kPoison);
  CHECK(worker.run(load_job(2, blocks({3, 1, 0, 2, 5}), {2, 0})).success);
  for (std::size_t b = 0; b < 16; ++b) {
    const bool loaded = b <= 3 || b == 5;
    for (std::size_t i = b * 256; i < (b + 1) * 256; ++i)
      REQUIRE(caches.memory(0)[i] == (loaded ? original[i] : kPoison));
  }
  const DeviceWorkerStats stats = worker.worker->stats();
  CHECK(stats.stores.jobs == 1);
  CHECK(stats.stores.bytes == 5 * 256);
  CHECK(stats.stores.time == stored.time);
  CHECK(stats.loads.jobs == 1);
  CHECK(stats.loads.failed + stats.stores.failed == 0);
  CHECK(stats.running_jobs == 0);
  CHECK(rows.unused());
}

TEST_CASE("several groups, unaligned first blocks and an empty group are copied byte for byte",
          "[device][worker]") {
  TestCaches caches;
  caches.tensor(96, 16).tensor(64, 16).tensor(32, 16);
  caches.ref(0, 0).ref(0, 1, 48).ref(1, 2).ref(2, 1);
  caches.fill(5);
  const WorkerPlace place{1, 2, 3, ChunkLayout::sharded};
  TestRows rows(12, chunk_bytes_of(caches.caches, place)),
      expected(12, chunk_bytes_of(caches.caches, place));
  TestWorker worker(caches, place, rows);
  worker.start();
  const BlockList list{{7, 8, 2, 9, 1, 4, 5, 6, 3}, {5, 0, 4}, {2, 1, 4}};
  const CopyJob store = store_job(1, list, {3, 7, 11, 0, 5});
  REQUIRE(worker.run(store).success);
  copy_naively(caches.caches, place, expected.view(), store);
  CHECK(rows.bytes == expected.bytes);
  std::vector<std::vector<std::byte>> stored;
  for (std::size_t t = 0; t < 3; ++t) stored.push_back(caches.memory(t));
  for (std::size_t t = 0; t < 3; ++t)
    std::fill(caches.memory(t).begin(), caches.memory(t).end(), kPoison);
  const CopyJob load = load_job(2, list, store.chunk_ids);
  copy_naively(caches.caches, place, expected.view(), load);
  std::vector<std::vector<std::byte>> loaded;
  for (std::size_t t = 0; t < 3; ++t) loaded.push_back(caches.memory(t));
  for (std::size_t t = 0; t < 3; ++t)
    std::fill(caches.memory(t).begin(), caches.memory(t).end(), kPoison);
  REQUIRE(worker.run(load).success);
  for (std::size_t t = 0; t < 3; ++t) CHECK(caches.memory(t) == loaded[t]);
}

TEST_CASE("a job without blocks ends well and copies nothing", "[device][worker]") {
  TestCaches caches = one_tensor();
  TestRows rows(4, 1024);
  TestWorker worker(caches, kPlace, rows);
  worker.start();
  const CopyResult result = worker.run(store_job(1, blocks({}), {}));
  CHECK(result.success);
  CHECK(result.bytes == 0);
}

TEST_CASE("replicated: the first rank stores, the others acknowledge without copying, all load",
          "[device][worker]") {
  TestRows rows(4, 1024);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    TestCaches caches = one_tensor();
    caches.fill(9 + rank);
    const auto before = rows.bytes;
    TestWorker worker(caches, {rank, 3, 4, ChunkLayout::replicated}, rows);
    worker.start();
    const CopyResult stored = worker.run(store_job(1, blocks({0, 1, 2, 3}), {1}));
    CHECK(stored.success);
    CHECK(stored.bytes == (rank == 0 ? 1024 : 0));
    CHECK((rows.bytes == before) == (rank != 0));
    CHECK(worker.run(load_job(2, blocks({8, 9, 10, 11}), {1})).success);
    CHECK(std::equal(caches.memory(0).begin() + 8 * 256, caches.memory(0).begin() + 12 * 256,
                     rows.bytes.begin() + 4096));
  }
}

TEST_CASE("a load waits for the pending writes of the compute stream, and a store for its results",
          "[device][worker]") {
  TestCaches caches = one_tensor();
  TestRows rows(4, 1024);
  std::fill(rows.bytes.begin(), rows.bytes.end(), std::byte{2});
  TestWorker worker(caches, kPlace, rows);
  worker.start();
  const auto compute = compute_stream();
  Gate gate;
  HostEvent event;
  // The kernel still writes blocks 0 to 3 that the load will fill, and block 8 that the store will
  // take.
  CHECK(compute->launch([&] {
    gate.pass();
    std::fill_n(caches.memory(0).begin(), 4 * 256, std::byte{1});
    std::fill_n(caches.memory(0).begin() + 8 * 256, 256, std::byte{3});
    return std::string();
  }));
  CHECK(compute->record(event));
  CHECK(worker.worker->submit(load_job(1, blocks({0, 1, 2, 3}), {0}, event.handle())));
  CHECK(worker.worker->submit(store_job(2, blocks({8}), {3}, event.handle())));
  gate.wait_for_arrivals(1);
  CHECK(worker.ends.count() == 0);
  CHECK(worker.worker->stats().running_jobs == 2);
  CHECK(rows.in_use[0] == 1);
  gate.open();
  CHECK(worker.ends.wait_for(1).success);
  CHECK(worker.ends.wait_for(2).success);
  CHECK(caches.memory(0)[0] == std::byte{2});
  CHECK(caches.memory(0)[4 * 256 - 1] == std::byte{2});
  CHECK(rows.bytes[3 * 4096] == std::byte{3});
}

TEST_CASE(
    "within a direction jobs begin in the order of submission, and loads do not wait for stores",
    "[device][worker]") {
  TestCaches caches = one_tensor();
  TestRows rows(4, 1024);
  TestWorker worker(caches, kPlace, rows);
  worker.start();
  const auto compute = compute_stream();
  Gate gate;
  HostEvent event;
  CHECK(compute->launch([&] { return gate.pass(), std::string(); }));
  CHECK(compute->record(event));
  CHECK(worker.worker->submit(store_job(1, blocks({0}), {0}, event.handle())));
  CHECK(worker.worker->submit(store_job(2, blocks({1}), {1})));
  CHECK(worker.worker->submit(store_job(3, blocks({2}), {2})));
  CHECK(worker.run(load_job(4, blocks({8}), {3})).success);  // while the stores are held back
  CHECK(worker.ends.order() == std::vector<std::uint64_t>{4});
  gate.open();
  CHECK(worker.ends.wait_for(3).success);
  CHECK(worker.ends.order() == std::vector<std::uint64_t>{4, 1, 2, 3});
}

TEST_CASE("behind a failed event a job fails without copying, and the next one goes on",
          "[device][worker]") {
  TestCaches caches = one_tensor();
  caches.fill(1);
  TestRows rows(4, 1024);
  const auto before = rows.bytes;
  TestWorker worker(caches, kPlace, rows);
  worker.start();
  const auto compute = compute_stream();
  HostEvent event;
  CHECK(compute->launch([] { return std::string("kernel went wrong"); }));
  CHECK(compute->record(event));
  const CopyResult failed = worker.run(store_job(1, blocks({0, 1, 2, 3}), {0}, event.handle()));
  CHECK_FALSE(failed.success);
  CHECK(failed.bytes == 0);
  CHECK(says(failed.error, {"event", "kernel went wrong"}));
  CHECK(rows.bytes == before);
  CHECK(rows.unused());
  CHECK(worker.run(store_job(2, blocks({0, 1, 2, 3}), {0})).success);
  CHECK(worker.worker->stats().stores.failed == 1);
  CHECK(worker.worker->stats().stores.jobs == 2);
}

TEST_CASE("an event that does not exist is refused and nothing begins", "[device][worker]") {
  TestCaches caches = one_tensor();
  TestRows rows(4, 1024);
  TestWorker worker(caches, kPlace, rows);
  worker.start();
  CHECK(says(worker.refusal(store_job(1, blocks({0}), {0}, 987654321)),
             {"after: 987654321", "no event"}));
  CHECK(rows.unused());
  CHECK(worker.worker->stats().running_jobs == 0);
  CHECK(worker.run(store_job(1, blocks({0}), {0})).success);
  CHECK(worker.ends.count() == 1);
}

TEST_CASE("a job that makes no sense is refused whole: nothing is copied and no end comes",
          "[device][worker]") {
  TestCaches caches = one_tensor();
  caches.fill(1);
  TestRows rows(4, 1024);
  const auto before = rows.bytes;
  TestWorker worker(caches, kPlace, rows);
  worker.start();
  CHECK(says(worker.refusal(store_job(1, blocks({0, 1, 16}), {0})), {"block id 16", "kv0"}));
  CHECK(says(worker.refusal(store_job(1, blocks({0, 1, 2, 3, 4}), {0, 4})),
             {"chunk id 4", "0 to 3"}));
  CHECK(says(worker.refusal(store_job(1, {{0}, {1, 0}, {0}}, {0})), {"group_sizes"}));
  CHECK(worker.worker->stop(kPatience));
  CHECK(rows.bytes == before);
  CHECK(rows.unused());
  CHECK(worker.ends.count() == 0);
}

TEST_CASE("jobs are bounded, and ids are one job's at a time", "[device][worker]") {
  TestCaches caches = one_tensor();
  TestRows rows(4, 1024);
  TestWorker worker(caches, kPlace, rows);
  worker.options.jobs_max = 2;
  worker.start();
  const auto compute = compute_stream();
  Gate gate;
  HostEvent event;
  CHECK(compute->launch([&] { return gate.pass(), std::string(); }));
  CHECK(compute->record(event));
  CHECK(worker.worker->submit(store_job(1, blocks({0}), {0}, event.handle())));
  CHECK(says(worker.refusal(load_job(1, blocks({8}), {1})),
             {"copy job 1", "running job has this id"}));
  CHECK(worker.worker->submit(store_job(2, blocks({1}), {1})));
  const auto third = worker.worker->submit(load_job(3, blocks({8}), {2}));
  REQUIRE_FALSE(third);
  CHECK(third.error().code == OffloadErrc::busy);
  CHECK(says(to_string(third.error()), {"copy job 3", "jobs_max"}));
  gate.open();
  CHECK(worker.ends.wait_for(2).success);
  CHECK(worker.run(load_job(3, blocks({8}), {2})).success);
}

TEST_CASE("a buffer freed while registered is refused by name, at every submit",
          "[device][worker]") {
  TestCaches caches;
  caches.tensor(256, 16).tensor(128, 16).ref(0, 0).ref(1, 1);
  TestRows rows(4, 1536);
  const auto before = rows.bytes;
  TestWorker worker(caches, kPlace, rows);
  auto token = std::make_shared<int>();
  worker.options.caches.tensors[1].alive = std::weak_ptr<const void>(token);
  worker.start();
  CHECK(worker.run(store_job(1, {{0, 0}, {1, 1}, {0, 0}}, {0, 1})).success);
  rows.bytes = before;
  token.reset();
  CHECK(says(worker.refusal(store_job(2, {{0, 0}, {1, 1}, {0, 0}}, {0, 1})),
             {"tensor \"kv1\"", "freed", "remedy:"}));
  CHECK(says(worker.refusal(load_job(2, {{0}, {0, 1}, {0, 0}}, {1})), {"tensor \"kv1\""}));
  CHECK(worker.run(store_job(3, {{0}, {1, 0}, {0, 0}}, {0}))
            .success);  // the other group has its buffer
  CHECK(worker.ends.count() == 2);
}

TEST_CASE("a buffer that is not mapped any more is refused by name", "[device][worker]") {
  constexpr std::size_t kBytes = 16 * 4096;
  auto* memory = static_cast<std::byte*>(
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(memory != MAP_FAILED);
  TestCaches caches;
  caches.caches.tensors.push_back({"gone", memory, 4096, 16, {}});
  caches.ref(0, 0);
  TestRows rows(4, 4 * 4096);
  TestWorker worker(caches, kPlace, rows);
  worker.start();
  CHECK(worker.run(store_job(1, blocks({0}), {0})).success);
  REQUIRE(::munmap(memory, kBytes) == 0);
  CHECK(
      says(worker.refusal(store_job(2, blocks({0}), {0})), {"tensor \"gone\"", "not all mapped"}));
}

TEST_CASE("a job that was accepted keeps its buffers' tokens until its end", "[device][worker]") {
  TestCaches caches = one_tensor();
  TestRows rows(4, 1024);
  TestWorker worker(caches, kPlace, rows);
  std::atomic<bool> freed{false};
  std::shared_ptr<int> token(new int, [&freed](const int* p) { delete p, freed = true; });
  worker.options.caches.tensors[0].alive = std::weak_ptr<const void>(token);
  worker.start();
  const auto compute = compute_stream();
  Gate gate;
  HostEvent event;
  CHECK(compute->launch([&] { return gate.pass(), std::string(); }));
  CHECK(compute->record(event));
  CHECK(worker.worker->submit(store_job(1, blocks({0}), {0}, event.handle())));
  token.reset();
  CHECK_FALSE(freed);
  gate.open();
  CHECK(worker.ends.wait_for(1).success);
  CHECK(freed);  // before the end was told
}

TEST_CASE("a failed copy fails its job and no other", "[device][worker]") {
  std::atomic<int> batch{0};
  auto backend =
      make_host_backend({1, [&](std::span<const CopyFragment>) {
                           return ++batch == 2 ? HostTrouble{"bus error", false} : HostTrouble{};
                         }});
  REQUIRE(backend);
  TestCaches caches = one_tensor();
  TestRows rows(4, 1024);
  TestWorker worker(caches, kPlace, rows, *backend);
  worker.start();
  CHECK(worker.run(store_job(1, blocks({0}), {0})).success);
  const CopyResult failed = worker.run(store_job(2, blocks({0}), {0}));
  CHECK_FALSE(failed.success);
  CHECK(failed.error == "bus error");
  CHECK(failed.bytes == 0);
  CHECK(worker.run(store_job(3, blocks({0}), {0})).success);
  CHECK(worker.worker->stats().stores.failed == 1);
  CHECK(worker.worker->stats().stores.bytes == 512);
  CHECK(rows.unused());
}

TEST_CASE("a batch that the device refuses fails its job behind what had begun",
          "[device][worker]") {
  auto backend = std::make_shared<FailingBackend>();
  TestCaches caches = one_tensor();
  TestRows rows(4, 1024);
  TestWorker worker(caches, kPlace, rows, backend);
  worker.start();
  backend->copy_fails = true;
  const CopyResult failed = worker.run(store_job(1, blocks({0}), {0}));
  CHECK_FALSE(failed.success);
  CHECK(failed.error == "copy failed");
  CHECK(rows.unused());
  backend->copy_fails = false;
  backend->wait_fails = true;
  HostEvent event;
  CHECK(worker.refusal(store_job(2, blocks({0}), {0}, event.handle())) == "wait failed");
  CHECK(rows.unused());
  CHECK(worker.worker->stats().running_jobs == 0);
}

TEST_CASE("rows in another process' count are nobody's business here", "[device][worker]") {
  TestCaches caches = one_tensor();
  TestRows rows(4, 1024);
  TestWorker worker(caches, kPlace, rows);
  worker.options.rows.in_use = nullptr;
  worker.start();
  CHECK(worker.run(store_job(1, blocks({0}), {0})).success);
  CHECK(rows.unused());
}
