#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/io/io_backend.hpp"
#include "kv_offload/tiers/io/lane_options.hpp"
#include "kv_offload/tiers/io/lane_storage.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kv_offload {

/// One I/O thread of a tier with one backend: probes, loads and stores of the tier's actor go in,
/// verdicts and the two ends of each job come out through the sink. All functions are called by one
/// thread at a time and never block, start and stop excepted.
class Lane {
 public:
  Lane(LaneOptions options, std::unique_ptr<IoBackend> backend,
       std::unique_ptr<LaneStorage> storage);
  /// Stops with a patience of 5 s if nobody did.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Starts the thread and waits until its backend is open. The value describes the backend.
  Expected<std::string> start();

  bool probe(ProbeId id, KeyList keys);
  /// A job that cannot be taken (lane not running, more than jobs_max) ends at once, with its reason.
  void submit(std::vector<TransferJob> jobs);
  void cancel(const JobId& id);
  void cancel_queued();
  /// Makes the lane take a turn, because its storage was left something to do.
  void wake();

  /// Queued jobs are cancelled, running ones end, the thread is joined. False: it did not end within
  /// `patience`, or it died and the device still has buffers of it. Then what a leaked thread or device
  /// may touch is leaked (the sink will not be called any more), and the primary tier's memory must stay
  /// mapped.
  bool stop(Duration patience);

  [[nodiscard]] const LaneCounters& counters() const;
  [[nodiscard]] std::uint64_t queued_jobs() const;

 private:
  struct State;
  static void run_thread(const std::shared_ptr<State>& state);
  void end_unstarted(const std::vector<TransferJob>& jobs, TransferFailure why);

  std::shared_ptr<State> state_;  // shared with the thread, which may outlive the lane
};

}  // namespace kv_offload
