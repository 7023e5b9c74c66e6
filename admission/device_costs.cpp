#include "kv_offload/admission/device_costs.hpp"

#include <algorithm>
#include <cmath>

namespace kv_offload {
namespace {

constexpr double kWindowS = 0.25;  // several jobs of a tier that is worth having
constexpr double kWindowFades = 1.0 / 512;
constexpr double kSampleWeight = 1.0 / 32;
constexpr double kShows = 0.003;      // of the device's time
constexpr double kAloneRises = 1.01;  // per window without transfers: a device may become slower
constexpr double kExcessFades = 1.0 / 128;
constexpr double kRidge = 1e-4;  // relative: decides between traffics that always come together
constexpr int kSweeps = 24;
constexpr std::uint64_t kFewWindows = 2;
constexpr double kGb = 1e9;        // bytes are fitted in units in which products keep their digits
constexpr double kThousand = 1e3;  // and tokens

double units(std::size_t what) { return what == 0 ? kThousand : what % 3 == 0 ? 1 : kGb; }

}  // namespace

DeviceCosts::DeviceCosts(std::size_t num_tiers, double tokens_per_s)
    : num_tiers_(num_tiers), configured_s_(tokens_per_s > 0 ? 1 / tokens_per_s : 0) {
  const std::size_t n = 1 + 3 * num_tiers;
  for (auto* sums : {&fitted_, &against_, &seen_, &seen_s_, &window_}) sums->assign(n, 0);
  gram_.assign(n * n, 0);
  written_windows_.assign(num_tiers, 0);
}

void DeviceCosts::add(const ComputeSample& sample, MonotonicTime now) {
  const double busy = to_seconds(sample.busy);
  // Samples of no length belong to the one before.
  if (busy > 0 && window_s_ > 0 && (window_s_ >= kWindowS || window_alone_ != sample.alone))
    close_window();
  window_s_ += busy;
  window_alone_ = (window_alone_ || window_s_ <= busy) && sample.alone;
  window_[kTokens] += static_cast<double>(sample.tokens) / kThousand;
  for (std::size_t t = 0; t < num_tiers_ && t < sample.moved.size(); ++t) {
    window_[written_of(t)] += static_cast<double>(sample.moved[t].written_bytes) / kGb;
    window_[read_of(t)] += static_cast<double>(sample.moved[t].read_bytes) / kGb;
    window_[probed_of(t)] += sample.moved[t].probe_s;
  }
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
  for (std::size_t t = 0; t < num_tiers_; ++t)
    written_windows_[t] += window_[written_of(t)] > 0 ? 1 : 0;
  double gb = 0;
  for (std::size_t a = 1; a < n; ++a) gb += a % 3 != 0 ? window_[a] : 0;
  if (window_alone_ && window_[kTokens] > 0) {
    const double each = window_s_ / window_[kTokens];
    ++alone_windows_;
    alone_ = alone_ <= 0 ? each : std::min(each, alone_ * kAloneRises);
  }
  fit();
  double explained = 0;
  for (std::size_t a = 1; a < n; ++a) explained += fitted_[a] * window_[a];
  // How much it was stays known while nothing is moved.
  if (gb > 0)
    for (double* sum : {&excess_s_, &explained_s_, &moved_s_, &moved_gb_}) *sum *= 1 - kExcessFades;
  excess_s_ += window_s_ - fitted_[kTokens] * window_[kTokens];
  explained_s_ += explained;
  moved_s_ += gb > 0 ? window_s_ : 0;
  moved_gb_ += gb;
  window_.assign(n, 0);
  window_s_ = 0;
  window_alone_ = true;
}

/// Coordinate descent, from where the last window left it.
void DeviceCosts::fit() {
  const std::size_t n = fitted_.size();
  const double known = anchor();
  if (known > 0) fitted_[kTokens] = known;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t a = known > 0 ? 1 : 0; a < n; ++a) {
      const double own = gram(a, a) * (1 + (a == kTokens ? 0 : kRidge));
      if (own <= 0) continue;
      double rest = against_[a];
      for (std::size_t b = 0; b < n; ++b)
        if (b != a) rest -= gram(a, b) * fitted_[b];
      fitted_[a] = std::max(0.0, rest / own);
    }
  }
}

double DeviceCosts::anchor() const {
  if (configured_s_ > 0) return configured_s_ * kThousand;
  return alone_;
}

double DeviceCosts::unexplained_per_gb() const {
  const double rest = excess_s_ - explained_s_;
  return anchor() > 0 && moved_gb_ > 0 && rest > kShows * moved_s_ ? rest / moved_gb_ : 0;
}

double DeviceCosts::token_s() const {
  if (configured_s_ > 0) return configured_s_;
  return windows_ < kFewWindows ? 0 : fitted_[kTokens] / kThousand;
}

double DeviceCosts::cost(std::size_t what) const {
  if (windows_ < kFewWindows || seen_s_[what] <= 0) return 0;
  const double each = fitted_[what] + (what % 3 != 0 ? unexplained_per_gb() : 0);
  return each * seen_[what] < kShows * seen_s_[what] ? 0 : each / units(what);
}

double DeviceCosts::saved_second() const {
  if (elapsed_s_ <= 0) return 1;
  const double busy = std::min(1.0, busy_s_ / elapsed_s_), live = std::max(1.0, live_);
  // A queue in front of one server: a second saved saves each of its prompts 1 / (1 - busy)² seconds, and a second that
  // the device stands still costs all of the live ones one. More than the time in which it computes is never saved.
  const double idle = std::max(1 - busy, 1e-6);
  return std::max(1 / live, std::min(busy, 1 / (live * idle * idle)));
}

}  // namespace kv_offload
