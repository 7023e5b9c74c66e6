#pragma once

#include <atomic>
#include <cstdint>

namespace kv_offload {

/// Fault switches of one tier, for tests and fault drills; all off by default. Set from any thread,
/// read by the tier's lanes before and after each I/O. A tier without switches pays one null check.
struct TierFaults {
  /// A completed transfer is reported only after this many times its real duration (1: off).
  std::atomic<double> slow_factor{1.0};
  /// Added to each transfer's duration, microseconds.
  std::atomic<std::uint32_t> delay_us{0};
  /// Every n-th store / load request fails with EIO (0: off).
  std::atomic<std::uint32_t> store_error_every{0};
  std::atomic<std::uint32_t> load_error_every{0};
  /// Every n-th stored chunk has one byte flipped on its way to the device, after its digest (0: off).
  std::atomic<std::uint32_t> corrupt_every{0};
  /// Stores fail with ENOSPC.
  std::atomic<bool> full{false};
  /// Transfers that complete are never reported while set (a hung device); cleared, they report.
  std::atomic<bool> hang{false};
  /// The lane thread ends at its next turn without reporting anything.
  std::atomic<bool> kill_lane{false};
};

}  // namespace kv_offload
