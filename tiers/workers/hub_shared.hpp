#pragma once

#include "kv_offload/tiers/workers/worker_hub.hpp"

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace kv_offload {

/// What the callers of a hub and its thread have in common. No system call under the lock.
struct HubShared {
  struct Order {
    std::uint64_t id = 0;
    MonotonicTime deadline{};
    bool told_by_embedder = false;
    bool is_load = false;
    std::uint64_t rows = 0;  ///< mark_of_rows
    std::shared_ptr<const std::vector<std::byte>> frame = nullptr;  ///< null: nobody is to be told
  };
  std::mutex mutex;
  std::condition_variable changed;
  // Callers → thread.
  std::deque<Order> inbox;                ///< at most as many as `ids`
  std::unordered_set<std::uint64_t> ids;  ///< accepted and not quiesced
  RegionRecord record;
  bool stop = false;
  MonotonicTime stop_at{};
  // Thread → callers.
  std::string missing;                 ///< who is not ready; empty: all are
  std::optional<OffloadError> misfit;  ///< why the ranks together were refused
  std::string last_refusal;
  std::optional<bool> all_portable;
  WorkerHubStats stats;
  std::size_t queued_bytes = 0;  ///< of the slowest connection
  bool ended = false;
  bool ended_clean = false;
};

}  // namespace kv_offload
