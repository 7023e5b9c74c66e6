#pragma once

#include "kv_offload/messages/monotonic_time.hpp"

#include <cstdint>

namespace kv_offload {

/// How many bytes one direction of a lane keeps at the device: as few as keep it busy, found from the latency
/// of what it does. While the latency stays near that of a nearly empty queue, more in flight is more
/// throughput; from where it grows with the queue, more is only latency, and the other direction's, too.
/// Learns only from what the direction did alone: beside the other one the latency is not of its making.
///
/// Knows nothing at first and allows all; its first round runs at the least that makes sense, 512 KiB or one
/// chunk, and takes the mean latency there as its base. From there it doubles each round while the mean is
/// below 2.5 times the base, by an eighth once it was not; shrinks by a fifth above 4 times. Every 10 s one
/// round at the least measures the base anew, so that a device that became slower or faster is seen. A round
/// are 16 completions, and as many bytes as the cap.
/// One owner, the lane's thread.
class InflightCap {
 public:
  /// @param most  bound of the configuration, bytes
  InflightCap(std::uint64_t chunk_bytes, std::uint64_t most);

  /// For a direction that is alone: the least while it measures, else what was learned.
  [[nodiscard]] std::uint64_t bytes() const { return is_measuring_ ? least_ : learned_; }
  /// For one that is not: nothing can be measured now.
  [[nodiscard]] std::uint64_t learned() const { return learned_; }
  /// One transfer of `bytes` ended, `latency` after it was handed to the device, of `in_flight` bytes
  /// that were there with it. Less than half a cap in flight teaches nothing of a full one.
  void completed(std::uint64_t bytes, std::uint64_t in_flight, Duration latency, MonotonicTime now);

 private:
  void end_round(MonotonicTime now);

  const std::uint64_t most_, least_;
  std::uint64_t learned_;
  bool is_measuring_ = true;
  bool knows_base_ = false;
  bool may_double_ = true;  // nothing has spoken against more yet
  std::uint64_t skip_bytes_ =
      0;               // handed out under the cap before: they say nothing about this one
  double base_s_ = 0;  // mean latency of the last measuring round
  MonotonicTime measured_at_{};

  std::uint64_t round_bytes_ = 0;
  std::uint32_t round_count_ = 0;
  double round_s_ = 0;
};

}  // namespace kv_offload
