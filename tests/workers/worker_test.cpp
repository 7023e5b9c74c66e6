#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tests/workers/left_behind.hpp"
#include "kv_offload/tests/workers/scene.hpp"
#include "kv_offload/tiers/device/device_worker.hpp"
#include "kv_offload/tiers/device/host_backend.hpp"
#include "kv_offload/tiers/workers/hub_listener.hpp"
#include "kv_offload/tiers/workers/wire_messages.hpp"
#include "kv_offload/tiers/workers/worker_process.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <cstring>
#include <filesystem>

namespace kv_offload::test {
namespace {

using namespace std::chrono_literals;

constexpr StageShape kTwo{
    .world_size = 2, .blocks_per_chunk = 2, .page_bytes = 1000, .num_blocks = 8, .num_tensors = 3};

WorkerProcess::Options options_for(Stage& stage, std::uint32_t rank, const std::string& where) {
  WorkerProcess::Options options;
  (where.front() == '@' ? options.socket : options.region_file) = where;
  const auto& s = stage.shape();
  options.place = {rank, s.world_size, s.blocks_per_chunk, ChunkLayout::sharded};
  options.caches.groups.emplace_back();
  for (std::uint32_t t = 0; t < s.num_tensors; ++t) {
    options.caches.tensors.push_back(
        {"t" + std::to_string(t), stage.tensor(rank, t), s.page_bytes, s.num_blocks, {}});
    KvRef ref;
    ref.tensor = t;
    ref.page_bytes = s.page_bytes;
    ref.layer = "layer" + std::to_string(t);
    options.caches.groups[0].push_back(std::move(ref));
  }
  return options;
}

std::unique_ptr<WorkerProcess> start(WorkerProcess::Options options) {
  auto started = WorkerProcess::start(std::move(options));
  INFO((started ? "" : started.error().detail));
  REQUIRE(started);
  return std::move(*started);
}

/// A back end whose copies stand still while `hang` is true, and fail while `fails` is.
struct Trouble {
  std::atomic<bool> hang{false};
  std::atomic<bool> fails{false};
  std::atomic<int> hanging{0};
  std::shared_ptr<DeviceBackend> backend() {
    HostOptions options;
    options.before_copy = [this](std::span<const CopyFragment>) -> HostTrouble {
      if (fails) return {"the device is gone", false};
      ++hanging;
      while (hang) std::this_thread::sleep_for(1ms);
      --hanging;
      return {};
    };
    auto made = make_host_backend(options);
    REQUIRE(made);
    return *made;
  }
};

TEST_CASE("bytes land in the slot of their rank and tensor, and in no other", "[workers]") {
  Scene scene(kTwo);
  REQUIRE(scene.start_hub() == "");
  std::unique_ptr<WorkerProcess> workers[2];
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    workers[rank] = start(options_for(scene.stage, rank, scene.socket));
  for (auto& worker : workers) REQUIRE(worker->wait_ready(40s));
  for (ChunkId c = 0; c < 8; ++c) std::memset(scene.region->view().payload(c).data(), 0xee, 12000);
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    for (std::uint32_t t = 0; t < 3; ++t)
      for (std::uint32_t block = 0; block < 8; ++block)
        std::memset(scene.stage.block(rank, t, block),
                    static_cast<int>(0x40 * (rank + 1) + 0x10 * t + block), 1000);
  auto order = Scene::order(1, false, 0, 0);
  order.blocks = {{5, 2, 7}, {3}, {1}};  // begins in the middle of its first chunk
  order.chunk_ids = {3, 6};
  REQUIRE(scene.hub->submit(order));
  const auto outcome = scene.log.outcome(1);
  REQUIRE(outcome);
  INFO(outcome->error);
  REQUIRE(outcome->success);
  CHECK(outcome->bytes == 2 * 3 * 3 * 1000);
  // Row: [rank][tensor][block of the chunk].
  const auto value = [&](ChunkId row, std::uint32_t rank, std::uint32_t t, std::uint32_t block,
                         std::size_t at) {
    return static_cast<int>(
        scene.region->view().row(row)[rank * 6000 + t * 2000 + block * 1000 + at]);
  };
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    for (std::uint32_t t = 0; t < 3; ++t)
      for (const std::size_t at : {0, 500, 999}) {
        const int base = static_cast<int>(0x40 * (rank + 1) + 0x10 * t);
        CHECK(value(3, rank, t, 0, at) == 0xee);  // before the first block
        CHECK(value(3, rank, t, 1, at) == base + 5);
        CHECK(value(6, rank, t, 0, at) == base + 2);
        CHECK(value(6, rank, t, 1, at) == base + 7);
      }
  for (ChunkId c : {0, 1, 2, 4, 5, 7})
    for (const auto byte : scene.region->view().payload(c)) REQUIRE(byte == std::byte{0xee});
  for (const auto byte : scene.region->view().row(3).subspan(12000))
    REQUIRE(byte == std::byte{0});  // padding
  order.id = 2;
  order.is_load = true;
  order.blocks.block_ids = {0, 1, 3};
  REQUIRE(scene.hub->submit(order));
  REQUIRE(scene.log.outcome(2)->success);
  CHECK(static_cast<int>(scene.stage.block(1, 2, 3)[999]) == 0x80 + 0x20 + 7);
  CHECK(static_cast<int>(scene.stage.block(0, 0, 0)[0]) == 0x40 + 5);
  CHECK(workers[0]->stats().stores.bytes == 9000);
  CHECK(workers[1]->stats().loads.jobs == 1);
  CHECK(comes_true([&] { return scene.hub->stats().ranks[0].loaded_bytes == 9000; }));
  for (auto& worker : workers) CHECK(worker->stop(40s));
  CHECK(scene.hub->stop(40s));
}

TEST_CASE("what is wrong whatever the engine says is refused at once", "[workers]") {
  Stage stage(kTwo);
  struct Case {
    std::function<void(WorkerProcess::Options&)> change;
    std::string says;
  };
  const auto c = GENERATE(values<Case>({
      {[](auto& o) { o.region_file = "/x"; }, "socket, region_file: both given"},
      {[](auto& o) { o.socket.clear(); }, "socket, region_file: neither given"},
      {[](auto& o) { o.place.rank = 2; }, "rank: 2; expected 0 to 1"},
      {[](auto& o) { o.place.world_size = 0; }, "world_size: 0"},
      {[](auto& o) { o.place.world_size = 2000; }, "world_size: 2000"},
      {[](auto& o) { o.place.blocks_per_chunk = 0; }, "blocks_per_chunk: 0"},
      {[](auto& o) { o.caches.tensors.clear(); }, "no tensor is registered"},
      {[](auto& o) { o.caches.groups[0][1].page_bytes = 4096; }, "page_bytes 4096"},
      {[](auto& o) { o.caches.groups[0][1].tensor = 9; }, "there is no such tensor"},
      {[](auto& o) { o.socket = "@" + std::string(200, 'x'); },
       "expected @name or a path of at most 107"},
  }));
  auto options = options_for(stage, 0, "@nobody");
  c.change(options);
  const auto before = Holdings::now("", "nobody");
  const auto started = WorkerProcess::start(options);
  REQUIRE_FALSE(started);
  INFO(started.error().detail);
  CHECK(started.error().detail.find("worker: ") == 0);
  CHECK(started.error().detail.find(c.says) != std::string::npos);
  CHECK(Holdings::now("", "nobody").beyond(before) == "");
}

TEST_CASE("a worker waits for an engine that starts later, and for one in time", "[workers]") {
  Scene scene(kTwo);
  const auto before = Holdings::now("", "kv_offload");
  {
    auto options = options_for(scene.stage, 0, scene.socket);
    options.join_patience = 0s;
    auto late = start(options);
    const auto refused = late->wait_ready(40s);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().detail.find("no engine in time: socket " + scene.socket +
                                      ": Connection refused") == 0);
  }
  {
    auto never = start(options_for(scene.stage, 0, scene.socket));
    const auto waits = never->wait_ready(0s);
    REQUIRE_FALSE(waits);
    CHECK(waits.error().detail == "worker: waits for the engine");
    CHECK(never->submit({}).error().code == OffloadErrc::busy);
    CHECK(never->stop(40s));  // told to stop while it waits
    CHECK(never->wait_ready(0s).error().code == OffloadErrc::aborted);
  }
  CHECK(comes_true([&] { return Holdings::now("", "kv_offload").beyond(before).empty(); }));
  auto one = start(options_for(scene.stage, 0, scene.socket));
  auto two = start(options_for(scene.stage, 1, scene.socket));
  REQUIRE(scene.start_hub() == "");
  CHECK(one->wait_ready(40s));
  CHECK(two->wait_ready(40s));
  CHECK(scene.hub->wait_joined(40s));
}

TEST_CASE("a worker that is refused at any step leaves nothing, and the engine says why",
          "[workers]") {
  Scene scene(kTwo);
  REQUIRE(scene.start_hub() == "");
  struct Case {
    std::function<void(WorkerProcess::Options&)> change;
    std::string says;
  };
  const auto c = GENERATE(values<Case>({
      {[](auto& o) { o.engine_id = "engine-b"; },
       "engine_id: found \"engine-a\", expected \"engine-b\""},
      {[](auto& o) { o.fingerprint = "f2"; }, "fingerprint: found"},
      {[](auto& o) { o.revision = "r0"; }, "revision: found"},
      {[](auto& o) { o.place.world_size = 3; }, "world_size: found 2, expected 3"},
      {[](auto& o) { o.place.blocks_per_chunk = 1; }, "blocks_per_chunk: found 2, expected 1"},
      {[](auto& o) { o.place.layout = ChunkLayout::replicated; }, "layout: found"},
      {[](auto& o) { o.caches.tensors.pop_back(), o.caches.groups[0].pop_back(); },
       "bytes"},  // does not fill its slot
      {[](auto& o) { o.caches.tensors[0].alive = std::weak_ptr<const void>{}; },
       "freed"},  // the device says no
  }));
  const auto before = Holdings::now("", "kv_offload");
  auto options = options_for(scene.stage, 0, scene.socket);
  c.change(options);
  {
    auto worker = start(options);
    const auto refused = worker->wait_ready(40s);
    REQUIRE_FALSE(refused);
    INFO(refused.error().detail);
    CHECK(refused.error().detail.find(c.says) != std::string::npos);
    CHECK(refused.error().detail.find('\n') == std::string::npos);
    CHECK(worker->stop(40s));
  }
  CHECK(comes_true([&] { return Holdings::now("", "kv_offload").beyond(before).empty(); }));
  CHECK(comes_true(
      [&] { return scene.hub->wait_joined(0s).error().detail.find(c.says) != std::string::npos; }));
  CHECK_FALSE(scene.hub->stats().ranks[0].joined);
}

TEST_CASE("layouts that do not fit together refuse all workers", "[workers]") {
  // Both fill their slots, but not with the same pages.
  Scene scene(kTwo);
  REQUIRE(scene.start_hub() == "");
  auto other = options_for(scene.stage, 1, scene.socket);
  other.caches.tensors[0].page_bytes = 500, other.caches.groups[0][0].page_bytes = 500;
  other.caches.tensors[1].page_bytes = 1500, other.caches.groups[0][1].page_bytes = 1500;
  other.caches.tensors[1].num_blocks = 4;
  auto one = start(options_for(scene.stage, 0, scene.socket));
  auto two = start(other);
  const auto a = one->wait_ready(40s);
  const auto b = two->wait_ready(40s);
  REQUIRE_FALSE(a);
  REQUIRE_FALSE(b);
  CHECK(a.error().detail == b.error().detail);
  const auto joined = scene.hub->wait_joined(40s);
  REQUIRE_FALSE(joined);
  CHECK("refused by the engine: " + joined.error().detail.substr(9) == a.error().detail);
}

TEST_CASE("a worker's own jobs are told to it and reported to the engine", "[workers]") {
  Scene scene(kTwo);
  REQUIRE(scene.start_hub() == "");
  std::atomic<int> done{0};
  std::unique_ptr<WorkerProcess> workers[2];
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    auto options = options_for(scene.stage, rank, scene.socket);
    options.done = [&](const CopyResult& result) { done += result.success ? 1 : 100; };
    workers[rank] = start(std::move(options));
  }
  for (auto& worker : workers) REQUIRE(worker->wait_ready(40s));
  CopyJob job;
  job.id = 5;
  job.blocks = {{0}, {1}, {0}};
  job.chunk_ids = {1};
  REQUIRE(workers[0]->submit(job));  // one rank before the order, one after it
  CHECK(comes_true([&] { return done == 1; }));
  auto order = Scene::order(5, false, 0, 1);
  order.told_by_embedder = true;
  REQUIRE(scene.hub->submit(order));
  REQUIRE(workers[1]->submit(job));
  CHECK(scene.log.outcome(5)->success);
  CHECK(scene.log.wait_quiesced(5));
  CHECK(done == 2);
  job.chunk_ids = {100};
  const auto refused = workers[0]->submit(job);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().detail.find("100") != std::string::npos);
}

