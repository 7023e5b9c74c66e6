#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace kv_offload {

/// Share of a slow tier's claims that were worth a load: a moving average of verdicts, 1 paid, 0
/// not. It starts at 1, so a tier is believed in until it has disappointed. Value type.
class PayoffEstimate {
 public:
  explicit PayoffEstimate(double alpha) : alpha_(alpha) {}

  void add(bool paid) {
    value_ += alpha_ * ((paid ? 1.0 : 0.0) - value_);
    ++samples_;
  }
  /// `samples` verdicts of which `paid` paid, in one step: exactly the average after `samples`
  /// equal ones of value paid/samples. The order of verdicts inside one tally carries no meaning.
  void fold(std::uint64_t samples, std::uint64_t paid) {
    if (samples == 0) return;
    const auto n = static_cast<double>(samples);
    const double rate = static_cast<double>(std::min(paid, samples)) / n;
    const double kept = std::pow(1 - alpha_, n);
    value_ = value_ * kept + rate * (1 - kept);
    samples_ += samples;
  }

  [[nodiscard]] double value() const { return value_; }
  [[nodiscard]] std::uint64_t samples() const { return samples_; }

 private:
  double alpha_;
  double value_ = 1;
  std::uint64_t samples_ = 0;
};

/// Share of stores to admit: all while the payoff reaches the target, below it in proportion, never
/// less than the floor. The floor comes after the division and the cap last.
inline double payoff_share(double payoff, double target, double floor) {
  const double share = target <= 0 ? 1.0 : payoff / target;
  return std::min(1.0, std::max(floor, share));
}

}  // namespace kv_offload
