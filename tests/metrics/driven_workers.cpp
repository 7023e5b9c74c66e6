#include "kv_offload/tests/metrics/driven_engine.hpp"
#include "kv_offload/tests/metrics/driven_workloads.hpp"
#include "kv_offload/tiers/workers/worker_process.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace kv_offload::test {
namespace {

using namespace std::chrono_literals;
using Definitions = std::vector<MetricDefinition>;

constexpr std::uint64_t kPageBytes = DrivenEngine::kChunkBytes / 2;
constexpr std::uint32_t kBlocks = 8;

BlockList blocks(std::vector<std::uint32_t> ids) {
  BlockList list;
  list.group_sizes = {static_cast<std::uint32_t>(ids.size())};
  list.first_blocks = {0};
  list.block_ids = std::move(ids);
  return list;
}

std::unique_ptr<WorkerProcess> worker(const std::string& socket, std::uint32_t rank, std::vector<std::byte>& device) {
  device.resize(kBlocks * kPageBytes);
  WorkerProcess::Options options;
  options.socket = socket;
  options.place = {rank, 2, 1, ChunkLayout::sharded};
  options.caches.tensors.resize(1);
  options.caches.tensors[0].data = device.data();
  options.caches.tensors[0].page_bytes = kPageBytes;
  options.caches.tensors[0].num_blocks = kBlocks;
  options.caches.groups.resize(1);
  options.caches.groups[0].resize(1);
  options.caches.groups[0][0].page_bytes = kPageBytes;
  options.log = [](const std::string&, const std::string&) {};
  return DrivenEngine::value(WorkerProcess::start(std::move(options)));
}

/// Connects and says what no worker says.
void talk_nonsense(const std::string& name) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path, sizeof address.sun_path);
  address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  const std::string nonsense(64, 'x');
  const bool said = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                    ::send(fd, nonsense.data(), nonsense.size(), MSG_NOSIGNAL) == 64;
  ::close(fd);
  if (!said) throw std::runtime_error("nobody listens on " + name);
}

/// Two chunks stored, one loaded, one copy that no device can make, and a stranger.
Exposition copies(Definitions& definitions) {
  const std::string socket = "@kv_offload-metrics-test-" + std::to_string(::getpid());
  std::vector<std::byte> devices[2];
  const auto first = worker(socket, 0, devices[0]), second = worker(socket, 1, devices[1]);
  DrivenEngine engine(16, R"("workers": {"world_size": 2, "socket": ")" + socket + "\"}");
  const auto request = engine.request("r");
  const auto keys = keys_named('a', 2);
  engine.wait(engine->store_blocks(engine.prepare_store(request, keys).lease, blocks({0, 1})));
  engine.wait(engine->load_blocks(engine.prepare_load(request, first_of(keys, 1)), blocks({5})));
  if (engine->load_blocks(engine.prepare_load(request, keys), blocks({6, kBlocks})).get())
    throw std::runtime_error("a block that is not there was copied");
  talk_nonsense(socket);
  engine.until([](const EngineStats& s) {
    return s.scheduler.workers.strange_frames == 1 && s.scheduler.load_copies.open == 0;
  });
  return engine.page(definitions);
}

const std::vector<Known> kCopies = {
    {kVllm + "store_bytes_total", 2 * DrivenEngine::kChunkBytes},
    {kVllm + "load_bytes_total", DrivenEngine::kChunkBytes},
    {kVllm + "store_time_total", 0, Known::at_least},
    {kVllm + "load_time_total", 0, Known::at_least},
    {kVllm + "store_size_count", 1},
    {kVllm + "load_size_count", 1},
    {"kv_offload_worker_copies_started_total{direction=\"load\"}", 2},
    {"kv_offload_worker_copies_failed_total{direction=\"load\"}", 1},
    {"kv_offload_worker_copies_failed_total{direction=\"store\"}", 0},
    {"kv_offload_worker_open_copies{direction=\"store\"}", 0},
    {"kv_offload_worker_late_copies_total", 0},
    {"kv_offload_worker_strange_frames_total", 1},
    {"kv_offload_worker_joined{rank=\"1\"}", 1},
    {"kv_offload_worker_joins_total{rank=\"0\"}", 1},
    {"kv_offload_worker_deaths_total{rank=\"0\"}", 0},
    {"kv_offload_worker_failed_jobs_total{rank=\"1\"}", 1},
    {"kv_offload_worker_region_bytes{rank=\"0\"}", 16 * DrivenEngine::kChunkBytes},
    {"kv_offload_worker_registered_bytes{rank=\"0\"}", 16 * DrivenEngine::kChunkBytes},
};

}  // namespace

std::vector<Workload> worker_workloads() { return {{"copies by workers", copies, kCopies}}; }

}  // namespace kv_offload::test
