#pragma once

#include "kv_offload/messages/monotonic_time.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

namespace kv_offload {

/// Events per second over about the last minute, old ones fading out: what turns a constant that
/// counts events into seconds. For display only; nothing is decided by it.
class EventRate {
 public:
  static constexpr double kMemorySeconds = 60;  // an operator looks at minutes

  void add(std::uint64_t events, MonotonicTime now) {
    if (!first_) first_ = last_ = now;
    weight_ = weight_at(now) + static_cast<double>(events);
    last_ = std::max(last_, now);
  }
  [[nodiscard]] double per_second(MonotonicTime now) const {
    if (!first_) return 0;
    // What could have been seen since the first event; a second at least, or one event is a flood.
    const double seen_s = std::max(1.0, to_seconds(std::max(now, last_) - *first_));
    return weight_at(now) / (kMemorySeconds * (1 - std::exp(-seen_s / kMemorySeconds)));
  }

 private:
  [[nodiscard]] double weight_at(MonotonicTime now) const {
    return now <= last_ ? weight_ : weight_ * std::exp(-to_seconds(now - last_) / kMemorySeconds);
  }

  double weight_ = 0;
  std::optional<MonotonicTime> first_;
  MonotonicTime last_;
};

}  // namespace kv_offload