TEST_CASE("copies wait for the event that the embedder names for each order", "[workers]") {
  Scene scene({.world_size = 1,
               .blocks_per_chunk = 1,
               .page_bytes = 4096,
               .num_blocks = 4,
               .num_tensors = 1});
  REQUIRE(scene.start_hub() == "");
  std::atomic<int> asked{0};
  auto options = options_for(scene.stage, 0, scene.socket);
  options.before_copy = [&](const CopyJob& job) -> DeviceEventHandle {
    asked += static_cast<int>(job.id);
    return 0;
  };
  auto worker = start(std::move(options));
  REQUIRE(worker->wait_ready(40s));
  for (std::uint64_t id : {1, 10, 100}) REQUIRE(scene.hub->submit(Scene::order(id, false, 0, 0)));
  CHECK(scene.log.wait_quiesced(100));
  CHECK(asked == 111);  // each once
}

TEST_CASE("a copy that fails is the outcome, with its rank and reason", "[workers]") {
  Scene scene(kTwo);
  REQUIRE(scene.start_hub() == "");
  Trouble trouble;
  trouble.fails = true;
  auto options = options_for(scene.stage, 1, scene.socket);
  options.backend = trouble.backend();
  auto one = start(options_for(scene.stage, 0, scene.socket));
  auto two = start(std::move(options));
  REQUIRE(scene.hub->wait_joined(40s));
  REQUIRE(scene.hub->submit(Scene::order(1, false, 0, 1)));
  const auto outcome = scene.log.outcome(1);
  REQUIRE(outcome);
  CHECK(outcome->errc == OffloadErrc::io_error);
  CHECK(outcome->error.find("rank 1: ") == 0);
  CHECK(outcome->error.find("the device is gone") != std::string::npos);
  CHECK(scene.log.wait_quiesced(1));
  // What the device worker refuses is a report as well.
  REQUIRE(scene.hub->submit(Scene::order(2, false, 0, 77)));
  CHECK_FALSE(scene.log.outcome(2)->success);
  CHECK(scene.log.wait_quiesced(2));
}

