// An engine whose rows workers fill and read, each over its own end of the socket. They live in this process; those that
// live and die in others are in tests/workers/ and in `kv-offload-bench workers`.
#include "kv_offload/tests/support/engine_fixture.hpp"
#include "kv_offload/tiers/device/device_worker.hpp"
#include "kv_offload/tiers/device/page_mappings.hpp"
#include "kv_offload/tiers/workers/worker_process.hpp"

#include <atomic>
#include <functional>
#include <future>
#include <unistd.h>

namespace kv_offload::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kBlocks = 24;  // of each device; blocks 0 to 7 begin with bytes, the rest is poison
constexpr std::uint32_t kFilled = 8;
constexpr std::byte kPoison{0xa5};

std::string new_socket() {
  static std::atomic<int> n{0};
  return "@kv_offload-test-" + std::to_string(::getpid()) + "-" + std::to_string(n++);
}

/// One rank's device of one layer: blocks of `page_bytes`.
struct Device {
  explicit Device(std::uint64_t page) : page_bytes(page), memory(page * kBlocks, kPoison) {}
  [[nodiscard]] std::span<std::byte> block(std::uint32_t b) { return std::span(memory).subspan(b * page_bytes, page_bytes); }
  [[nodiscard]] KvCaches caches(std::optional<PageMapping> mapping = {}) {
    KvCaches made;
    made.tensors.resize(1);
    made.tensors[0].name = "t0";
    made.tensors[0].data = memory.data();
    made.tensors[0].page_bytes = page_bytes;
    made.tensors[0].num_blocks = kBlocks;
    made.groups.resize(1);
    made.groups[0].resize(1);
    made.groups[0][0].page_bytes = page_bytes;
    made.groups[0][0].mapping = std::move(mapping);
    made.groups[0][0].layer = "layer0";
    return made;
  }
  std::uint64_t page_bytes;
  std::vector<std::byte> memory;
};

BlockList blocks(std::uint32_t first, std::uint32_t n) {
  BlockList list;
  for (std::uint32_t i = 0; i < n; ++i) list.block_ids.push_back(first + i);
  list.group_sizes = {n};
  list.first_blocks = {0};
  return list;
}

std::unique_ptr<WorkerProcess> start_worker(WorkerProcess::Options options) {
  options.log = [](const std::string&, const std::string&) {};
  auto worker = WorkerProcess::start(std::move(options));
  INFO((worker ? std::string() : to_string(worker.error())));
  REQUIRE(worker);
  return std::move(worker).value();
}

EngineConfig config_of(std::uint32_t world, const std::string& socket) {
  EngineConfig config = small_config();
  config.workers = WorkersConfig{world, socket, {}, 30s};
  return config;
}

/// A request and its lease for storing `n` chunks that nobody has.
struct Reserved {
  Reserved(OffloadEngine& engine, std::size_t n) : request(*engine.new_request({.req_id = "r"}).get()) {
    auto granted = engine.prepare_store(request, keys('a', n)).get();
    REQUIRE(granted);
    plan = *granted;
  }
  /// The copy of blocks 0 … to its rows, as the embedder would tell a worker.
  [[nodiscard]] CopyJob job(std::uint64_t id, std::uint32_t first_block = 0) const {
    CopyJob made;
    made.id = id;
    made.blocks = blocks(first_block, static_cast<std::uint32_t>(plan.chunk_ids.size()));
    made.chunk_ids = plan.chunk_ids;
    return made;
  }
  RequestHandle request;
  StorePlan plan;
};

/// Ranks of one engine, each with a slot of its own in every row.
struct Sharded {
  explicit Sharded(std::uint32_t world, EngineConfig config = small_config()) {
    const std::string socket = new_socket();
    config.workers = WorkersConfig{world, socket, {}, 30s};
    for (std::uint32_t r = 0; r < world; ++r) {
      auto& device = *devices.emplace_back(std::make_unique<Device>(config.chunk_bytes / world));
      for (std::uint32_t b = 0; b < kFilled; ++b)
        std::ranges::fill(device.block(b), static_cast<std::byte>(1 + 16 * r + b));
      WorkerProcess::Options options;
      options.socket = socket;
      options.place = {r, world, 1, ChunkLayout::sharded};
      options.caches = device.caches();
      workers.push_back(start_worker(std::move(options)));
    }
    engine = start(std::move(config));
    for (auto& worker : workers) REQUIRE(worker->wait_ready(30s));
  }
  ~Sharded() {
    engine.reset();
    for (auto& worker : workers) CHECK(worker->stop(10s));
  }
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<WorkerProcess>> workers;
  std::unique_ptr<OffloadEngine> engine;
};

