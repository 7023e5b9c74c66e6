#include "kv_offload/admission/device_costs.hpp"

#include <algorithm>
#include <cmath>

namespace kv_offload {
namespace {

constexpr double kWindowS = 0.25;         // several jobs of a tier that is worth having
constexpr double kWindowFades = 1.0 / 512;
constexpr double kSampleWeight = 1.0 / 32;
constexpr double kShows = 0.005;          // of the device's time
constexpr double kRidge = 1e-4;           // relative: decides between traffics that always come together
constexpr int kSweeps = 24;
constexpr std::uint64_t kFewWindows = 2;
constexpr double kGb = 1e9;               // bytes are fitted in units in which products keep their digits
constexpr double kThousand = 1e3;         // and tokens

double units(std::size_t what) { return what == 0 ? kThousand : what % 3 == 0 ? 1 : kGb; }

}  // namespace

DeviceCosts::DeviceCosts(std::size_t num_tiers, double tokens_per_s)
    : num_tiers_(num_tiers), configured_s_(tokens_per_s > 0 ? 1 / tokens_per_s : 0) {
  const std::size_t n = 1 + 3 * num_tiers;
  for (auto* sums : {&fitted_, &against_, &seen_, &seen_s_, &window_}) sums->assign(n, 0);
  gram_.assign(n * n, 0);
}

void DeviceCosts::add(const ComputeSample& sample, MonotonicTime now) {
  const double busy = to_seconds(sample.busy);
  if (busy > 0 && window_s_ >= kWindowS) close_window();  // samples of no length belong to the one before
  window_s_ += busy;
  window_[kTokens] += static_cast<double>(sample.tokens) / kThousand;
  for (std::size_t t = 0; t < num_tiers_ && t < sample.moved.size(); ++t) {
    window_[written_of(t)] += static_cast<double>(sample.moved[t].written_bytes) / kGb;
    window_[read_of(t)] += static_cast<double>(sample.moved[t].read_bytes) / kGb;
    window_[probed_of(t)] += sample.moved[t].probe_s;
  }
  busy_total_s_ += busy;
  if (busy <= 0) return;
  const double elapsed = last_ == MonotonicTime{} ? busy : std::max(busy, to_seconds(now - last_));
  last_ = now;
  busy_s_ += kSampleWeight * (busy - busy_s_);
  elapsed_s_ += kSampleWeight * (elapsed - elapsed_s_);
  live_ += kSampleWeight * (sample.live - live_);
  wait_s_ += kSampleWeight * (to_seconds(sample.waited) - wait_s_);
}

void DeviceCosts::close_window() {
  const std::size_t n = fitted_.size();
  for (double& sum : gram_) sum *= 1 - kWindowFades;
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) gram(a, b) += window_[a] * window_[b];
    against_[a] = against_[a] * (1 - kWindowFades) + window_[a] * window_s_;
    if (window_[a] <= 0) continue;  // how much it showed stays known while it rests
    seen_[a] = seen_[a] * (1 - kWindowFades) + window_[a];
    seen_s_[a] = seen_s_[a] * (1 - kWindowFades) + window_s_;
  }
  ++windows_;
  fit();
  window_.assign(n, 0);
  window_s_ = 0;
}

/// Coordinate descent, from where the last window left it.
void DeviceCosts::fit() {
  const std::size_t n = fitted_.size();
  if (configured_s_ > 0) fitted_[kTokens] = configured_s_ * kThousand;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t a = configured_s_ > 0 ? 1 : 0; a < n; ++a) {
      const double own = gram(a, a) * (1 + (a == kTokens ? 0 : kRidge));
      if (own <= 0) continue;
      double rest = against_[a];
      for (std::size_t b = 0; b < n; ++b)
        if (b != a) rest -= gram(a, b) * fitted_[b];
      fitted_[a] = std::max(0.0, rest / own);
    }
  }
}

double DeviceCosts::token_s() const {
  if (configured_s_ > 0) return configured_s_;
  return windows_ < kFewWindows ? 0 : fitted_[kTokens] / kThousand;
}

double DeviceCosts::cost(std::size_t what) const {
  if (windows_ < kFewWindows || seen_s_[what] <= 0) return 0;
  return fitted_[what] * seen_[what] < kShows * seen_s_[what] ? 0 : fitted_[what] / units(what);
}

double DeviceCosts::saved_second() const {
  if (elapsed_s_ <= 0) return 1;
  const double busy = std::min(1.0, busy_s_ / elapsed_s_);
  return busy + (1 - busy) / std::max(1.0, live_);
}

}  // namespace kv_offload