TEST_CASE("more orders than the device takes at once are all carried out, in order", "[workers]") {
  Scene scene({.world_size = 1,
               .blocks_per_chunk = 1,
               .page_bytes = 4096,
               .num_blocks = 4,
               .num_tensors = 1});
  REQUIRE(scene.start_hub({.orders_max = 10000}) == "");
  Trouble trouble;
  trouble.hang = true;
  auto options = options_for(scene.stage, 0, scene.socket);
  options.backend = trouble.backend();
  auto worker = start(std::move(options));
  REQUIRE(scene.hub->wait_joined(40s));
  constexpr std::uint64_t kOrders = 5000;  // the device worker takes 4096
  for (std::uint64_t id = 1; id <= kOrders; ++id)
    REQUIRE(scene.hub->submit(Scene::order(id, false, 0, 0)));
  CHECK(comes_true([&] { return worker->stats().running_jobs == 4096; }));
  trouble.hang = false;
  CHECK(scene.log.wait_quiesced(kOrders));
  const auto lines = scene.log.lines();
  REQUIRE(lines.size() == 2 * kOrders);
  for (std::uint64_t i = 0; i < kOrders; ++i) {
    REQUIRE(lines[2 * i].id == i + 1);
    REQUIRE(lines[2 * i].outcome->success);
  }
}

