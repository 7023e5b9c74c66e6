#pragma once

#include "kv_offload/messages/monotonic_time.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace kv_offload::bench {

/// Durations by powers of two, each divided into 32 steps: quantiles within 3 %, constant memory however
/// long a run takes. One thread; merge to combine.
class LatencyRecorder {
 public:
  void record(Duration duration) {
    const auto ns = static_cast<std::uint64_t>(std::max<Duration::rep>(duration.count(), 0));
    ++buckets_[bucket_of(ns)];
    ++count_;
    max_ns_ = std::max(max_ns_, ns);
  }
  void merge(const LatencyRecorder& other) {
    for (std::size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    max_ns_ = std::max(max_ns_, other.max_ns_);
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] double max_us() const { return static_cast<double>(max_ns_) / 1e3; }
  /// Upper edge of the step in which `share` of the durations have been counted; 0 when empty.
  [[nodiscard]] double quantile_us(double share) const {
    const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(count_));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      seen += buckets_[i];
      if (seen > wanted || (seen == count_ && count_ > 0))
        return static_cast<double>(std::min(upper_edge_ns(i), max_ns_)) / 1e3;
    }
    return 0;
  }

 private:
  static constexpr std::size_t kStepBits = 5, kSteps = 1U << kStepBits;
  static constexpr std::size_t kBuckets = (64 - kStepBits + 1) * kSteps;

  static std::size_t bucket_of(std::uint64_t ns) {
    if (ns < kSteps) return ns;
    const auto exponent = static_cast<std::size_t>(std::bit_width(ns)) - kStepBits - 1;
    return (exponent + 1) * kSteps + ((ns >> exponent) & (kSteps - 1));
  }
  static std::uint64_t upper_edge_ns(std::size_t bucket) {
    if (bucket < kSteps) return bucket;
    const std::size_t exponent = bucket / kSteps - 1;
    return ((kSteps + bucket % kSteps + 1) << exponent) - 1;
  }

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t max_ns_ = 0;
};

}  // namespace kv_offload::bench
