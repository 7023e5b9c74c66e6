#pragma once

#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/tiers/event_queue.hpp"
#include "kv_offload/tiers/fs/file_mapper.hpp"
#include "kv_offload/tiers/fs/fs_namespace.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace kv_offload {

class FsCapacity;

/// Numbers of a tier with a capacity. Written by the lane, read by anyone.
struct FsCapacityCounters {
  std::atomic<std::uint64_t> allocated_bytes{0};  ///< gauge: files known, those leaving included
  std::atomic<std::uint64_t> chunks{0};           ///< gauge: known
  std::atomic<std::uint64_t> leaving_files{0};    ///< gauge: being removed, or waiting for it
  std::atomic<std::uint64_t> evicted_chunks{0};
  std::atomic<std::uint64_t> evicted_bytes{0};
  std::atomic<std::uint64_t> adopted_chunks{
      0};  ///< found on disk, not stored by us or not recorded
  std::atomic<std::uint64_t> vanished_chunks{0};  ///< known, and gone without us
  std::atomic<std::uint64_t> unlink_failures{0};
  std::atomic<std::uint64_t> waited_stores{0};  ///< stores that had to wait for room
  std::atomic<double> walk_progress{1};         ///< gauge, 0 to 1
};

/// What the lane tells the tier's actor about its files, and the other way. Any thread.
struct FsShared {
  /// Forgotten keys that the index was not told of yet. Beyond it they count until they are met: less
  /// is stored than could be, never more.
  static constexpr std::size_t kForgottenMax = 1U << 16;

  FsShared();
  ~FsShared();
  FsShared(const FsShared&) = delete;
  FsShared& operator=(const FsShared&) = delete;

  std::atomic<std::uint64_t> corrupt_chunks{0};
  std::atomic<std::uint64_t> foreign_refused{0};
  std::atomic<bool> is_direct{
      true};  ///< O_DIRECT works in this directory; set before the first job

  FsCapacityCounters counters;
  EventQueue events;
  /// Made by the start and the lane's from then on; the lane looks at it only if this is set.
  std::atomic<bool> has_capacity{false};
  std::unique_ptr<FsCapacity> capacity;

  std::atomic<bool> namespace_changed{false};  ///< `next_mapper` waits for the lane
  std::atomic<bool> has_forgotten{false};      ///< `forgotten` has keys
  std::mutex mutex;                            // guards the rest
  std::optional<FileMapper> next_mapper;
  std::unique_ptr<FsNamespace> next_namespace;  // with a capacity only
  std::deque<OffloadKey> forgotten;             // their files were removed by a forget

  void add_forgotten(const OffloadKey& key) {
    const std::lock_guard lock(mutex);
    if (forgotten.size() >= kForgottenMax) return;
    forgotten.push_back(key);
    has_forgotten.store(true, std::memory_order_release);
  }
};

}  // namespace kv_offload