TEST_CASE("a worker that stops ends its copies first, then says goodbye", "[workers]") {
  Scene scene(kTwo);
  REQUIRE(scene.start_hub() == "");
  Trouble trouble;
  auto options = options_for(scene.stage, 1, scene.socket);
  options.backend = trouble.backend();
  bool gone = false;
  options.engine_gone = [&](const std::string&) { gone = true; };
  auto one = start(options_for(scene.stage, 0, scene.socket));
  auto two = start(std::move(options));
  REQUIRE(scene.hub->wait_joined(40s));
  trouble.hang = true;
  REQUIRE(scene.hub->submit(Scene::order(1, false, 0, 1)));
  REQUIRE(comes_true([&] { return trouble.hanging == 1; }));
  bool clean = false;
  std::thread stopper([&] { clean = two->stop(40s); });
  CHECK(comes_true([&] { return two->submit({}).error().code == OffloadErrc::shutting_down; }));
  CHECK_FALSE(scene.log.quiesced(1));
  CHECK(scene.hub->stats().ranks[1].joined);
  trouble.hang = false;
  stopper.join();
  CHECK(clean);
  CHECK_FALSE(gone);  // the engine is not
  CHECK(scene.log.outcome(1)->success);
  CHECK(scene.log.wait_quiesced(1));
  CHECK(comes_true([&] { return !scene.hub->stats().ranks[1].joined; }));
  CHECK(two->wait_ready(0s).error().detail == "it was stopped");
}

