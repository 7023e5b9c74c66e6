#include "kv_offload/tiers/extent/extent_config.hpp"

#include "kv_offload/messages/byte_size.hpp"
#include "kv_offload/tiers/checksum_config.hpp"
#include "kv_offload/tiers/extent/extent_geometry.hpp"
#include "kv_offload/tiers/io/io_mode_config.hpp"
#include "kv_offload/tiers/locality_config.hpp"

#include <cstdint>
#include <string>

namespace kv_offload {

namespace {

/// Four of them fit in the largest file.
constexpr std::uint64_t kSegmentBytesMax = ExtentGeometry::kCapacityMax / 8;
/// More would leave new chunks less than half of every segment.
constexpr double kRewriteShareMax = 0.5;

std::uint64_t read_capacity(ConfigReader& reader, std::uint64_t segment_bytes,
                            std::uint64_t row_bytes) {
  ExtentGeometry::CapacityRange range{ExtentGeometry::kCapacityMin, ExtentGeometry::kCapacityMax};
  std::string meaning;
  if (row_bytes > 0) {
    range = ExtentGeometry::capacity_range(segment_bytes, row_bytes);
    meaning = ExtentGeometry::kCapacityMeaning;
  }
  if (!reader.has("capacity_bytes"))
    reader.fail(reader.path_of("capacity_bytes") + ": required, the length of the file; expected " +
                byte_range(range.min, range.max) + meaning);
  return read_bytes(reader, "capacity_bytes", 0, range.min, range.max, meaning);
}

}  // namespace

Expected<ExtentConfig> parse_extent_config(const ConfigNode& node, const std::string& path,
                                           std::uint64_t row_bytes) {
  ConfigReader reader(node, path);
  for (const char* key : {"type", "backpressure", "pin_share", "label"}) reader.child(key);

  ExtentConfig config;
  config.path = reader.string("path", "");
  if (config.path.empty() || config.path.find('\0') != std::string::npos)
    reader.fail(reader.path_of("path") + ": required, the path of a file in an existing directory");
  config.segment_bytes =
      read_bytes(reader, "segment_bytes", 0, ExtentGeometry::kBlockBytes, kSegmentBytesMax);
  config.capacity_bytes = read_capacity(reader, config.segment_bytes, row_bytes);
  if (reader.choice("segment_eviction", "fifo", {"fifo", "lru"}) == "lru")
    config.segment_eviction = SegmentEviction::lru;
  config.rewrite_share = reader.number("rewrite_share", config.rewrite_share, 0, kRewriteShareMax);
  const std::string durability = reader.choice("durability", "none", {"none", "data", "full"});
  if (durability == "data") config.durability = Durability::data;
  if (durability == "full") config.durability = Durability::full;
  config.checksum = read_checksum(reader);
  config.locality = read_locality(reader);
  config.io = read_io_mode(reader);
  config.enable_kv_events = reader.boolean("enable_kv_events", false);
  config.queue_depth =
      static_cast<std::uint32_t>(reader.integer("queue_depth", config.queue_depth, 1, 4096));
  config.inflight_bytes_max = read_bytes(reader, "max_inflight_bytes", config.inflight_bytes_max,
                                         kInflightBytesMin, kInflightBytesMax);
  if (auto error = reader.finish()) return *error;
  return config;
}

}  // namespace kv_offload
