// Copies by workers, rows and events through the C ABI.
#include "kv_offload/tests/c_api/c_api_fixture.hpp"

#include <atomic>
#include <future>
#include <unistd.h>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

constexpr std::uint32_t kWorkers = 2, kBlocks = 8;
constexpr std::size_t kPage = kChunkBytes / kWorkers;

std::string new_socket() {
  static std::atomic<int> n{0};
  return "@kv_offload-c-test-" + std::to_string(::getpid()) + "-" + std::to_string(n++);
}

/// A rank with a device of host memory; its blocks begin with its rank and their number.
struct CWorker {
  CWorker(const std::string& socket, std::uint32_t rank) : memory(kBlocks * kPage) {
    for (std::uint32_t b = 0; b < kBlocks; ++b)
      std::fill_n(memory.begin() + b * kPage, kPage, static_cast<unsigned char>(16 * rank + b + 1));
    const kvo_tensor tensor = {"kv", memory.data(), kPage, kBlocks};
    const kvo_layer layer = {"layer0", 0, 0, kPage, 0, 0, 0, nullptr, 0, 0};
    auto options = sized<kvo_worker_options>();
    options.socket = socket.c_str();
    options.rank = rank;
    options.world_size = kWorkers;
    options.tensors = &tensor;
    options.num_tensors = 1;
    options.layers = &layer;
    options.num_layers = 1;
    options.user = this;
    options.before_copy = [](void* user, std::uint64_t, int is_load) -> std::uint64_t {
      ++(is_load != 0 ? static_cast<CWorker*>(user)->loads : static_cast<CWorker*>(user)->stores);
      return 0;
    };
    options.copied = [](void* user, const kvo_copy_end* end) {
      auto* self = static_cast<CWorker*>(user);
      self->ended.set_value(end->code == KVO_OK ? end->bytes : 0);
    };
    options.log = [](void*, kvo_log_level, const char*) {};
    const int code = kvo_worker_start(&options, &worker);
    INFO(kvo_error_text());
    REQUIRE(code == KVO_OK);
  }
  ~CWorker() { CHECK(kvo_worker_destroy(worker) == KVO_OK); }
  unsigned char at(std::uint32_t block) const { return memory[block * kPage + 7]; }

  std::vector<unsigned char> memory;
  std::atomic<int> stores{0}, loads{0};
  std::promise<std::uint64_t> ended;
  kvo_worker* worker = nullptr;
};

/// An engine and its workers; they end after it.
struct CWorkers {
  CWorkers() : socket(new_socket()), first(socket, 0), second(socket, 1),
               engine(config_json({}, R"("enable_kv_events": true, "workers": {"world_size": 2, "socket": ")" + socket + "\"}")) {
    REQUIRE(kvo_worker_wait_ready(first.worker, 30000) == KVO_OK);
    REQUIRE(kvo_worker_wait_ready(second.worker, 30000) == KVO_OK);
  }
  std::string socket;
  CWorker first, second;
  CEngine engine;
};

struct Blocks {
  explicit Blocks(std::vector<std::uint32_t> block_ids) : ids(std::move(block_ids)), size(static_cast<std::uint32_t>(ids.size())) {
    blocks = sized<kvo_blocks>();
    blocks.block_ids = ids.data();
    blocks.num_blocks = ids.size();
    blocks.group_sizes = &size;
    blocks.first_blocks = &first;
    blocks.num_groups = 1;
  }
  std::vector<std::uint32_t> ids;
  std::uint32_t size, first = 0;
  kvo_blocks blocks;
};

kvo_store_plan reserve(const CEngine& engine, kvo_request r, const CKeys& keys, std::uint32_t* chunks) {
  auto plan = sized<kvo_store_plan>();
  std::vector<std::uint32_t> key_idx(keys.size());
  REQUIRE(kvo_prepare_store(engine, r, keys.data(), keys.size(), nullptr, &plan, key_idx.data(), chunks) == KVO_OK);
  return plan;
}

}  // namespace

