#pragma once

#include "kv_offload/messages/compute_sample.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kv_offload {

/// What the device pays for offloading, measured: how long it takes to compute a token, and how much longer while a
/// tier is written to, read from or asked. A tier whose transfers run beside the device costs nothing; one that takes
/// the serving process's host thread, the memory bus or the PCIe link shows here.
///
/// Spans of ComputeSample are collected to windows of some length and fitted by least squares without negative costs:
/// seconds = tokens × a + Σ cost × traffic. `a` is the least of windows without transfers, as soon as there is one (the first prompt
/// is computed before the first store), rising by a hundredth with each: where everything that is computed is stored, too,
/// nothing else tells the two apart. A transfer's end is seen later than
/// what it took from the device, up to a whole job, so that the fit finds too little; what over many windows remains
/// beyond it goes to all bytes alike. Old windows fade. No clock, O(tiers²) state and work per window, value type.
class DeviceCosts {
 public:
  /// `tokens_per_s` as configured; 0: measured.
  DeviceCosts(std::size_t num_tiers, double tokens_per_s);

  void add(const ComputeSample& sample, MonotonicTime now);

  /// Before it nothing is known, and every cost reads 0.
  [[nodiscard]] bool knows_speed() const { return token_s() > 0; }
  [[nodiscard]] double token_s() const;  ///< to compute a token, nothing else being moved
  /// Seconds of the device, per byte and per second of waiting for the tier's word. 0 below half a percent of the time
  /// in which it was measured: what does not show is no reason to do without the tier.
  [[nodiscard]] double read_s_per_byte(std::size_t tier) const { return cost(read_of(tier)); }
  [[nodiscard]] double written_s_per_byte(std::size_t tier) const { return cost(written_of(tier)); }
  [[nodiscard]] double probed_s_per_s(std::size_t tier) const { return cost(probed_of(tier)); }
  /// What a second of computing saved is worth in seconds of the device: 1 where it never rests. While it rests most
  /// of the time a second saved is one request's, and a second that it stands still is everybody's.
  [[nodiscard]] double saved_second() const;
  /// Seconds that a prompt waits for others to be computed: as long its load may take without keeping it.
  [[nodiscard]] double wait_s() const { return wait_s_; }
  [[nodiscard]] std::uint64_t windows() const { return windows_; }
  /// Windows without any transfer, and windows in which the tier was written to: before a few of both nothing is known
  /// of what that costs.
  [[nodiscard]] std::uint64_t alone_windows() const { return alone_windows_; }
  [[nodiscard]] std::uint64_t written_windows(std::size_t tier) const {
    return written_windows_[tier];
  }
  [[nodiscard]] bool is_configured() const { return configured_s_ > 0; }

 private:
  static constexpr std::size_t kTokens = 0;
  static std::size_t written_of(std::size_t tier) { return 1 + 3 * tier; }
  static std::size_t read_of(std::size_t tier) { return 2 + 3 * tier; }
  static std::size_t probed_of(std::size_t tier) { return 3 + 3 * tier; }
  [[nodiscard]] double cost(std::size_t what) const;
  [[nodiscard]] double unexplained_per_gb() const;
  /// Of computing a thousand tokens, if it need not be fitted.
  [[nodiscard]] double anchor() const;
  double& gram(std::size_t a, std::size_t b) { return gram_[a * fitted_.size() + b]; }
  void close_window();
  void fit();

  std::size_t num_tiers_;
  double configured_s_ = 0;
  std::vector<double> fitted_;          // seconds per unit of traffic
  std::vector<double> gram_, against_;  // fading sums of products; of products with seconds
  std::vector<double> seen_,
      seen_s_;        // fading sums over the windows that had any: traffic, and seconds
  double alone_ = 0;  // seconds per thousand tokens of windows without transfers: the least of late
  double excess_s_ = 0, explained_s_ = 0;  // of all windows, fading with those that moved something
  double moved_s_ = 0, moved_gb_ = 0;      // of these
  bool window_alone_ = true;
  std::vector<double> window_;  // being collected
  double window_s_ = 0;
  std::uint64_t windows_ = 0;
  std::uint64_t alone_windows_ = 0;
  std::vector<std::uint64_t> written_windows_;
  double busy_s_ = 0, elapsed_s_ = 0, live_ = 0, wait_s_ = 0;
  MonotonicTime last_{};
};

}  // namespace kv_offload
