#pragma once

#include <chrono>

namespace kv_offload {

/// Time as every decision sees it: handed in, never read inside messages/ or admission/.
using MonotonicTime = std::chrono::steady_clock::time_point;
using Duration = std::chrono::nanoseconds;

/// Seconds as a double, for config and metric borders only.
inline double to_seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline Duration from_seconds(double s) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}

}  // namespace kv_offload