TEST_CASE("workers of the C ABI store and load blocks, waiting or not", "[c_api][workers]") {
  CWorkers w;
  const auto r = w.engine.request("r");
  const CKeys keys('a', 3);
  std::uint32_t chunks[3];
  const auto plan = reserve(w.engine, r, keys, chunks);
  const Blocks from({0, 1, 2});
  auto outcome = sized<kvo_store_outcome>();
  const int code = kvo_store_blocks(w.engine, plan.lease, &from.blocks, nullptr, &outcome);
  INFO(kvo_error_text());
  REQUIRE(code == KVO_OK);
  CHECK(outcome.published == 3);
  const auto* row = static_cast<const unsigned char*>(kvo_chunk(w.engine, chunks[2]));
  CHECK(row[0] == 3);
  CHECK(row[kPage] == 19);
  CHECK(w.first.stores == 1);

  auto load = sized<kvo_load_plan>();
  REQUIRE(kvo_prepare_load(w.engine, r, keys.data(), 3, &load, chunks) == KVO_OK);
  const Blocks to({5, 6, 7});
  std::promise<int> answered;
  REQUIRE(kvo_load_blocks_async(
              w.engine, load.lease, &to.blocks, nullptr,
              [](void* user, int answer, const char*, const kvo_store_outcome* none) {
                static_cast<std::promise<int>*>(user)->set_value(none == nullptr ? answer : -1);
              },
              &answered) == KVO_OK);
  CHECK(answered.get_future().get() == KVO_OK);
  CHECK(w.first.at(6) == 2);
  CHECK(w.second.at(7) == 19);
  CHECK(w.second.loads == 1);
}

TEST_CASE("jobs of one's own end in the callback and count for the engine", "[c_api][workers]") {
  CWorkers w;
  const auto r = w.engine.request("r");
  const CKeys keys('a', 1);
  std::uint32_t chunk[1];
  const auto plan = reserve(w.engine, r, keys, chunk);
  const Blocks from({4});
  for (CWorker* worker : {&w.first, &w.second}) {
    REQUIRE(kvo_worker_submit(worker->worker, 9, 0, &from.blocks, chunk, 1, 0) == KVO_OK);
    CHECK(worker->ended.get_future().get() == kPage);
  }
  auto options = sized<kvo_copy_options>();
  options.flags = KVO_COPY_TOLD_JOB;
  options.told_job = 9;
  const int code = kvo_store_blocks(w.engine, plan.lease, &from.blocks, &options, nullptr);
  INFO(kvo_error_text());
  CHECK(code == KVO_OK);
}

TEST_CASE("rows and events say where the bytes are and what became of keys", "[c_api][workers]") {
  CWorkers w;
  auto rows = sized<kvo_rows>();
  REQUIRE(kvo_region(w.engine, &rows) == KVO_OK);
  CHECK(rows.chunk_bytes == kChunkBytes);
  CHECK(rows.num_rows == 64);
  CHECK(static_cast<unsigned char*>(rows.base) + 5 * rows.row_bytes == kvo_chunk(w.engine, 5));
  const auto r = w.engine.request("r");
  w.engine.store(r, CKeys('a', 2), 1);
  struct Seen {
    int events = 0;
    std::size_t keys = 0;
    std::string medium;
    bool has_slots = false;
    unsigned char first_byte = 0;
  } seen;
  const auto note = [](void* user, const kvo_event* event) {
    auto* s = static_cast<Seen*>(user);
    ++s->events;
    s->keys += event->num_keys;
    s->medium = event->medium == nullptr ? "" : event->medium;
    s->has_slots = event->chunk_ids != nullptr;
    s->first_byte = *static_cast<const unsigned char*>(event->keys[0].hash);
  };
  REQUIRE(kvo_take_events(w.engine, note, &seen) == KVO_OK);
  CHECK(seen.events == 1);
  CHECK(seen.keys == 2);
  CHECK(seen.medium == "CPU");
  CHECK(seen.has_slots);
  CHECK(seen.first_byte == 'a');
  REQUIRE(kvo_take_events(w.engine, note, &seen) == KVO_OK);
  CHECK(seen.events == 1);
  REQUIRE(kvo_shutdown(w.engine, 0) == KVO_OK);
  CHECK(kvo_region(w.engine, &rows) == KVO_SHUTTING_DOWN);
}

