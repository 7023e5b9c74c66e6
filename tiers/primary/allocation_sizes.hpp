#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kv_offload {

/// Histogram of how many chunks a reservation asked for, whether or not it got them.
class AllocationSizes {
 public:
  /// Upper bounds (inclusive) of the buckets, as the public metric has them; +Inf is `count`.
  static constexpr std::array<std::uint64_t, 10> kBuckets = {1,    4,    16,    64,    256,
                                                             1024, 4096, 16384, 65536, 262144};

  void add(std::uint64_t size, std::uint64_t times = 1) {
    for (std::size_t i = 0; i < kBuckets.size(); ++i)
      if (size <= kBuckets[i]) cumulative_[i] += times;
    count_ += times;
    sum_ += size * times;
  }

  /// Samples at or below each bound.
  [[nodiscard]] const std::array<std::uint64_t, 10>& cumulative() const { return cumulative_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t sum() const { return sum_; }

  friend bool operator==(const AllocationSizes&, const AllocationSizes&) = default;

 private:
  std::array<std::uint64_t, 10> cumulative_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
};

}  // namespace kv_offload
