#pragma once

#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/messages/tier_traits.hpp"

#include <cstdint>
#include <optional>

namespace kv_offload {

/// How the moving average starts.
enum class WarmupSeed : std::uint8_t {
  zero,  ///< from 0, every sample moves it, compared from the warm-up's last sample on
  mean,  ///< set to the mean of the warm-up's samples, compared from the sample after it on
};

/// What pressure does to cascades.
enum class PressureResponse : std::uint8_t {
  drop,       ///< all are refused
  throttled,  ///< a share that grows with the overshoot is refused
};

/// Marks are in the unit of the samples: seconds, or seconds per MiB.
struct LatencyDetectorOptions {
  double high_water = 0;
  double low_water = 0;  ///< above 0: pressure clears below it
  double alpha = 0;      ///< weight of a new sample, (0, 1]
  std::uint32_t warmup_completions = 0;
  double decay_half_life_s = 0;  ///< 0 or less: no decay
  double cooldown_s = 0;         ///< 0: none
  double ramp_factor = 0;        ///< throttled: overshoot at which everything is refused
  WarmupSeed seed = WarmupSeed::zero;
  PressureResponse response = PressureResponse::drop;
  const char* preset = "";  ///< which default marks these are, for people: "local" or "network"
};

/// Time from admission to the end of the I/O, lane queue included, in seconds.
LatencyDetectorOptions wall_clock_defaults();
/// The same time per MiB moved. Object stores and remote tiers get wider marks than local disks.
LatencyDetectorOptions per_mib_defaults(const TierTraits& tier);

/// Share of cascades to refuse at `average`: 0 at the high mark, 1 at (1 + ramp) times it.
double throttled_drop_share(double average, double high_water, double ramp_factor);

/// Pressure of one tier: moving average (EMA) of store latency with hysteresis. While a tier is
/// pressured the average decays with time, because one that gets no stores completes none and would
/// stay pressured for ever. Decay is a function of time: every reader sees the same value and
/// the const functions change nothing.
///
/// Value type with O(1) state, no clock. Times must not go back between calls; one that does counts
/// as no time passed.
class LatencyDetector {
 public:
  /// Completions below the low mark in a row after which a cooldown no longer applies.
  static constexpr std::uint32_t kHealthyStreak = 10;

  explicit LatencyDetector(const LatencyDetectorOptions& options) : options_(options) {}

  /// Latency of one successful store, in the unit of the marks.
  void add_sample(double latency, MonotonicTime now);

  /// May the next cascade pass? Pure.
  [[nodiscard]] bool should_store(MonotonicTime now) const;
  /// A cascade passed every gate.
  void on_stored(MonotonicTime now);
  /// A cascade of `chunks` chunks was refused by this detector.
  void on_dropped(std::uint32_t chunks, MonotonicTime now);

  [[nodiscard]] double average(MonotonicTime now) const { return at(now).average; }
  [[nodiscard]] bool is_under_pressure(MonotonicTime now) const { return at(now).pressured; }
  [[nodiscard]] std::uint64_t stores_dropped() const { return stores_dropped_; }
  [[nodiscard]] std::uint64_t chunks_dropped() const { return chunks_dropped_; }
  [[nodiscard]] const LatencyDetectorOptions& options() const { return options_; }

 private:
  struct State {
    double average = 0;
    double warmup_sum = 0;
    double drop_credit = 0;  ///< in [0, 1): refusals that the share has earned
    MonotonicTime updated_at;
    std::optional<MonotonicTime> cleared_at;  ///< end of the last pressure that ended
    std::uint64_t completions = 0;
    std::uint32_t healthy_streak = 0;
    std::uint32_t cooldown_candidates = 0;
    bool pressured = false;
  };

  [[nodiscard]] State at(MonotonicTime now) const;
  [[nodiscard]] bool is_healthy(const State& state) const;
  [[nodiscard]] bool is_cooling_down(const State& state, MonotonicTime now) const;
  [[nodiscard]] double drop_share(const State& state) const;
  void compare_with_marks(State& state, MonotonicTime now) const;

  LatencyDetectorOptions options_;
  State state_;
  std::uint64_t stores_dropped_ = 0;
  std::uint64_t chunks_dropped_ = 0;
};

}  // namespace kv_offload
