#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/tiers/primary/registration_plan.hpp"
#include "kv_offload/tiers/primary_view.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace kv_offload {

struct RegionOptions {
  ChunkId num_chunks = 0;
  std::uint64_t chunk_bytes = 0;  ///< payload of a row
  std::uint32_t threads = 4;      ///< that touch the pages at the start; at most kTouchThreadsMax
  bool huge_pages = true;         ///< ask for transparent huge pages
  /// Times the first touch for describe(); may be empty.
  std::function<MonotonicTime()> now = {};
  /// What is available, instead of asking the system.
  std::optional<std::uint64_t> available_bytes = std::nullopt;
};

/// The memory of a primary tier: one private anonymous mapping, 2 MiB aligned, every page touched before
/// the first chunk arrives. A row is the chunk's payload rounded up to 4096 bytes; the padding is zero,
/// because the kernel hands out zeroed pages and nobody writes behind a payload.
///
/// Created and destroyed by the engine, outside its actors; blocks while pages are touched. The mapping
/// must outlive every lane: after a lane that never returned call `leak()` before destroying it.
class Region {
 public:
  static constexpr std::uint64_t kRowAlignment = 4096;  // direct I/O and pages
  static constexpr std::uint64_t kHugePageBytes = 2 * 1024 * 1024;
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
  /// How to register the region's bytes as I/O buffers.
  [[nodiscard]] RegistrationPlan registration() const { return registration_plan(view_); }
  /// Keeps mapping and counts for the rest of the process, because somebody may still write to them;
  /// tells `log` (standard error if empty). Once is enough.
  void leak(const std::function<void(std::string)>& log);

  [[nodiscard]] static std::uint64_t row_bytes(std::uint64_t chunk_bytes) {
    return (chunk_bytes + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  }

 private:
  Region() = default;

  PrimaryView view_;
  std::uint64_t mapped_bytes_ = 0;
  std::unique_ptr<std::atomic<std::uint32_t>[]> in_use_;
  bool huge_pages_ = false;
  bool leaked_ = false;
  std::uint32_t touch_threads_ = 0;
  std::optional<Duration> touch_time_;
};

}  // namespace kv_offload
