// An engine and two worker processes: each worker copies its half of every chunk between its device and the engine's rows.
// The devices are host memory here; with "cuda:0" in place of the default they are a GPU's.
#include "kv_offload/actors/offload_engine.hpp"
#include "kv_offload/tiers/workers/worker_process.hpp"

#include <algorithm>
#include <cstdio>
#include <future>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace kv_offload;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t kWorkers = 2, kBlocks = 16;
constexpr std::uint64_t kChunkBytes = 64 * 1024, kPageBytes = kChunkBytes / kWorkers;

/// The process of one worker: blocks 0 to 3 have bytes, blocks 8 to 11 shall have the same in the end.
int work(const std::string& socket, std::uint32_t rank) {
  std::vector<std::byte> device(kBlocks * kPageBytes);
  for (std::size_t i = 0; i < 4 * kPageBytes; ++i) device[i] = static_cast<std::byte>(i / 100 + rank);

  WorkerProcess::Options options;
  options.socket = socket;
  options.place.rank = rank;
  options.place.world_size = kWorkers;
  options.caches.tensors.resize(1);
  options.caches.tensors[0].name = "kv";
  options.caches.tensors[0].data = device.data();
  options.caches.tensors[0].page_bytes = kPageBytes;
  options.caches.tensors[0].num_blocks = kBlocks;
  options.caches.groups.resize(1);
  options.caches.groups[0].resize(1);
  options.caches.groups[0][0].page_bytes = kPageBytes;
  std::promise<void> gone;
  options.engine_gone = [&](const std::string&) { gone.set_value(); };
  auto worker = WorkerProcess::start(std::move(options));  // joins in the background
  if (!worker) return std::fprintf(stderr, "%s\n", to_string(worker.error()).c_str()), 1;
  if (const auto ready = (*worker)->wait_ready(60s); !ready)
    return std::fprintf(stderr, "%s\n", to_string(ready.error()).c_str()), 1;
  gone.get_future().wait();  // …serve; the engine's orders are copied meanwhile…
  const bool same = std::equal(device.begin(), device.begin() + 4 * kPageBytes, device.begin() + 8 * kPageBytes);
  return (*worker)->stop(10s) && same ? 0 : 1;
}

BlockList four_blocks_from(std::uint32_t first) {
  BlockList list;
  list.block_ids = {first, first + 1, first + 2, first + 3};
  list.group_sizes = {4};
  list.first_blocks = {0};
  return list;
}

}  // namespace

int main() {
  const std::string socket = "@kv_offload-example-" + std::to_string(::getpid());
  std::vector<pid_t> workers;
  for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {  // before the engine has threads
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(work(socket, rank));
    workers.push_back(pid);
  }
  bool ok = true;
  {
    EngineConfig config;
    config.chunk_bytes = kChunkBytes;
    config.cpu_bytes_to_use = 64 * kChunkBytes;
    config.log_level = "error";
    config.workers.emplace();
    config.workers->world_size = kWorkers;
    config.workers->socket = socket;
    auto started = OffloadEngine::start(config);  // returns when both have joined
    if (!started) return std::fprintf(stderr, "%s\n", to_string(started.error()).c_str()), 2;
    auto& engine = **started;

    KeyList keys;
    for (unsigned char i = 0; i < 4; ++i) {
      const std::byte hash[32] = {std::byte{i}};
      keys.push_back(*OffloadKey::make(hash, 0));
    }
    const auto request = *engine.new_request({.req_id = "r1"}).get();
    const auto plan = *engine.prepare_store(request, keys).get();
    const auto stored = engine.store_blocks(plan.lease, four_blocks_from(0)).get();  // both devices → rows
    const auto load = *engine.prepare_load(request, keys).get();
    const auto loaded = engine.load_blocks(load.lease, four_blocks_from(8)).get();  // rows → both devices
    ok = stored && stored->published == 4 && loaded && engine.request_finished(request).get();
    std::printf("%u chunks stored by %u workers, %s\n", stored ? stored->published : 0, kWorkers,
                loaded ? "and loaded into other blocks" : to_string(loaded.error()).c_str());
  }  // the engine's end ends the workers
  for (const pid_t pid : workers) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    ok = ok && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  std::printf("bytes %s\n", ok ? "right" : "WRONG");
  return ok ? 0 : 1;
}
