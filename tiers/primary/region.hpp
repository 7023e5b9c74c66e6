#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/tiers/primary/region_file.hpp"
#include "kv_offload/tiers/primary/region_memory.hpp"
#include "kv_offload/tiers/primary/region_placement.hpp"
#include "kv_offload/tiers/primary/region_record.hpp"
#include "kv_offload/tiers/primary/registration_plan.hpp"
#include "kv_offload/tiers/primary/touch_pages.hpp"
#include "kv_offload/tiers/primary_view.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

/// For a region that other processes map.
struct RegionSharing {
  /// engine_id, world_size, blocks_per_chunk, layout, namespace_collapsed, fingerprint, revision; the rest is filled in.
  RegionRecord record = {};
  std::string file = {};  ///< empty: without a name, joiners get the descriptor
  bool explicit_huge_pages =
      false;  ///< reserved by the operator; without a file only. Ordinary ones if there are none
};

struct RegionOptions {
  ChunkId num_chunks = 0;
  std::uint64_t chunk_bytes = 0;  ///< payload of a row
  std::uint32_t threads = 4;      ///< that touch the pages at the start; at most kTouchThreadsMax
  bool huge_pages = true;         ///< ask for transparent huge pages
  /// Private memory alone: addresses, and zeroed pages of the smallest size when somebody touches them. No memory is
  /// asked about, no page is touched: for who measures the bookkeeping of more rows than the machine could hold.
  bool reserve_only = false;
  /// Times the first touch for describe(); may be empty.
  std::function<MonotonicTime()> now = {};
  /// What is available, instead of asking the system.
  std::optional<std::uint64_t> available_bytes = std::nullopt;
  std::optional<RegionSharing> shared = std::nullopt;
  Madvise advise = nullptr;  ///< what stands in for madvise(2), in tests
  RegionPlacement placement = {};
};

/// The memory of a primary tier: one mapping, 2 MiB aligned, every page touched before the first chunk arrives;
/// private and anonymous, or shared: memory with a descriptor, or a named file. In front of shared rows stands a
/// page that says whose they are (tiers/workers/README.md). A row is the chunk's payload rounded up to 4096 bytes; the padding is zero,
/// because the kernel hands out zeroed pages and nobody writes behind a payload.
///
/// Created and destroyed by the engine, outside its actors; blocks while pages are touched. The mapping
/// must outlive every lane: after a lane that never returned call `leak()` before destroying it.
class Region {
 public:
  static constexpr std::uint64_t kRowAlignment = 4096;  // direct I/O and pages
  static constexpr std::uint64_t kHugePageBytes = 2 * 1024 * 1024;
  static_assert(kRegionRowsOffset % kHugePageBytes == 0);
  static constexpr std::uint32_t kTouchThreadsMax = 16;

  /// Errors are one line that names the size asked for and what there is.
  static Expected<std::unique_ptr<Region>> create(const RegionOptions& options);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] PrimaryView view() const { return view_; }
  [[nodiscard]] std::uint64_t bytes() const { return view_.row_bytes * view_.num_chunks; }
  /// Share of the region that is backed by transparent huge pages now, 0 to 1; reads /proc.
  [[nodiscard]] double huge_page_share() const;
  /// One line for the start-up log: what was asked for and what it got. Reads /proc.
  [[nodiscard]] std::string describe() const;
  /// Where the bytes came to lie, by domain; empty without a placement. Of the start: nothing moves them afterwards.
  [[nodiscard]] const std::vector<PlacedMemory>& placed() const { return placed_; }
  /// How to register the region's bytes as I/O buffers.
  [[nodiscard]] RegistrationPlan registration() const { return registration_plan(view_); }
  /// Shared: what joiners map, and what they read of it; else -1 and nothing.
  [[nodiscard]] int fd() const;
  [[nodiscard]] const RegionRecord* record() const { return shared_ ? &*shared_ : nullptr; }
  /// Of the record; later joiners see it. A WorkerHub does this itself: one of the two, from one thread.
  void set_revision(const std::string& revision);
  /// Has every rank mapped it once?
  [[nodiscard]] bool all_joined() const;
  /// The file's name, where it has one, is gone from here on. Idempotent.
  void remove_name();
  /// Keeps mapping and counts for the rest of the process, because somebody may still write to them;
  /// tells `log` (standard error if empty). Once is enough.
  void leak(const std::function<void(std::string)>& log);

  [[nodiscard]] static std::uint64_t row_bytes(std::uint64_t chunk_bytes) {
    return (chunk_bytes + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  }

 private:
  Region() = default;
  static Expected<std::unique_ptr<Region>> create_private(const RegionOptions& options,
                                                          const std::string& asked);
  static Expected<std::unique_ptr<Region>> create_shared(const RegionOptions& options,
                                                         const std::string& asked);
  static std::optional<OffloadError> memory_error(const RegionOptions& options,
                                                  const std::string& asked);
  /// What both have in common: counts, advice, first touch.
  Expected<Ok> make_resident(const RegionOptions& options, const std::string& asked);
  Expected<Ok> touch(const RegionOptions& options, const std::string& asked);

  PrimaryView view_;
  UniqueFd memory_fd_;
  std::optional<RegionFile> file_;
  MappedMemory mapping_;
  std::optional<RegionRecord> shared_;
  std::string note_;  // how the shared form came out
  std::unique_ptr<std::atomic<std::uint32_t>[]> in_use_;
  bool huge_pages_ = false;
  bool reserve_only_ = false;
  bool leaked_ = false;
  std::uint64_t page_bytes_ = kRowAlignment;  // of the mapping
  std::uint32_t touch_threads_ = 0;
  std::vector<PlacedMemory> placed_;
  std::optional<Duration> touch_time_;
};

}  // namespace kv_offload
