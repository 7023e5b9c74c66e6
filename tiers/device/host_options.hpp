#pragma once

#include "kv_offload/tiers/device/device_backend.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace kv_offload {

/// Trouble that a test makes in place of a copy.
struct HostTrouble {
  std::string error = {};    ///< not empty: nothing is copied, and the job fails with it
  bool device_lost = false;  ///< everything after it on this stream fails with it, too
};

struct HostOptions {
  static constexpr std::uint32_t kThreadsMax = 64;
  /// That copy, of each stream: 1 to kThreadsMax. One core copies about as fast as memory lets it
  /// where it has a memory channel of its own; on large machines several are needed.
  std::uint32_t threads_per_stream = 1;
  /// Called before each batch of copies, on the stream's thread; for tests. A call that does not
  /// return is a copy that hangs.
  std::function<HostTrouble(std::span<const CopyFragment>)> before_copy = {};
};

}  // namespace kv_offload
