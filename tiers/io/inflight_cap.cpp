#include "kv_offload/tiers/io/inflight_cap.hpp"

#include <algorithm>
#include <chrono>

namespace kv_offload {

namespace {

/// One or two requests of this size fill a local disk; below it small chunks would lose throughput.
constexpr std::uint64_t kLeastBytes = 512U << 10;
constexpr std::uint32_t kRoundCompletions = 16;
constexpr double kGrowBelow = 2.5, kShrinkAbove = 4;
constexpr auto kMeasureEvery = std::chrono::seconds(10);

}  // namespace

InflightCap::InflightCap(std::uint64_t chunk_bytes, std::uint64_t most)
    : most_(most),
      least_(std::min(most, std::max(kLeastBytes, chunk_bytes))),
      cap_(least_),
      resume_at_(least_) {}

void InflightCap::completed(std::uint64_t bytes, Duration latency, MonotonicTime now) {
  if (skip_bytes_ > 0) {
    skip_bytes_ -= std::min(skip_bytes_, bytes);
    return;
  }
  round_bytes_ += bytes;
  ++round_count_;
  round_s_ += to_seconds(latency);
  if (round_count_ >= kRoundCompletions && round_bytes_ >= cap_) end_round(now);
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
    cap_ = resume_at_;
    return;
  }
  if (now - measured_at_ >= kMeasureEvery) {
    is_measuring_ = true;
    resume_at_ = cap_;
    skip_bytes_ = cap_;
    cap_ = least_;
    return;
  }
  const std::uint64_t before = cap_;
  if (mean_s < kGrowBelow * base_s_) {
    cap_ = std::min(most_, cap_ + (may_double_ ? cap_ : cap_ / 8));
  } else {
    may_double_ = false;
    if (mean_s > kShrinkAbove * base_s_) cap_ = std::max(least_, cap_ - cap_ / 5);
  }
  if (cap_ != before) skip_bytes_ = before;
}

}  // namespace kv_offload
