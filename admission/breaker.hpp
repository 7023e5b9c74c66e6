#pragma once

#include "kv_offload/messages/monotonic_time.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace kv_offload {

enum class BreakerState : std::uint8_t {
  closed,     ///< everything passes
  half_open,  ///< a few probes pass; they decide
  open,       ///< nothing passes
};
constexpr std::string_view to_string(BreakerState s) {
  return s == BreakerState::closed ? "closed" : s == BreakerState::half_open ? "half_open" : "open";
}

/// No published system names such numbers: ours, small enough to act within a second of a dead
/// disk's errors and large enough that one bad file in ten does nothing.
struct BreakerOptions {
  double error_rate = 0.5;            ///< (0, 1]: share of failures in the window that opens
  std::uint32_t window = 20;          ///< completions looked back on
  std::uint32_t min_completions = 5;  ///< fewer than these never open
  double open_s = 1.0;                ///< until the first probe
  double max_open_s = 60.0;           ///< each failed probe doubles the wait, up to this
  std::uint32_t half_open_jobs = 2;   ///< most probes in flight
  std::uint32_t close_after = 3;      ///< probes in a row that must succeed
};

/// The breaker of one direction of one tier: a state machine on successes and failures. The end of
/// a wait is a function of time, so every reader sees it and the const functions change nothing.
/// Value type; memory is the window.
class Breaker {
 public:
  explicit Breaker(const BreakerOptions& options) : options_(options) {}

  [[nodiscard]] BreakerState state(MonotonicTime now) const {
    if (!is_open_) return BreakerState::closed;
    return now - opened_at_ >= wait_ ? BreakerState::half_open : BreakerState::open;
  }
  [[nodiscard]] bool admits(std::uint32_t probes_in_flight, MonotonicTime now) const {
    const BreakerState s = state(now);
    return s == BreakerState::closed ||
           (s == BreakerState::half_open && probes_in_flight < options_.half_open_jobs);
  }
  /// Names the opening that a probe admitted now belongs to: its result counts for no later one.
  [[nodiscard]] std::uint64_t episode() const { return openings_; }

  /// A job that is no probe ended. What was admitted before an opening says nothing after it.
  void on_result(bool success, MonotonicTime now);
  /// A probe of `episode` ended.
  void on_probe_result(std::uint64_t episode, bool success, MonotonicTime now);

  [[nodiscard]] double error_rate() const;
  [[nodiscard]] std::uint32_t completions() const { return static_cast<std::uint32_t>(size_); }
  [[nodiscard]] std::uint64_t openings() const { return openings_; }
  [[nodiscard]] double wait_s() const { return to_seconds(wait_); }
  [[nodiscard]] const BreakerOptions& options() const { return options_; }

 private:
  void open(MonotonicTime now);
  void close();

  BreakerOptions options_;
  std::vector<bool> failed_;  // ring of the last results, options_.window at most
  std::size_t next_ = 0;
  std::size_t size_ = 0;
  std::size_t failures_ = 0;
  bool is_open_ = false;
  std::uint32_t probe_successes_ = 0;
  std::uint32_t failed_probes_ = 0;  // since the breaker was closed last
  std::uint64_t openings_ = 0;
  MonotonicTime opened_at_;
  Duration wait_{};
};

}  // namespace kv_offload
