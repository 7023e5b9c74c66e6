#pragma once

#include "kv_offload/actors/offload_engine.hpp"
#include "kv_offload/bench/latency.hpp"
#include "kv_offload/bench/random.hpp"
#include "kv_offload/bench/spawned_worker.hpp"
#include "kv_offload/bench/worker_device.hpp"
#include "kv_offload/bench/workers.hpp"

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload::bench {

/// What one round moved.
struct WorkersFigures {
  struct Direction {
    std::uint64_t chunks = 0;
    double seconds = 0;
    LatencyRecorder copies;        ///< order to answer
    std::uint64_t failed = 0;      ///< copies that a worker's death ended, and were done again
    std::uint64_t refused = 0;     ///< copies refused while a worker was missing, and done again
  };
  Direction stores, loads;  ///< loads that are compared are not timed
  std::uint64_t compared_chunks = 0, mismatches = 0;
  std::vector<PromiseCheck> promises;
};

/// One engine and its worker processes, from their start to their end.
class WorkersRound {
 public:
  WorkersRound(const WorkersOptions& options, std::uint32_t round);

  /// The error names what did not do what it should.
  Expected<WorkersFigures> run();

 private:
  struct Copy {
    std::uint64_t first = 0;  ///< chunk
    std::uint64_t count = 0;
    std::uint64_t target = 0; ///< loads: where on the devices
    LeaseId lease;
    MonotonicTime since;
    std::optional<Pending<StoreOutcome>> store;
    std::optional<Pending<Ok>> load;
  };

  std::optional<OffloadError> start();
  std::optional<OffloadError> spawn(std::uint32_t rank);
  enum class Pass : std::uint8_t { store, compare, load };
  std::optional<OffloadError> run_pass(Pass pass, WorkersFigures& figures);
  std::optional<OffloadError> begin(Pass pass, std::uint64_t first);
  std::optional<OffloadError> settle(Pass pass, WorkersFigures& figures);
  std::optional<OffloadError> finish(WorkersFigures& figures);
  std::optional<OffloadError> replace_dead_worker();
  void kill_when_due();
  void compare(const Copy& copy, WorkersFigures& figures);
  [[nodiscard]] KeyList keys_of(std::uint64_t first, std::uint64_t count) const;
  [[nodiscard]] BlockList blocks_at(std::uint64_t first_block, std::uint64_t chunks) const;
  /// Device block of a chunk's first byte before it is stored.
  [[nodiscard]] std::uint64_t source_of(std::uint64_t chunk) const { return chunk % source_chunks_ * options_.blocks_per_chunk; }

  const WorkersOptions& options_;
  const std::uint32_t round_;
  const std::uint64_t page_bytes_;
  const std::uint64_t source_chunks_;  ///< chunks whose bytes the devices begin with
  Random random_;
  std::string socket_;
  std::vector<std::unique_ptr<WorkerDevice>> devices_;
  std::vector<std::unique_ptr<SpawnedWorker>> workers_;
  std::unique_ptr<OffloadEngine> engine_;
  RequestHandle request_;
  std::deque<Copy> window_;
  std::deque<std::uint64_t> again_;      ///< first chunks of copies to be done again
  std::uint64_t begun_ = 0, kill_at_ = 0;
  std::optional<std::uint32_t> dead_;    ///< rank that was killed and not replaced yet
};

}  // namespace kv_offload::bench