TEST_CASE("wrong arguments about workers are named, and nothing begins", "[c_api][workers]") {
  kvo_worker* worker = nullptr;
  CHECK(kvo_worker_start(nullptr, &worker) == KVO_INVALID_ARGUMENT);
  auto options = sized<kvo_worker_options>();
  CHECK(kvo_worker_start(&options, nullptr) == KVO_INVALID_ARGUMENT);
  options.layout = 7;
  CHECK(kvo_worker_start(&options, &worker) == KVO_INVALID_ARGUMENT);
  CHECK(std::string(kvo_error_text()).starts_with("options.layout: 7 is not allowed"));
  options.layout = KVO_SHARDED;
  options.num_tensors = 1;
  CHECK(kvo_worker_start(&options, &worker) == KVO_INVALID_ARGUMENT);
  CHECK(std::string(kvo_error_text()).starts_with("options.tensors: NULL is not allowed"));
  const kvo_tensor tensor = {"kv", &options, 64, 1};
  const kvo_layer layer = {"layer0", 0, 1, 64, 0, 0, 0, nullptr, 0, 0};
  options.tensors = &tensor;
  options.layers = &layer;
  options.num_layers = 1;
  options.socket = "@x";
  CHECK(kvo_worker_start(&options, &worker) == KVO_INVALID_CONFIG);  // a layer of no tensor, said at once
  CHECK(std::string(kvo_error_text()).find("layer0") != std::string::npos);
  options.device = "tpu";
  CHECK(kvo_worker_start(&options, &worker) == KVO_INVALID_ARGUMENT);
  CHECK(std::string(kvo_error_text()).find("tpu") != std::string::npos);
  CHECK(worker == nullptr);
  CHECK(kvo_worker_destroy(nullptr) == KVO_OK);
  CHECK(kvo_worker_stop(nullptr, 1) == KVO_INVALID_ARGUMENT);

  CEngine engine;
  const auto r = engine.request("r");
  const CKeys keys('a', 1);
  std::uint32_t chunk[1];
  const auto plan = reserve(engine, r, keys, chunk);
  CHECK(kvo_store_blocks(engine, plan.lease, nullptr, nullptr, nullptr) == KVO_INVALID_ARGUMENT);
  Blocks blocks({0});
  CHECK(kvo_store_blocks(engine, plan.lease, &blocks.blocks, nullptr, nullptr) == KVO_UNSUPPORTED);
  blocks.blocks.block_ids = nullptr;
  CHECK(kvo_store_blocks(engine, plan.lease, &blocks.blocks, nullptr, nullptr) == KVO_INVALID_ARGUMENT);
  CHECK(kvo_store_blocks_async(engine, plan.lease, &blocks.blocks, nullptr, nullptr, nullptr) == KVO_INVALID_ARGUMENT);
  auto copy = sized<kvo_copy_options>();
  copy.flags = 64;
  Blocks good({0});
  CHECK(kvo_store_blocks(engine, plan.lease, &good.blocks, &copy, nullptr) == KVO_UNSUPPORTED);
  CHECK(kvo_take_events(engine, nullptr, nullptr) == KVO_INVALID_ARGUMENT);
  CHECK(kvo_region(engine, nullptr) == KVO_INVALID_ARGUMENT);
  CHECK(kvo_complete_store(engine, plan.lease, KVO_STORE_FAILED, nullptr) == KVO_OK);
}