TEST_CASE("workers fill rows, tiers keep them, and other blocks of the devices get them back", "[engine][workers]") {
  TempDir dir;
  EngineConfig config = small_config();
  config.secondary_tiers.push_back(fs_tier(dir.path));
  Sharded s(2, config);
  auto& engine = *s.engine;
  const auto request = *engine.new_request({.req_id = "r"}).get();
  const auto wanted = keys('a', 8);
  const auto plan = engine.prepare_store(request, wanted).get();
  REQUIRE(plan);
  const auto stored = engine.store_blocks(plan->lease, blocks(0, 8), {.wait_cascades = true}).get();
  INFO((stored ? std::string() : to_string(stored.error())));
  REQUIRE(stored);
  CHECK(stored->published == 8);
  CHECK(stored->chunks_stored == 8);
  REQUIRE(engine.reset().get());  // only the files have them

  const auto found = engine.lookup(request, wanted).get();
  REQUIRE(found);
  CHECK(found->leading_hits == 8);
  const auto load = engine.prepare_load(request, wanted).get();
  REQUIRE(load);
  REQUIRE(load->chunk_ids.size() == 8);
  REQUIRE(engine.load_blocks(load->lease, blocks(16, 8)).get());
  for (auto& device : s.devices) {
    for (std::uint32_t b = 0; b < 8; ++b) CHECK(std::ranges::equal(device->block(b), device->block(16 + b)));
    for (std::uint32_t b = 8; b < 16; ++b)  // nobody asked for these
      CHECK(std::ranges::all_of(device->block(b), [](std::byte x) { return x == kPoison; }));
  }
  REQUIRE(engine.request_finished(request).get());
  const auto stats = engine.stats().get();
  REQUIRE(stats);
  CHECK(stats->scheduler.store_copies.succeeded == 1);
  CHECK(stats->scheduler.load_copies.bytes == 8 * config.chunk_bytes);
  REQUIRE(stats->scheduler.workers.ranks.size() == 2);
  CHECK(stats->scheduler.workers.ranks[1].joined);
  CHECK(stats->scheduler.workers.ranks[1].stored_bytes == 8 * config.chunk_bytes / 2);
  require_promises(engine);
}

TEST_CASE("a copy that no device can make is told with the reason, and frees its slots", "[engine][workers]") {
  Sharded s(2);
  auto& engine = *s.engine;
  const Reserved r(engine, 2);
  const auto answer = engine.store_blocks(r.plan.lease, blocks(kBlocks - 1, 2)).get();  // one block too far
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == OffloadErrc::io_error);
  CHECK(answer.error().detail.find("rank") != std::string::npos);
  // Reserved again at once or a moment later, when both have said that they touch nothing.
  REQUIRE(engine.drain().get());
  CHECK(engine.prepare_store(r.request, keys('b', 64)).get());
}

TEST_CASE("callers that tell workers themselves are told when all have copied", "[engine][workers]") {
  Sharded s(2);
  auto& engine = *s.engine;
  const Reserved r(engine, 2);
  CopyJob job = r.job(77);
  REQUIRE(s.workers[0]->submit(job));  // may report before the engine waits for it
  auto pending = engine.store_blocks(r.plan.lease, blocks(0, 2), {.told_job = 77});
  REQUIRE(s.workers[1]->submit(job));
  const auto stored = std::move(pending).get();
  INFO((stored ? std::string() : to_string(stored.error())));
  REQUIRE(stored);
  CHECK(stored->published == 2);
  const auto row = engine.chunk(r.plan.chunk_ids[1]);
  CHECK(std::ranges::equal(row.first(row.size() / 2), s.devices[0]->block(1)));
  CHECK(std::ranges::equal(row.last(row.size() / 2), s.devices[1]->block(1)));
}

