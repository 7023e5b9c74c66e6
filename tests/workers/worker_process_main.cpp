// One worker of an engine, for the tests that kill workers:
//   worker_process STAGE_FD WORLD BLOCKS_PER_CHUNK PAGE_BYTES NUM_BLOCKS NUM_TENSORS RANK SOCKET-OR-FILE [PATIENCE_MS]
// It joins, says on its board how far it is, and ends when it is told to, or with its engine.
#include "kv_offload/tests/workers/stage.hpp"
#include "kv_offload/tiers/device/device_worker.hpp"
#include "kv_offload/tiers/device/host_backend.hpp"
#include "kv_offload/tiers/workers/worker_process.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace kv_offload::test {
namespace {

constexpr auto kLook = std::chrono::milliseconds(1);

/// What was said last stays: an engine may be gone before this worker's main thread has seen it ready.
void say(StageBoard& board, StageBoard::State state, const std::string& why) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  if (board.state == StageBoard::gone) return;
  std::strncpy(board.why, why.c_str(), sizeof board.why - 1);
  board.state = state;
}

HostOptions host_with_faults(StageBoard& board) {
  HostOptions options;
  options.before_copy = [&board](std::span<const CopyFragment>) -> HostTrouble {
    ++board.copies;
    if (board.fail != 0) return {"the board says so", false};
    if (board.hang == 0) return {};
    ++board.hanging;
    while (board.hang != 0) std::this_thread::sleep_for(kLook);
    --board.hanging;
    return {};
  };
  return options;
}

int run(char** args) {
  StageShape shape;
  const auto number = [&](int i) {
    return static_cast<std::uint32_t>(std::strtoul(args[i], nullptr, 10));
  };
  shape.world_size = number(2);
  shape.blocks_per_chunk = number(3);
  shape.page_bytes = number(4);
  shape.num_blocks = number(5);
  shape.num_tensors = number(6);
  const std::uint32_t rank = number(7);
  const std::string where = args[8];
  Stage stage(shape, static_cast<int>(number(1)));
  if (!stage.ok()) return 3;
  StageBoard& board = stage.board(rank);

  auto backend = make_host_backend(host_with_faults(board));
  if (!backend) return 3;
  std::atomic<bool> gone{false};
  WorkerProcess::Options options;
  (where.find(".region") != std::string::npos ? options.region_file : options.socket) = where;
  options.place = {rank, shape.world_size, shape.blocks_per_chunk, ChunkLayout::sharded};
  for (std::uint32_t t = 0; t < shape.num_tensors; ++t) {
    options.caches.tensors.push_back({"t" + std::to_string(t), stage.tensor(rank, t),
                                      shape.page_bytes, shape.num_blocks, std::nullopt});
    KvRef ref;
    ref.tensor = t;
    ref.page_bytes = shape.page_bytes;
    ref.layer = "layer" + std::to_string(t);
    if (options.caches.groups.empty()) options.caches.groups.emplace_back();
    options.caches.groups[0].push_back(std::move(ref));
  }
  options.backend = *backend;
  if (args[9] != nullptr) options.join_patience = std::chrono::milliseconds(number(9));
  options.engine_gone = [&](const std::string& why) {
    say(board, StageBoard::gone, why);
    gone = true;
  };
  options.done = [&](const CopyResult& result) {
    if (result.success) ++board.own_done;
  };
  if (std::getenv("KV_OFFLOAD_WORKER_LOG") != nullptr)
    options.log = [](const std::string& level, const std::string& line) {
      std::fprintf(stderr, "%s: %s\n", level.c_str(), line.c_str());
    };
  auto worker = WorkerProcess::start(std::move(options));
  if (!worker) return say(board, StageBoard::refused, worker.error().detail), 4;
  for (;;) {
    auto joined = (*worker)->wait_ready(std::chrono::milliseconds(50));
    if (joined) break;
    if (board.command == StageBoard::stop) break;
    if (joined.error().code == OffloadErrc::expired) {  // was ready, and its engine is gone already
      while (!gone) std::this_thread::sleep_for(kLook);
      return 0;
    }
    if (joined.error().code != OffloadErrc::deadline || joined.error().detail.starts_with("no "))
      return say(board, StageBoard::refused, joined.error().detail), 4;
  }
  say(board, StageBoard::ready, "");
  while (!gone && board.command != StageBoard::stop) {
    if (board.command == StageBoard::submit) {
      board.command = StageBoard::none;
      CopyJob job;
      job.id = board.own_id;
      job.blocks = {{0}, {1}, {0}};
      job.chunk_ids = {0};
      if (!(*worker)->submit(std::move(job))) return 5;
    }
    std::this_thread::sleep_for(kLook);
  }
  if (gone) return 0;
  const bool clean = (*worker)->stop(std::chrono::seconds(30));
  board.state = clean ? StageBoard::stopped : StageBoard::stop_failed;
  return clean ? 0 : 6;
}

}  // namespace
}  // namespace kv_offload::test

int main(int argc, char** argv) {
  if (argc < 9) return 2;
  return kv_offload::test::run(argv);
}
