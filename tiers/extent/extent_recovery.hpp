#pragma once

#include "kv_offload/tiers/extent/extent_volume.hpp"

#include <cstdint>

namespace kv_offload {

struct ExtentRecovery {
  std::uint64_t chunks = 0;
  std::uint64_t superseded = 0;  ///< records of keys that a younger segment has, too
  std::uint64_t unreadable = 0;  ///< segments
  int error = 0;                 ///< errno of the first of them
  bool was_clean = false;        ///< the last stop wrote its checkpoint
};

/// Fills index and segments from the record tables, oldest segment first, then recency from the
/// checkpoint. Blocking; reads nothing of the rows.
ExtentRecovery recover(ExtentVolume& volume);

}  // namespace kv_offload
