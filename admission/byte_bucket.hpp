#pragma once

#include "kv_offload/messages/monotonic_time.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

namespace kv_offload {

inline constexpr double kSecondsPerDay = 86400;

/// Bytes that may be written: refilled by time, never more than `peak_bytes` at once. The refill is
/// the day's bytes less one peak, so that no 24 hours, wherever they begin, see more than
/// `bytes_per_day`. Starts full. Value type; a time that goes back counts as no time passed.
class ByteBucket {
 public:
  ByteBucket(std::uint64_t bytes_per_day, std::uint64_t peak_bytes)
      : peak_(static_cast<double>(peak_bytes)),
        per_second_((static_cast<double>(bytes_per_day) - peak_) / kSecondsPerDay),
        tokens_(peak_) {}

  [[nodiscard]] double tokens(MonotonicTime now) const {
    if (!updated_at_ || now <= *updated_at_) return tokens_;
    return std::min(peak_, tokens_ + per_second_ * to_seconds(now - *updated_at_));
  }
  [[nodiscard]] bool has(std::uint64_t bytes, MonotonicTime now) const {
    return tokens(now) + kRounding >= static_cast<double>(bytes);
  }
  void take(std::uint64_t bytes, MonotonicTime now) {
    set(tokens(now) - static_cast<double>(bytes), now);
  }
  void give_back(std::uint64_t bytes, MonotonicTime now) {
    set(tokens(now) + static_cast<double>(bytes), now);
  }
  /// The bytes left in an earlier life, `away_s` seconds ago.
  void restore(double tokens, double away_s, MonotonicTime now) {
    set(tokens + per_second_ * std::max(0.0, away_s), now);
  }
  /// Seconds until `bytes` are there; infinite if they never fit.
  [[nodiscard]] double seconds_until(std::uint64_t bytes, MonotonicTime now) const {
    if (has(bytes, now)) return 0;
    if (static_cast<double>(bytes) > peak_ || per_second_ <= 0)
      return std::numeric_limits<double>::infinity();
    return (static_cast<double>(bytes) - tokens(now)) / per_second_;
  }
  [[nodiscard]] double peak() const { return peak_; }
  [[nodiscard]] double bytes_per_second() const { return per_second_; }

 private:
  // Sums of refills have no exact form; what is granted too early stays owed.
  static constexpr double kRounding = 0.5;

  void set(double tokens, MonotonicTime now) {
    tokens_ = std::min(peak_, tokens);
    updated_at_ = updated_at_ ? std::max(*updated_at_, now) : now;
  }

  double peak_;
  double per_second_;
  double tokens_;
  std::optional<MonotonicTime> updated_at_;
};

}  // namespace kv_offload
