#pragma once

#include <optional>
#include <vector>

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/messages/tier_traits.hpp"

namespace kv_offload {

/// Keys entered (`removed == false`) or left a tier. A `removed` event precedes the `stored` event that
/// reuses the slot.
struct OffloadingEvent {
  KeyList keys;
  bool removed = false;
  std::optional<Medium> medium;
  std::optional<Locality> locality;
  /// Slots co-indexed with keys; primary tier only (empty elsewhere).
  std::vector<ChunkId> chunk_ids;
};

}  // namespace kv_offload
