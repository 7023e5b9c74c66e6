#pragma once

#include "kv_offload/actors/offload_engine.hpp"
#include "kv_offload/bench/latency.hpp"

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace kv_offload::bench {

/// Chunks of one caller whose cascades have not ended yet, kept below what every tier may pin, so that
/// admission never has to refuse one of its stores. Callbacks run on engine threads and may outlive it.
class CascadeWindow {
 public:
  struct Totals {
    std::uint64_t stored = 0, failed = 0;  ///< chunks in secondary tiers, each tier counted
    std::uint64_t jobs_refused = 0;
    std::uint64_t errors = 0;  ///< complete_store answered an error
    std::string first_error;
    LatencyRecorder latency;  ///< complete_store to the end of its cascades
  };

  explicit CascadeWindow(std::uint64_t chunks_max) : chunks_max_(chunks_max) {}

  [[nodiscard]] std::uint64_t chunks_max() const { return chunks_max_; }
  /// Waits until `chunks` more fit (or nothing is open) and takes them. False: not within `patience`;
  /// they are taken all the same, because the caller goes on and its store is then refused and counted.
  bool acquire(std::uint64_t chunks, Duration patience);
  void release(std::uint64_t chunks);
  /// Waits as acquire does, but takes nothing.
  bool wait_for_room(std::uint64_t chunks, Duration patience) {
    return wait_others(chunks_max_ > chunks ? chunks_max_ - chunks : 0, patience);
  }
  /// Hands `chunks` acquired before to this completion; they are released when its cascades have ended.
  void follow(Pending<StoreOutcome> completion, std::uint64_t chunks);
  /// False: not all ended within `patience`.
  bool wait_idle(Duration patience) { return wait_others(0, patience); }
  /// Waits until no more than the caller's own `chunks`, acquired but not yet handed over, are open.
  bool wait_others(std::uint64_t chunks, Duration patience);
  [[nodiscard]] Totals totals() const;

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t open = 0;
    Totals totals;
  };
  std::uint64_t chunks_max_;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

/// The smallest number of chunks that a tier of this configuration may pin; 0 without tiers.
std::uint64_t cascade_chunks_max(const EngineConfig& config);

}  // namespace kv_offload::bench
