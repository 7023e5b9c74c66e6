#pragma once

#include "kv_offload/tiers/extent/extent_volume.hpp"
#include "kv_offload/tiers/io/aligned_buffer.hpp"

#include <cstdint>

namespace kv_offload {

/// The recency of all segments as the next copy on disk; advances the volume's epoch.
/// @param offset  where it belongs
[[nodiscard]] AlignedBuffer encode_recency(ExtentVolume& volume, std::uint64_t& offset);

/// Blocking, at a clean stop: erasures that were still waiting (damaged and forgotten records must not
/// come back), recency and hot bits. 0 or errno.
[[nodiscard]] int write_checkpoint(ExtentVolume& volume);

/// Blocking, after the segments were recovered: what the last checkpoint knew of segments that are still
/// the same. True: the hot bits of a clean stop were found. Anything damaged is as if it were not there.
bool read_checkpoint(ExtentVolume& volume);

}  // namespace kv_offload
