#include "kv_offload/tiers/device/cuda_backend.hpp"

#include "kv_offload/tests/support/device_fixture.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

#ifndef KV_OFFLOAD_CUDA

TEST_CASE("a build without the CUDA back end says so, and what to configure", "[device][cuda]") {
  const auto backend = make_cuda_backend(0);
  REQUIRE_FALSE(backend);
  CHECK(backend.error().code == OffloadErrc::unsupported);
  CHECK(says(to_string(backend.error()), {"cuda: this build", "KV_OFFLOAD_CUDA=ON"}));
}

#else

#include "kv_offload/tiers/device/page_mappings.hpp"
#include "kv_offload/tiers/primary/region.hpp"

#include <cuda_runtime_api.h>

#include <thread>

namespace {

bool gpu_answers() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}
std::shared_ptr<DeviceBackend> gpu() {
  auto backend = make_cuda_backend(0);
  if (!backend) FAIL(to_string(backend.error()));
  return *backend;
}

/// Device memory that a test fills and reads.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) : bytes_(bytes) {
    REQUIRE(cudaMalloc(&data_, bytes) == cudaSuccess);
    REQUIRE(cudaMemset(data_, static_cast<int>(kPoison), bytes) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  ~DeviceMemory() { free(); }
  void free() {
    if (data_ != nullptr) static_cast<void>(cudaFree(data_));
    data_ = nullptr;
  }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }
  void write(const std::vector<std::byte>& bytes) {
    REQUIRE(cudaMemcpy(data_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  [[nodiscard]] std::vector<std::byte> read() const {
    std::vector<std::byte> bytes(bytes_);
    REQUIRE(cudaMemcpy(bytes.data(), data_, bytes_, cudaMemcpyDeviceToHost) == cudaSuccess);
    return bytes;
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

#define NEEDS_GPU()                                                     \
  if (!gpu_answers()) {                                                 \
    WARN("skipped: no GPU answers here; .ci/device-check runs on one"); \
    return;                                                             \
  }

KvCaches caches_of(const DeviceMemory& memory, std::uint64_t page_bytes, std::uint64_t num_blocks,
                   std::optional<PageMapping> mapping = {}) {
  KvCaches caches;
  caches.tensors = {{"kv", memory.data(), page_bytes, num_blocks, {}}};
  caches.groups = {{{0, page_bytes, std::move(mapping), "layer.0"}}};
  return caches;
}

std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(i * 131 + i / 257);
  return all;
}

}  // namespace

TEST_CASE("where no GPU answers the CUDA back end says why in one line", "[device][cuda]") {
  if (gpu_answers()) {
    const auto wrong = make_cuda_backend(1000);
    REQUIRE_FALSE(wrong);
    CHECK(says(to_string(wrong.error()), {"cuda device: 1000 is not allowed", "expected 0 to"}));
    CHECK(says(gpu()->name(), {"cuda:0 ("}));
    return;
  }
  const auto backend = make_cuda_backend(0);
  REQUIRE_FALSE(backend);
  CHECK(backend.error().code == OffloadErrc::unsupported);
  CHECK(says(to_string(backend.error()),
             {"cuda: no GPU answers", "CUDA of the driver:", "NVIDIA driver"}));
}

TEST_CASE("pages go to rows and back byte for byte through a GPU", "[device][cuda][gpu]") {
  NEEDS_GPU();
  constexpr std::uint64_t kPage = 64 * 1024, kBlocks = 64;
  for (const bool canonical : {false, true}) {
    CAPTURE(canonical);
    DeviceMemory memory(kPage * kBlocks);
    const auto original = pattern(kPage * kBlocks);
    memory.write(original);
    std::optional<PageMapping> mapping;
    if (canonical) mapping = *map_sharded_heads({16, 8, 1024, PageOrder::nhd, true}, 1, 4);
    const std::uint64_t page = canonical ? 16 * 2 * 1024 * 2 : kPage;
    KvCaches caches = caches_of(memory, kPage, kBlocks);
    caches.groups[0][0].page_bytes = page;
    caches.groups[0][0].mapping = mapping;
    const WorkerPlace place{1, 4, 4, canonical ? ChunkLayout::canonical : ChunkLayout::replicated};
    RegionOptions region_options;
    region_options.num_chunks = 16;
    region_options.chunk_bytes = chunk_bytes_of(caches, place);
    auto region = Region::create(region_options);
    REQUIRE(region);
    TestCaches none;
    TestRows unused(1, 1);
    TestWorker worker(none, place, unused, gpu());
    worker.options.caches = caches;
    worker.options.rows = (*region)->view();
    if (!canonical) worker.options.place.rank = 0;
    worker.start();
    BlockList list{{}, {kBlocks - 2}, {1}};
    CopyJob job = store_job(1, list, {});
    for (std::uint32_t b = 0; b < kBlocks - 2; ++b)
      job.blocks.block_ids.push_back((b * 7 + 3) % kBlocks);
    for (ChunkId c = 0; c < 16; ++c) job.chunk_ids.push_back(15 - c);
    const CopyResult stored = worker.run(job);
    INFO(stored.error);
    CHECK(stored.success);
    CHECK(stored.time > Duration{});
    DeviceMemory again(kPage * kBlocks);
    worker.worker->stop(kPatience);
    worker.worker.reset();
    worker.options.caches.tensors[0].data = again.data();
    worker.start();
    job.is_load = true;
    job.id = 2;
    const CopyResult loaded = worker.run(job);
    INFO(loaded.error);
    CHECK(loaded.success);
    const auto back = again.read();
    std::vector<std::byte> expected(kPage * kBlocks, kPoison);
    for (const std::uint32_t b : job.blocks.block_ids)
      std::copy_n(original.begin() + static_cast<std::ptrdiff_t>(b * kPage), page,
                  expected.begin() + static_cast<std::ptrdiff_t>(b * kPage));
    CHECK(back == expected);
    CHECK(worker.worker->stop(kPatience));
  }
}

TEST_CASE("copies of a GPU wait for the pending work of the compute stream",
          "[device][cuda][gpu]") {
  NEEDS_GPU();
  constexpr std::uint64_t kPage = 1 << 20, kBlocks = 8;
  DeviceMemory memory(kPage * kBlocks);
  TestCaches none;
  TestRows rows(8, kPage), unused(1, 1);
  TestWorker worker(none, {}, rows, gpu());
  worker.options.caches = caches_of(memory, kPage, kBlocks);
  worker.start();
  cudaStream_t compute = nullptr;
  cudaEvent_t event = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  Gate gate;
  REQUIRE(cudaLaunchHostFunc(
              compute, [](void* g) { static_cast<Gate*>(g)->pass(); }, &gate) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(memory.data(), 0x11, kPage * kBlocks, compute) == cudaSuccess);
  REQUIRE(cudaEventRecord(event, compute) == cudaSuccess);
  CHECK(worker.worker->submit(
      store_job(1, {{3}, {1}, {0}}, {5}, reinterpret_cast<DeviceEventHandle>(event))));
  gate.wait_for_arrivals(1);
  CHECK(worker.ends.count() == 0);
  gate.open();
  CHECK(worker.ends.wait_for(1).success);
  CHECK(rows.bytes[5 * kPage] == std::byte{0x11});
  CHECK(worker.worker->stop(kPatience));
  static_cast<void>(cudaEventDestroy(event));
  static_cast<void>(cudaStreamDestroy(compute));
}

TEST_CASE("copies of a GPU see what the default stream had done before its event",
          "[device][cuda][gpu]") {
  NEEDS_GPU();
  constexpr std::uint64_t kPage = 1 << 20, kBlocks = 8;
  DeviceMemory memory(kPage * kBlocks);
  TestCaches none;
  TestRows rows(8, kPage);
  TestWorker worker(none, {}, rows, gpu());
  worker.options.caches = caches_of(memory, kPage, kBlocks);
  worker.start();
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(memory.data(), 0x22, kPage * kBlocks, nullptr) == cudaSuccess);
  REQUIRE(cudaEventRecord(event, nullptr) == cudaSuccess);
  CHECK(worker.worker->submit(
      store_job(1, {{7}, {1}, {0}}, {0}, reinterpret_cast<DeviceEventHandle>(event))));
  CHECK(worker.ends.wait_for(1).success);
  CHECK(rows.bytes[kPage - 1] == std::byte{0x22});
  CHECK(worker.worker->stop(kPatience));
  static_cast<void>(cudaEventDestroy(event));
}

TEST_CASE("memory that is not the GPU's is refused by name", "[device][cuda][gpu]") {
  NEEDS_GPU();
  const auto backend = gpu();
  DeviceMemory memory(1 << 20);
  std::vector<std::byte> host(1 << 20);
  CHECK(backend->check_buffer({"kv", memory.data(), 1 << 18, 4, {}}));
  CHECK(says(to_string(backend->check_buffer({"kv", host.data(), 1 << 18, 4, {}}).error()),
             {"tensor \"kv\""}));
  std::byte* const freed = memory.data();
  memory.free();
  CHECK(says(to_string(backend->check_buffer({"kv", freed, 1 << 18, 4, {}}).error()),
             {"tensor \"kv\"", "freed"}));
}

TEST_CASE("rows are registered with the GPU's driver and let go of", "[device][cuda][gpu]") {
  NEEDS_GPU();
  DeviceMemory memory(1 << 20);
  TestRows rows(16, 1 << 16);
  TestCaches none;
  for (int time = 0; time < 2; ++time) {  // a second time works only if the first was let go of
    TestWorker worker(none, {}, rows, gpu());
    worker.options.caches = caches_of(memory, 1 << 16, 16);
    worker.start();
    INFO(worker.log.text());
    CHECK(worker.worker->stats().registered_bytes == worker.worker->stats().region_bytes);
    unsigned int flags = 0;
    CHECK(cudaHostGetFlags(&flags, rows.bytes.data()) == cudaSuccess);
    CHECK(worker.worker->stop(kPatience));
    CHECK(cudaHostGetFlags(&flags, rows.bytes.data()) != cudaSuccess);
    static_cast<void>(cudaGetLastError());
  }
}

#endif
