#pragma once

#include "kv_offload/messages/config_node.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/tier_traits.hpp"
#include "kv_offload/tiers/fs/fs_config.hpp"
#include "kv_offload/tiers/io_mode.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace kv_offload {

enum class SegmentEviction : std::uint8_t {
  fifo,  ///< the segment that was opened first
  lru,   ///< the segment that was loaded from least recently
};

/// Parameters of one `extent` tier.
struct ExtentConfig {
  std::string path;
  std::uint64_t capacity_bytes = 0;
  std::uint64_t segment_bytes = 0;  ///< 0: derived, see ExtentGeometry
  SegmentEviction segment_eviction = SegmentEviction::fifo;
  double rewrite_share =
      0.25;  ///< of a segment's rows, kept at its eviction because they were loaded
  Durability durability = Durability::none;
  bool checksum = true;
  std::optional<Locality> locality;
  bool enable_kv_events = false;
  std::optional<IoMode> io;  ///< none: as the engine's
  std::uint32_t queue_depth = 128;
  std::uint64_t inflight_bytes_max = 4U << 20;
};

/// Reads the parameters without touching the disk. Keys that the engine reads itself (type,
/// backpressure, pin_share, label) are known and ignored.
/// @param row_bytes  of a chunk, for the range of `capacity_bytes`; 0: not known, any length may be meant
Expected<ExtentConfig> parse_extent_config(const ConfigNode& node, const std::string& path,
                                           std::uint64_t row_bytes = 0);

}  // namespace kv_offload
