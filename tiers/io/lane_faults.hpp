#pragma once

#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/tiers/tier_faults.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

namespace kv_offload {

/// What a tier's fault switches mean for its lane's transfers; counts the "every n-th". Lane thread.
/// Without switches each question is one null check.
class LaneFaults {
 public:
  explicit LaneFaults(std::shared_ptr<TierFaults> switches) : switches_(std::move(switches)) {}

  [[nodiscard]] bool kills_lane() const { return switches_ && switches_->kill_lane.load(); }
  [[nodiscard]] bool hangs() const { return switches_ && switches_->hang.load(); }

  /// errno that replaces the result of the transfer being started; 0: none.
  int error_of_next(bool is_load) {
    if (!switches_) return 0;
    if (is_load) return is_nth(++loads_, switches_->load_error_every.load()) ? EIO : 0;
    if (switches_->full.load()) return ENOSPC;
    return is_nth(++stores_, switches_->store_error_every.load()) ? EIO : 0;
  }
  /// Whether the store being started has a byte flipped on its way to the device.
  bool corrupts_next_store() {
    return switches_ && is_nth(++chunks_stored_, switches_->corrupt_every.load());
  }

  /// When a transfer that ran from `started` to `finished` may be reported, by the switches as they are
  /// now: what is held is asked about again, so that a lifted fault lets go at once.
  [[nodiscard]] MonotonicTime due(MonotonicTime started, MonotonicTime finished) const {
    if (!switches_) return finished;
    const double factor = switches_->slow_factor.load();
    const Duration delay = std::chrono::microseconds(switches_->delay_us.load());
    if (factor <= 1.0) return finished + delay;
    const Duration measured = std::min<Duration>(finished - started, kMeasuredMax);
    const Duration real = std::max(measured, kMeasuredMin);
    return finished + std::chrono::duration_cast<Duration>(real * factor) - measured + delay;
  }

 private:
  /// A transfer served from a cache takes almost nothing; slowing it down must still be visible.
  static constexpr Duration kMeasuredMin = std::chrono::microseconds(200);
  /// Beyond it the time was the lane's, which did not get the processor, and not the device's: no chunk
  /// takes longer on a device worth slowing down. Stalls are not to be multiplied.
  static constexpr Duration kMeasuredMax = std::chrono::milliseconds(50);

  static bool is_nth(std::uint64_t count, std::uint32_t n) { return n != 0 && count % n == 0; }

  std::shared_ptr<TierFaults> switches_;
  std::uint64_t loads_ = 0;
  std::uint64_t stores_ = 0;
  std::uint64_t chunks_stored_ = 0;
};

}  // namespace kv_offload