TEST_CASE("a worker whose copy does not end says no goodbye, and its rows stay mapped",
          "[workers]") {
  Scene scene(kTwo);
  REQUIRE(scene.start_hub() == "");
  auto trouble = std::make_shared<Trouble>();
  auto options = options_for(scene.stage, 1, scene.socket);
  options.backend = trouble->backend();
  auto one = start(options_for(scene.stage, 0, scene.socket));
  auto two = start(std::move(options));
  REQUIRE(scene.hub->wait_joined(40s));
  trouble->hang = true;
  REQUIRE(scene.hub->submit(Scene::order(1, false, 0, 1)));
  REQUIRE(comes_true([&] { return trouble->hanging == 1; }));
  CHECK_FALSE(two->stop(20ms));
  two.reset();
  CHECK_FALSE(scene.log.outcome(1)->success);
  CHECK_FALSE(scene.log.quiesced(1));
  CHECK(one->stop(40s));
  CHECK_FALSE(scene.hub->stop(50ms));
  CHECK_FALSE(scene.log.quiesced(1));  // never: this process, in which the worker was, lives
  trouble->hang = false;               // and the late copy finds its rows
  CHECK(comes_true([&] { return trouble->hanging == 0; }));
}

TEST_CASE("an engine that ends takes its workers with it, when their copies have ended",
          "[workers]") {
  const bool told = GENERATE(true, false);
  CAPTURE(told);
  Scene scene(kTwo);
  REQUIRE(scene.start_hub() == "");
  std::atomic<int> gone{0};
  std::string whys[2];
  Trouble trouble;
  std::unique_ptr<WorkerProcess> workers[2];
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    auto options = options_for(scene.stage, rank, scene.socket);
    options.backend = trouble.backend();
    options.engine_gone = [&, rank](const std::string& why) {
      whys[rank] = why;
      ++gone;
    };
    workers[rank] = start(std::move(options));
  }
  REQUIRE(scene.hub->wait_joined(40s));
  trouble.hang = true;
  REQUIRE(scene.hub->submit(Scene::order(1, false, 0, 1)));
  REQUIRE(comes_true([&] { return trouble.hanging == 2; }));
  if (told) {
    bool clean = false;
    std::thread stopper([&] { clean = scene.hub->stop(40s); });
    CHECK(comes_true(
        [&] { return workers[1]->submit({}).error().code == OffloadErrc::shutting_down; }));
    CHECK(gone == 0);
    trouble.hang = false;
    stopper.join();
    CHECK(clean);
    CHECK(scene.log.outcome(1)->success);
  } else {
    CHECK_FALSE(scene.hub->stop(1ms));  // closes the connections and is gone
    CHECK(comes_true(
        [&] { return workers[1]->submit({}).error().code == OffloadErrc::shutting_down; }));
    CHECK(gone == 0);
    trouble.hang = false;
  }
  CHECK(comes_true([&] { return gone == 2; }));
  for (const auto& why : whys) CHECK(why == "the engine ends");
  for (auto& worker : workers) {
    CHECK(worker->wait_ready(0s).error().code == OffloadErrc::expired);
    CHECK(worker->stop(0s));
  }
}

