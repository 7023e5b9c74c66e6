#include "kv_offload/tiers/io/inflight_cap.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace kv_offload {

namespace {

/// One or two requests of this size fill a local disk; below it small chunks would lose throughput.
constexpr std::uint64_t kLeastBytes = 512U << 10;
constexpr std::uint32_t kRoundCompletions = 16;
constexpr double kGrowBelow = 2.5, kShrinkAbove = 4;
constexpr auto kMeasureEvery = std::chrono::seconds(10);

}  // namespace

InflightCap::InflightCap(std::uint64_t chunk_bytes, std::uint64_t most)
    : most_(most), least_(std::min(most, std::max(kLeastBytes, chunk_bytes))), learned_(most) {}

void InflightCap::completed(std::uint64_t bytes, std::uint64_t in_flight, Duration latency,
                            MonotonicTime now) {
  if (skip_bytes_ > 0) {
    skip_bytes_ -= std::min(skip_bytes_, bytes);
    return;
  }
  if (2 * in_flight < this->bytes()) return;
  round_bytes_ += bytes;
  ++round_count_;
  round_s_ += to_seconds(latency);
  if (round_count_ >= kRoundCompletions && round_bytes_ >= this->bytes()) end_round(now);
}

void InflightCap::end_round(MonotonicTime now) {
  const double mean_s = round_s_ / round_count_;
  round_bytes_ = 0;
  round_count_ = 0;
  round_s_ = 0;
  if (is_measuring_) {
    base_s_ = mean_s;
    measured_at_ = now;
    is_measuring_ = false;
    if (!std::exchange(knows_base_, true)) learned_ = least_;
    return;
  }
  const std::uint64_t before = learned_;
  if (now - measured_at_ >= kMeasureEvery) {
    is_measuring_ = true;
  } else if (mean_s < kGrowBelow * base_s_) {
    learned_ = std::min(most_, learned_ + (may_double_ ? learned_ : learned_ / 8));
  } else {
    may_double_ = false;
    if (mean_s > kShrinkAbove * base_s_) learned_ = std::max(least_, learned_ - learned_ / 5);
  }
  if (bytes() != before) skip_bytes_ = before;
}

}  // namespace kv_offload
