#pragma once

#include "kv_offload/messages/lookup.hpp"
#include "kv_offload/messages/monotonic_time.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kv_offload {

/// What loads have taken lately, and from that what the next one would be worth. Moving averages over about
/// the last sixteen loads; before the first one a cost is 0: unknown, and no reason against loading.
class LoadCosts {
 public:
  explicit LoadCosts(std::size_t num_tiers) : landing_s_(num_tiers) {}

  /// A load lease of so many chunks was open for `took`.
  void copied(std::size_t chunks, Duration took) { add(copy_s_, chunks, took); }
  /// A promotion of so many chunks from `tier`, from submission to outcome, its queue included.
  void landed(std::size_t tier, std::size_t chunks, Duration took) {
    if (tier < landing_s_.size()) add(landing_s_[tier], chunks, took);
  }

  [[nodiscard]] double copy_s_per_chunk() const { return copy_s_; }
  [[nodiscard]] double landing_s_per_chunk(std::size_t tier) const { return landing_s_[tier]; }

  /// `origins`: of the leading hits in order, 0 for a chunk in the primary tier, 1 + t for one on its way from
  /// tier t. `compute_s_per_chunk` 0: unknown, then all of them are worth loading.
  [[nodiscard]] LoadWorth worth(std::span<const std::uint8_t> origins, double compute_s_per_chunk) const;

 private:
  static void add(double& average, std::size_t chunks, Duration took);

  double copy_s_ = 0;
  std::vector<double> landing_s_;  // by tier
};

}  // namespace kv_offload
