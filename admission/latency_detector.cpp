#include "kv_offload/admission/latency_detector.hpp"

#include <algorithm>
#include <cmath>

namespace kv_offload {
namespace {

// Ten times a share of 0.1 must add up to one refusal although 0.1 has no exact binary form.
constexpr double kCreditRounding = 1e-9;

}  // namespace

LatencyDetectorOptions wall_clock_defaults() {
  LatencyDetectorOptions options;
  options.high_water = 1.0;
  options.low_water = 0.5;
  options.alpha = 0.3;
  options.warmup_completions = 3;
  options.decay_half_life_s = 2.0;
  options.seed = WarmupSeed::zero;
  options.response = PressureResponse::drop;
  options.ramp_factor = 2.0;
  return options;
}

LatencyDetectorOptions per_mib_defaults(const TierTraits& tier) {
  const bool network = tier.type == "obj" || (tier.locality && *tier.locality == Locality::remote);
  LatencyDetectorOptions options;
  options.high_water = network ? 0.050 : 0.010;  // about 20 and 100 MiB/s
  options.low_water = network ? 0.010 : 0.002;   // about 100 and 500 MiB/s
  options.preset = network ? "network" : "local";
  options.alpha = 0.15;
  options.warmup_completions = 10;
  options.decay_half_life_s = 2.0;
  options.cooldown_s = 1.0;
  options.seed = WarmupSeed::mean;
  options.response = PressureResponse::throttled;
  options.ramp_factor = 2.0;
  return options;
}

double throttled_drop_share(double average, double high_water, double ramp_factor) {
  if (high_water <= 0) return 1.0;
  const double overshoot = std::max(0.0, average - high_water) / high_water;
  return std::min(1.0, overshoot / ramp_factor);
}

void LatencyDetector::add_sample(double latency, MonotonicTime now) {
  state_ = at(now);
  ++state_.completions;
  state_.updated_at = std::max(state_.updated_at, now);
  const std::uint64_t warmup = options_.warmup_completions;
  if (options_.seed == WarmupSeed::mean && state_.completions <= warmup) {
    state_.warmup_sum += latency;
    if (state_.completions == warmup)
      state_.average = state_.warmup_sum / static_cast<double>(warmup);
    return;
  }
  state_.average = options_.alpha * latency + (1 - options_.alpha) * state_.average;
  if (state_.completions >= warmup) compare_with_marks(state_, now);
}

void LatencyDetector::compare_with_marks(State& state, MonotonicTime now) const {
  if (state.average > options_.high_water) {
    state.pressured = true;
    state.healthy_streak = 0;
  } else if (state.average < options_.low_water) {
    if (state.pressured) {
      state.cleared_at = now;
      state.cooldown_candidates = 0;
    }
    state.pressured = false;
    if (state.healthy_streak < kHealthyStreak) ++state.healthy_streak;
  } else {
    state.healthy_streak = 0;
  }
}

LatencyDetector::State LatencyDetector::at(MonotonicTime now) const {
  State state = state_;
  if (!state.pressured || options_.decay_half_life_s <= 0 || now <= state.updated_at) return state;
  const double idle_s = to_seconds(now - state.updated_at);
  const double decayed = state.average * std::exp2(-idle_s / options_.decay_half_life_s);
  if (decayed >= options_.low_water) {
    state.average = decayed;
    state.updated_at = now;
    return state;
  }
  // Pressure ended on the way, at the moment the average met the low mark; nothing decays after it.
  const double until_low_s =
      options_.decay_half_life_s * std::log2(state.average / options_.low_water);
  state.updated_at = std::min(now, state.updated_at + from_seconds(until_low_s));
  state.average = options_.low_water;
  state.pressured = false;
  state.cleared_at = state.updated_at;
  state.cooldown_candidates = 0;
  return state;
}

bool LatencyDetector::is_healthy(const State& state) const {
  return !state.pressured && state.healthy_streak >= kHealthyStreak;
}

bool LatencyDetector::is_cooling_down(const State& state, MonotonicTime now) const {
  return !state.pressured && state.cleared_at &&
         to_seconds(now - *state.cleared_at) < options_.cooldown_s;
}

double LatencyDetector::drop_share(const State& state) const {
  if (!state.pressured) return 0;
  if (options_.response == PressureResponse::drop) return 1;
  return throttled_drop_share(state.average, options_.high_water, options_.ramp_factor);
}

bool LatencyDetector::should_store(MonotonicTime now) const {
  const State state = at(now);
  if (is_healthy(state)) return true;
  // Every second candidate is refused: the first passes.
  if (is_cooling_down(state, now)) return state.cooldown_candidates % 2 == 0;
  const double share = drop_share(state);
  return share < 1 && (share <= 0 || state.drop_credit + share < 1 - kCreditRounding);
}

void LatencyDetector::on_stored(MonotonicTime now) {
  state_ = at(now);
  if (is_healthy(state_)) return;
  if (is_cooling_down(state_, now)) {
    ++state_.cooldown_candidates;
    return;
  }
  const double share = drop_share(state_);
  if (share < 1) state_.drop_credit += share;
}

void LatencyDetector::on_dropped(std::uint32_t chunks, MonotonicTime now) {
  state_ = at(now);
  ++stores_dropped_;
  chunks_dropped_ += chunks;
  if (is_cooling_down(state_, now)) {
    ++state_.cooldown_candidates;
    return;
  }
  const double share = drop_share(state_);
  // Where everything is refused no fraction is owed: the first candidate after that passes.
  state_.drop_credit = share < 1 ? std::max(0.0, state_.drop_credit + share - 1) : 0.0;
}

}  // namespace kv_offload
