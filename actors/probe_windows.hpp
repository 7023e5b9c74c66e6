#pragma once

#include <algorithm>
#include <cstdint>

namespace kv_offload {

/// How many keys a lookup asks one tier for before it knows whether the tier has any of them. Too few cost a prefix that
/// is there one round trip per window; too many are asked in vain behind the first miss.
///
/// The first window follows what the latest lookups found. Each one that begins takes half of what it asks for away and
/// puts back what it finds, so that a tier is asked in vain for at most twice what it was found to have, and no more
/// than that when many lookups begin before the first has its answer. Plain state of the scheduler_step actor.
class ProbeWindows {
 public:
  static constexpr std::uint32_t kFirst = 8,
                                 kLast = 2048;  ///< grown by four from the first: 8, 32, 128, …

  /// `probes_max`: keys that the tier asks for at a time, at least 1. No window is larger.
  explicit ProbeWindows(std::uint32_t probes_max)
      : first_(std::min(kFirst, probes_max)),
        last_(std::min(kLast, probes_max)),
        expected_(first_) {}

  /// The first window of a lookup that wants `wanted` keys.
  std::uint32_t begin(std::size_t wanted) {
    const auto window = expected_;
    const auto asked = static_cast<std::uint32_t>(std::min<std::size_t>(window, wanted));
    expected_ = std::max(expected_ - asked / 2, first_);
    return window;
  }
  /// Keys that it has found so far, all its windows together.
  void found(std::size_t keys) {
    expected_ = static_cast<std::uint32_t>(std::clamp<std::size_t>(keys, expected_, last_));
  }
  [[nodiscard]] std::uint32_t after(std::uint32_t window) const {
    return std::min(window * 4, last_);
  }

 private:
  std::uint32_t first_, last_;
  std::uint32_t expected_;
};

}  // namespace kv_offload
