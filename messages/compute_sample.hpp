#pragma once

#include "kv_offload/messages/monotonic_time.hpp"

#include <cstdint>
#include <vector>

namespace kv_offload {

/// What one tier moved, and how long it was asked, while the device was computing.
struct TierTraffic {
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  double probe_s = 0;
};

/// One prompt that the device has computed, as the engine sees it from its callers' calls: the device was busy from the
/// end of the prompt before it (or from the moment this one was ready) until this one's first store. Says nothing of
/// why it took as long: whoever wants to know compares spans with and without traffic.
struct ComputeSample {
  std::uint64_t tokens =
      0;              ///< computed in the span: of this prompt, and of those behind it in no store
  Duration busy{};    ///< length of the span
  Duration waited{};  ///< that this prompt was ready and others were computed
  std::uint32_t live = 0;          ///< requests that the device or its queue had
  bool alone = false;              ///< no transfer was under way in it
  std::vector<TierTraffic> moved;  ///< by tier: transfers that ended in the span
};

}  // namespace kv_offload