TEST_CASE("whatever listens that is no engine is no engine", "[workers]") {
  Stage stage(kTwo);
  const std::string name = unique_socket();
  HubListener listener(*SocketAddress::parse(name));
  REQUIRE(listener.open());
  const auto kind = GENERATE(0, 1, 2, 3);
  CAPTURE(kind);
  auto options = options_for(stage, 0, name);
  options.join_patience = kind == 3 ? 0s : 60s;
  auto worker = start(options);
  UniqueFd accepted;
  REQUIRE(comes_true([&] {
    accepted = listener.accept();
    return static_cast<bool>(accepted);
  }));
  WireSocket socket(std::move(accepted));
  RegionRecord record;
  record.engine_id = "engine-a";
  record.num_chunks = 1;
  record.chunk_bytes = record.row_bytes = 4096;
  record.world_size = 2;
  switch (kind) {
    case 0: socket.send(std::vector<std::byte>(64, std::byte{'H'})); break;
    case 1: socket.send(encode(WelcomeMessage{record, true})); break;  // without its descriptor
    case 2:
      socket.send(
          std::make_shared<const std::vector<std::byte>>(encode(WelcomeMessage{record, true})),
          STDIN_FILENO);
      break;  // the descriptor of something else
    case 3:
      socket.close();
      listener.close();
      break;
  }
  if (socket) CHECK(socket.flush());
  const auto refused = worker->wait_ready(40s);
  REQUIRE_FALSE(refused);
  INFO(refused.error().detail);
  CHECK(refused.error().detail.find(kind == 0   ? "a strange frame"
                                    : kind == 1 ? "what listens there is no engine of this version"
                                    : kind == 2 ? "region: "
                                                : "no engine in time") != std::string::npos);
}

TEST_CASE("workers find a region by its file, and nobody counts their copies but their embedder",
          "[workers]") {
  TierDirectory dir;
  Stage stage(kTwo);
  const std::string file = dir.path() + "/rows.region";
  std::unique_ptr<WorkerProcess> workers[2];
  std::atomic<int> done{0};
  std::atomic<int> gone{0};
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    auto options = options_for(stage, rank, file);
    options.done = [&](const CopyResult& result) { done += result.success ? 1 : 100; };
    options.engine_gone = [&](const std::string&) { ++gone; };
    workers[rank] = start(std::move(options));
  }
  CHECK_FALSE(workers[0]->wait_ready(1ms));
  RegionOptions options;
  options.num_chunks = 4;
  options.chunk_bytes = stage.slot_bytes() * 2;
  options.threads = 1;
  options.shared = RegionSharing{};
  options.shared->record.engine_id = "engine-a";
  options.shared->record.world_size = 2;
  options.shared->record.blocks_per_chunk = 2;
  options.shared->file = file;
  auto region = Region::create(options);
  REQUIRE(region);
  for (auto& worker : workers) REQUIRE(worker->wait_ready(40s));
  CHECK_FALSE(std::filesystem::exists(file));
  std::memset(stage.block(1, 0, 0), 0x3c, 1000);
  CopyJob job;
  job.id = 1;
  job.blocks = {{0}, {1}, {0}};
  job.chunk_ids = {2};
  REQUIRE(workers[1]->submit(job));
  CHECK(comes_true([&] { return done == 1; }));
  CHECK((*region)->view().row(2)[6000] == std::byte{0x3c});
  for (auto& worker : workers) CHECK(worker->stop(40s));
  CHECK(gone == 0);
}

}  // namespace
}  // namespace kv_offload::test
