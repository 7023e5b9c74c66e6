#pragma once

#include "kv_offload/messages/config_node.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/tier_traits.hpp"
#include "kv_offload/tiers/io_mode.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

enum class ForeignFiles : std::uint8_t { refuse, accept };
enum class Durability : std::uint8_t {
  none,  ///< the page cache of the directory decides; a lost chunk is found by its digest
  data,  ///< the file's bytes are on the device before the chunk counts as stored
  full,  ///< the file and its name are
};

/// Parameters of one `fs` tier.
struct FsConfig {
  std::string root_dir;
  std::optional<Locality> locality;
  bool enable_kv_events = false;
  ForeignFiles foreign_files = ForeignFiles::refuse;
  bool checksum = true;
  Durability durability = Durability::none;
  std::optional<IoMode> io;  ///< none: as the engine's
  std::uint32_t queue_depth = 128;
  std::uint64_t inflight_bytes_max = 4U << 20;
  /// Bytes that the chunk files may take on the disk, as it counts them; unset: no bound, no index.
  std::optional<std::uint64_t> capacity_bytes;
  std::string eviction_policy = "lru";      ///< without effect while there is no capacity
  std::vector<std::string> without_effect;  ///< keys of the public layout that nothing here needs
};

/// `capacity_bytes` is one chunk at least, whatever its length, and at most so many.
inline constexpr std::uint64_t kFsCapacityMin = 4096;
inline constexpr std::uint64_t kFsCapacityMax = 1ULL << 50;  ///< 1 PiB: far from any overflow
/// More chunks than this are more index than a process has memory for: 24 GB.
inline constexpr std::uint64_t kFsChunksMax = 1U << 28;
/// Of `max_inflight_bytes`: one block; far from any overflow.
inline constexpr std::uint64_t kInflightBytesMin = 4096;
inline constexpr std::uint64_t kInflightBytesMax = 1ULL << 50;

/// Reads the parameters without touching the disk. Keys that the engine reads itself (type,
/// backpressure, pin_share, label) are known and ignored.
/// @param row_bytes  of a chunk, for the range of `capacity_bytes`; 0: not known, any length may be meant
Expected<FsConfig> parse_fs_config(const ConfigNode& node, const std::string& path,
                                   std::uint64_t row_bytes = 0);

}  // namespace kv_offload