TEST_CASE("a told job of other rows, or the other way, is no store of these", "[engine][workers]") {
  Sharded s(1);
  auto& engine = *s.engine;
  const Reserved r(engine, 1);
  CopyJob job = r.job(5);
  SECTION("a load") { job.is_load = true; }
  SECTION("other rows") { job.chunk_ids[0] += 1; }
  REQUIRE(s.workers[0]->submit(job));
  const auto answer = engine.store_blocks(r.plan.lease, blocks(0, 1), {.told_job = 5}).get();
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == OffloadErrc::io_error);
  CHECK(engine.lookup(r.request, keys('a', 1)).get()->leading_hits == 0);
}

TEST_CASE("a told job that a worker refuses or declines fails, and its rows are free at once", "[engine][workers]") {
  Sharded s(2);
  auto& engine = *s.engine;
  const Reserved r(engine, 1);
  CopyJob job = r.job(5);
  REQUIRE(s.workers[0]->submit(job));
  SECTION("refused") {
    job.blocks = blocks(kBlocks, 1);
    CHECK_FALSE(s.workers[1]->submit(job));
  }
  SECTION("declined") { REQUIRE(s.workers[1]->decline(5, "no step for it")); }
  const auto answer = engine.store_blocks(r.plan.lease, blocks(0, 1), {.told_job = 5}).get();
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == OffloadErrc::io_error);
  CHECK(answer.error().detail.find("rank 1") != std::string::npos);
  REQUIRE(engine.drain().get());
  CHECK(engine.prepare_store(r.request, keys('b', 64)).get());
}

TEST_CASE("job ids that the engine numbers its orders with are not the embedder's", "[engine][workers]") {
  Sharded s(1);
  CopyJob job;
  job.id = 1ULL << 63;
  job.blocks = blocks(0, 1);
  job.chunk_ids = {0};
  CHECK(s.workers[0]->submit(job).error().code == OffloadErrc::invalid_argument);
  CHECK(s.workers[0]->decline(job.id, "x").error().code == OffloadErrc::invalid_argument);
}

TEST_CASE("an engine that misses a worker says which, and leaves nothing", "[engine][workers]") {
  TempDir dir;
  const auto before = open_descriptors();
  {
    const std::string socket = new_socket();
    EngineConfig config = config_of(2, socket);
    config.workers->join = 200ms;
    config.secondary_tiers.push_back(fs_tier(dir.path));
    Device device(config.chunk_bytes / 2);
    WorkerProcess::Options options;
    options.socket = socket;
    options.place = {0, 2, 1, ChunkLayout::sharded};
    options.caches = device.caches();
    const auto worker = start_worker(std::move(options));
    const auto engine = OffloadEngine::start(config);
    REQUIRE_FALSE(engine);
    CHECK(to_string(engine.error()).find("rank 1") != std::string::npos);
    CHECK(worker->stop(10s));
  }
  CHECK(std::filesystem::is_empty(dir.path));  // no tier was started
  CHECK(open_descriptors() == before);
}

