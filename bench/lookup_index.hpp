#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/offload_key.hpp"

#include <cstdint>
#include <string>

namespace kv_offload::bench {

/// The primary tier's bookkeeping alone, one thread, no actor.
struct IndexFigure {
  double prompt_keys_per_s = 0;  ///< batches of 512 keys that were stored one after the other
  double random_keys_per_s = 0;  ///< batches of 512 keys from anywhere
  double evict_ns =
      0;  ///< the policy's, per victim: a tenth of the keys, at most 100,000, in one call
  double replace_ns = 0;     ///< the same victims out of the index, as many new keys into it
  double bytes_per_key = 0;  ///< given out by the allocator for the tier's bookkeeping
  std::uint64_t wrong = 0;   ///< keys that were not found where they are; must be 0
};

/// @param policy  an eviction policy's name
Expected<IndexFigure> measure_index(std::uint64_t keys, const std::string& policy, double seconds,
                                    std::uint64_t seed);

/// Given out by the allocator to this process now.
std::uint64_t allocated_bytes();

/// Key `number` of the lookup bench: 32 hash bytes, evenly spread.
OffloadKey lookup_key(std::uint64_t number);
/// The same for `count` keys from `first` on, as a prompt has them.
KeyList lookup_keys(std::uint64_t first, std::uint32_t count);

}  // namespace kv_offload::bench
