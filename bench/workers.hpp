#pragma once

#include "kv_offload/bench/options.hpp"

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

namespace kv_offload::bench {

struct WorkersOptions {
  std::uint32_t workers = 4;
  std::uint64_t chunks = 10'000;
  std::uint64_t chunk_bytes = 64 * 1024;
  std::uint32_t blocks_per_chunk = 1;
  std::uint32_t batch = 64;   ///< chunks per copy
  std::uint32_t window = 4;   ///< copies on their way
  std::uint32_t rounds = 1;
  bool kill = false;          ///< one worker, by SIGKILL, once per round
  std::uint64_t seed = 1;
  OutputOptions output;
};

/// `workers`: an engine here and worker processes, each with a device in host memory: every chunk is stored, read back
/// into other blocks, and compared. With `kill` a worker dies in the middle of a round; another takes its rank, and what
/// failed is done again.
/// @return 0; 1 if bytes were wrong, a promise broke or something was left behind; 2 with one line on `err`
int run_workers(const WorkersOptions& options, std::ostream& out, std::ostream& err);

/// What a worker process is told; the parent's descriptors are inherited.
struct BenchWorkerOptions {
  std::string socket;
  std::uint32_t rank = 0, world_size = 1, blocks_per_chunk = 1;
  std::uint64_t page_bytes = 0, num_blocks = 0;
  int device_fd = -1;
};
/// The worker process itself: joins, copies until the engine is gone. @return 0 if it ended in order
int run_bench_worker(const BenchWorkerOptions& options, std::ostream& err);

}  // namespace kv_offload::bench