TEST_CASE("rows of a file are joined by name, and their leases completed by the embedder", "[engine][workers]") {
  const auto before = open_descriptors();
  {
    TempDir dir;
    EngineConfig config = small_config();
    const std::string file = dir.path + "/region";
    config.workers = WorkersConfig{1, {}, file, 30s};
    Device device(config.chunk_bytes);
    std::ranges::fill(device.block(3), std::byte{7});
    const auto engine = start(config);
    std::promise<CopyResult> done;
    WorkerProcess::Options options;
    options.region_file = file;
    options.place = {0, 1, 1, ChunkLayout::sharded};
    options.caches = device.caches();
    options.done = [&](CopyResult result) { done.set_value(std::move(result)); };
    const auto worker = start_worker(std::move(options));
    REQUIRE(worker->wait_ready(30s));
    CHECK_FALSE(std::filesystem::exists(file));  // all have mapped it
    const auto request = *engine->new_request({.req_id = "r"}).get();
    const auto plan = engine->prepare_store(request, keys('a', 1)).get();
    REQUIRE(plan);
    CHECK(engine->store_blocks(plan->lease, blocks(3, 1)).get().error().code == OffloadErrc::unsupported);
    CopyJob job;
    job.id = 1;
    job.blocks = blocks(3, 1);
    job.chunk_ids = plan->chunk_ids;
    REQUIRE(worker->submit(job));
    CHECK(done.get_future().get().success);
    CHECK(std::ranges::equal(engine->chunk(plan->chunk_ids[0]), device.block(3)));
    REQUIRE(engine->complete_store(plan->lease).get());
    CHECK(worker->stop(10s));
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("a device of the engine's own process copies to its rows directly", "[engine][workers]") {
  const auto engine = start(small_config());
  Device device(engine->chunk_bytes());
  std::ranges::fill(device.block(0), std::byte{9});
  std::promise<CopyResult> done;
  DeviceWorker::Options options;
  options.caches = device.caches();
  options.rows = engine->rows();
  options.done = [&](CopyResult result) { done.set_value(std::move(result)); };
  auto worker = DeviceWorker::start(std::move(options));
  REQUIRE(worker);
  const Reserved r(*engine, 1);
  CopyJob job = r.job(0);
  REQUIRE((*worker)->submit(job));
  CHECK(done.get_future().get().success);
  REQUIRE(engine->complete_store(r.plan.lease).get());
  CHECK(std::ranges::equal(engine->chunk(r.plan.chunk_ids[0]), device.block(0)));
  CHECK((*worker)->stop(10s));
}

// -- the canonical layout -----------------------------------------------------------------------------------

constexpr std::uint32_t kTokens = 16, kHeads = 4;
constexpr std::uint64_t kHeadBytes = 64;  // K and V of one head and token, packed
constexpr std::uint64_t kPageBytes = kTokens * kHeads * kHeadBytes;

EngineConfig canonical_config(std::uint32_t world, const std::string& socket, const std::string& root) {
  EngineConfig config;
  config.chunk_bytes = kPageBytes;
  config.cpu_bytes_to_use = 64 * kPageBytes;
  config.log_level = "off";
  config.identity.canonical_format = "v1-nhd";
  config.identity.parallelism_agnostic = true;
  config.identity.tp_size = world;
  config.secondary_tiers.push_back(fs_tier(root));
  config.workers = WorkersConfig{world, socket, {}, 30s};
  return config;
}

/// Byte of head h, token t, place i in block b of the whole model: what each rank's part is cut from.
std::byte model_byte(std::uint32_t b, std::uint32_t t, std::uint32_t h, std::uint64_t i) {
  return static_cast<std::byte>((b * 131 + t * 31 + h * 7 + i) % 251 + 1);
}

/// What rank r of `world` holds of block b.
std::vector<std::byte> part_of(std::uint32_t b, std::uint32_t r, std::uint32_t world) {
  std::vector<std::byte> bytes;
  const std::uint32_t heads = kHeads / world;
  for (std::uint32_t t = 0; t < kTokens; ++t)
    for (std::uint32_t h = r * heads; h < (r + 1) * heads; ++h)
      for (std::uint64_t i = 0; i < kHeadBytes; ++i) bytes.push_back(model_byte(b, t, h, i));
  return bytes;
}

PageMapping mapping_of(std::uint32_t r, std::uint32_t world) {
  AttentionPage page;
  page.tokens = kTokens;
  page.kv_heads = kHeads;
  page.head_bytes = kHeadBytes;
  auto mapping = map_sharded_heads(page, r, world);
  REQUIRE(mapping);
  return *mapping;
}

/// Ranks of an engine on the canonical layout; `change` may spoil a mapping.
struct Canonical {
  Canonical(std::uint32_t world, const std::string& root,
            const std::function<void(std::uint32_t, std::optional<PageMapping>&)>& change = {}) {
    const std::string socket = new_socket();
    for (std::uint32_t r = 0; r < world; ++r) {
      auto& device = *devices.emplace_back(std::make_unique<Device>(kPageBytes / world));
      std::optional<PageMapping> mapping = mapping_of(r, world);
      if (change) change(r, mapping);
      WorkerProcess::Options options;
      options.socket = socket;
      options.place = {r, world, 1, ChunkLayout::canonical};
      options.caches = device.caches(std::move(mapping));
      options.log = [](const std::string&, const std::string&) {};
      auto worker = WorkerProcess::start(std::move(options));
      if (worker) workers.push_back(std::move(*worker));
      else worker_errors.push_back(to_string(worker.error()));
    }
    auto config = canonical_config(world, socket, root);
    if (change) config.workers->join = 2s;
    auto started = OffloadEngine::start(config);
    if (started) engine = std::move(*started);
    else error = to_string(started.error());
  }
  ~Canonical() {
    engine.reset();
    for (auto& worker : workers) CHECK(worker->stop(10s));
  }
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<WorkerProcess>> workers;
  std::vector<std::string> worker_errors;
  std::unique_ptr<OffloadEngine> engine;
  std::string error;
};

TEST_CASE("what two ranks stored in files, four ranks and one rank read", "[engine][workers][canonical]") {
  TempDir dir;
  const auto wanted = keys('a', 5);
  {
    Canonical two(2, dir.path);
    INFO(two.error);
    REQUIRE(two.engine);
    CHECK(two.engine->all_layers_portable() == true);
    for (std::uint32_t r = 0; r < 2; ++r)
      for (std::uint32_t b = 0; b < 5; ++b) std::ranges::copy(part_of(b, r, 2), two.devices[r]->block(b).begin());
    const auto request = *two.engine->new_request({.req_id = "w"}).get();
    const auto plan = two.engine->prepare_store(request, wanted).get();
    REQUIRE(plan);
    const auto stored = two.engine->store_blocks(plan->lease, blocks(0, 5), {.wait_cascades = true}).get();
    REQUIRE(stored);
    CHECK(stored->chunks_stored == 5);
  }
  for (const std::uint32_t world : {4U, 1U}) {
    Canonical ranks(world, dir.path);
    INFO(ranks.error);
    REQUIRE(ranks.engine);
    const auto request = *ranks.engine->new_request({.req_id = "r"}).get();
    CHECK(ranks.engine->lookup(request, wanted).get()->leading_hits == 5);
    const auto load = ranks.engine->prepare_load(request, wanted).get();
    REQUIRE(load);
    REQUIRE(load->chunk_ids.size() == 5);
    REQUIRE(ranks.engine->load_blocks(load->lease, blocks(9, 5)).get());
    for (std::uint32_t r = 0; r < world; ++r)
      for (std::uint32_t b = 0; b < 5; ++b)
        CHECK(std::ranges::equal(ranks.devices[r]->block(9 + b), part_of(b, r, world)));
  }
}

TEST_CASE("layouts that do not bear the namespace's claim start nothing and write nothing",
          "[engine][workers][canonical]") {
  TempDir dir;
  const auto before = open_descriptors();
  SECTION("a layer without a mapping") {
    Canonical ranks(2, dir.path, [](std::uint32_t r, auto& mapping) {
      if (r == 1) mapping.reset();
    });
    CHECK_FALSE(ranks.engine);
    CHECK(ranks.error.find("1") != std::string::npos);
    // The worker that cannot map says so itself, or by way of the engine.
    const std::string said = ranks.worker_errors.empty() ? ranks.error : ranks.worker_errors.front();
    CHECK(said.find("layer0") != std::string::npos);
    CHECK(said.find("t0") != std::string::npos);
  }
  SECTION("an opaque layer under a collapsed namespace") {
    Canonical ranks(2, dir.path, [](std::uint32_t r, auto& mapping) {
      mapping = *map_opaque_page(kPageBytes / 2, r, 2);
    });
    CHECK_FALSE(ranks.engine);
    CHECK(ranks.error.find("layer0") != std::string::npos);
  }
  SECTION("two ranks that write the same heads") {
    Canonical ranks(2, dir.path, [](std::uint32_t, auto& mapping) { mapping = mapping_of(0, 2); });
    CHECK_FALSE(ranks.engine);
    CHECK(ranks.error.find("layer0") != std::string::npos);
  }
  CHECK(std::filesystem::is_empty(dir.path));
  CHECK(open_descriptors() == before);
}

}  // namespace
}  // namespace kv_offload::test
