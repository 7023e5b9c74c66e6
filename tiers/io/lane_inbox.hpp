#pragma once

#include "kv_offload/messages/lookup.hpp"
#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/messages/transfer_job.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"

#include <absl/container/flat_hash_map.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace kv_offload {

/// Where a tier's actor leaves work for its lane: probes, loads and stores, each a bounded queue behind
/// one mutex that is never held during I/O or a call into the sink. Also knows which keys have a store
/// on its way (from submit to Outcome), because a probe of such a key has no answer yet.
class LaneInbox {
 public:
  struct Probe {
    ProbeId id = 0;
    KeyList keys;
  };
  /// What may end the lane's sleep.
  enum WakeFor : std::uint8_t { kProbes = 1, kLoads = 2, kStores = 4 };

  /// @param wake  ends the lane's sleep; called without the mutex
  LaneInbox(std::uint32_t probe_keys_max, std::uint32_t jobs_max, std::function<void()> wake)
      : probe_keys_max_(probe_keys_max), jobs_max_(jobs_max), wake_(std::move(wake)) {}

  // --- any thread -------------------------------------------------------------------------------
  /// False: full or closed; nothing was taken.
  bool push_probe(ProbeId id, KeyList keys);
  /// Takes jobs in order while there is room; gives back those it could not take.
  [[nodiscard]] std::vector<TransferJob> push_jobs(std::vector<TransferJob> jobs);
  /// The job, taken out of the queue; nullopt if it is not queued (any more).
  std::optional<TransferJob> cancel(const JobId& id);
  std::vector<TransferJob> cancel_queued();
  /// From now on nothing is taken in; the lane ends when it has nothing left to do.
  void close();
  [[nodiscard]] std::uint64_t queued_jobs() const;

  // --- the lane's thread ------------------------------------------------------------------------
  std::optional<Probe> pop_probe();
  std::optional<TransferJob> pop_job(bool is_load);
  /// Without the mutex: may lag behind a push, which then wakes the lane.
  [[nodiscard]] bool has_job(bool is_load) const {
    return (is_load ? num_loads_ : num_stores_).load(std::memory_order_relaxed) != 0;
  }
  /// Sets verdict `retry` where a store of the key is on its way; other verdicts stay.
  void mark_storing(std::span<const OffloadKey> keys, std::span<LookupResult> verdicts) const;
  /// A job that was popped or cancelled has ended; call before its Outcome is told.
  void job_ended(const TransferJob& job);
  /// True: nothing in `wake_for` is waiting and such work will wake the lane from now on.
  bool may_sleep(std::uint8_t wake_for);
  void woke_up();
  [[nodiscard]] bool is_closed() const;

 private:
  std::deque<TransferJob>& queue(bool is_load) { return is_load ? loads_ : stores_; }
  void publish_counts();
  void wake_if_asleep(std::uint8_t reason, std::unique_lock<std::mutex>& lock);

  const std::uint32_t probe_keys_max_;
  const std::uint32_t jobs_max_;
  const std::function<void()> wake_;

  mutable std::mutex mutex_;
  std::deque<Probe> probes_;                                // bounded by probe_keys_max_
  std::deque<TransferJob> loads_;                           // bounded by jobs_max_
  std::deque<TransferJob> stores_;                          // bounded by jobs_max_
  absl::flat_hash_map<OffloadKey, std::uint32_t> storing_;  // bounded by the jobs
  std::uint64_t probe_keys_ = 0;
  std::uint32_t jobs_ = 0;  // taken and not ended
  std::uint8_t asleep_for_ = 0;
  bool closed_ = false;

  // Sizes of the queues for the lane, which asks often and needs no exact answer.
  std::atomic<std::size_t> num_probes_{0};
  std::atomic<std::size_t> num_loads_{0};
  std::atomic<std::size_t> num_stores_{0};
};

}  // namespace kv_offload
