#pragma once

#include "kv_offload/messages/monotonic_time.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace kv_offload {

/// Bytes a second that somebody ends while he has something to do, over the last seconds of doing. A function of time:
/// the rate of who ends nothing falls by itself. Plain state.
class BusyRate {
 public:
  /// `half_life_s`: of being busy, after which what was seen counts half.
  explicit BusyRate(double half_life_s) : half_life_s_(half_life_s) {}

  void begin(std::uint64_t things, MonotonicTime now) {
    *this = at(now);
    under_way_ += things;
  }
  /// `bytes`: 0 of those that failed or were withdrawn.
  void end(std::uint64_t things, std::uint64_t bytes, MonotonicTime now) {
    *this = at(now);
    under_way_ -= std::min(under_way_, things);
    ended_bytes_ += static_cast<double>(bytes);
  }

  [[nodiscard]] std::uint64_t under_way() const { return under_way_; }
  /// Bytes a second; 0: nothing has ended yet.
  [[nodiscard]] double rate(MonotonicTime now) const {
    const BusyRate r = at(now);
    return r.faded_busy_s_ > 0 ? r.ended_bytes_ / r.faded_busy_s_ : 0;
  }
  /// Seconds in which something was under way, ever, and of late as the rate counts them.
  [[nodiscard]] double busy_s(MonotonicTime now) const { return at(now).busy_s_; }
  [[nodiscard]] double faded_busy_s(MonotonicTime now) const { return at(now).faded_busy_s_; }

 private:
  [[nodiscard]] BusyRate at(MonotonicTime now) const {
    BusyRate r = *this;
    const double passed =
        updated_at_ == MonotonicTime{} ? 0 : std::max(0.0, to_seconds(now - updated_at_));
    r.updated_at_ = std::max(updated_at_, now);
    if (under_way_ == 0 || passed <= 0) return r;
    const double fades = std::exp2(-passed / half_life_s_);
    r.busy_s_ += passed;
    r.ended_bytes_ *= fades;
    r.faded_busy_s_ = faded_busy_s_ * fades + half_life_s_ / std::log(2.0) * (1 - fades);
    return r;
  }

  double half_life_s_;
  std::uint64_t under_way_ = 0;
  double busy_s_ = 0, ended_bytes_ = 0, faded_busy_s_ = 0;
  MonotonicTime updated_at_{};
};

}  // namespace kv_offload
