#include "kv_offload/tiers/fs/fs_config.hpp"

#include "kv_offload/messages/byte_size.hpp"
#include "kv_offload/tiers/checksum_config.hpp"
#include "kv_offload/tiers/eviction/eviction_registry.hpp"
#include "kv_offload/tiers/io/io_mode_config.hpp"
#include "kv_offload/tiers/locality_config.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace kv_offload {

namespace {

std::optional<std::uint64_t> read_capacity(ConfigReader& reader, std::uint64_t row_bytes) {
  if (!reader.has("capacity_bytes")) return std::nullopt;
  if (row_bytes == 0)
    return read_bytes(reader, "capacity_bytes", 0, kFsCapacityMin, kFsCapacityMax);
  const std::uint64_t max =
      row_bytes > kFsCapacityMax / kFsChunksMax ? kFsCapacityMax : kFsChunksMax * row_bytes;
  return read_bytes(
      reader, "capacity_bytes", 0, row_bytes, max,
      ": at least one chunk, at most " + std::to_string(max / row_bytes) + " of them");
}

}  // namespace

Expected<FsConfig> parse_fs_config(const ConfigNode& node, const std::string& path,
                                   std::uint64_t row_bytes) {
  ConfigReader reader(node, path);
  for (const char* key : {"type", "backpressure", "pin_share", "label"}) reader.child(key);

  FsConfig config;
  config.root_dir = reader.string("root_dir", "");
  if (config.root_dir.empty() || config.root_dir.find('\0') != std::string::npos)
    reader.fail(reader.path_of("root_dir") + ": required, the path of an existing directory");
  config.locality = read_locality(reader);
  config.io = read_io_mode(reader);
  config.enable_kv_events = reader.boolean("enable_kv_events", false);
  config.foreign_files = reader.choice("foreign_files", "refuse", {"refuse", "accept"}) == "accept"
                             ? ForeignFiles::accept
                             : ForeignFiles::refuse;
  config.checksum = read_checksum(reader);
  const std::string durability = reader.choice("durability", "none", {"none", "data", "full"});
  if (durability == "data") config.durability = Durability::data;
  if (durability == "full") config.durability = Durability::full;
  config.queue_depth =
      static_cast<std::uint32_t>(reader.integer("queue_depth", config.queue_depth, 1, 4096));
  config.inflight_bytes_max = read_bytes(reader, "max_inflight_bytes", config.inflight_bytes_max,
                                         kInflightBytesMin, kInflightBytesMax);
  config.capacity_bytes = read_capacity(reader, row_bytes);
  config.eviction_policy = reader.choice("eviction_policy", "lru", eviction_policies().names());
  for (const char* key : {"n_read_threads", "n_write_threads", "io_threads"}) {
    if (reader.has(key)) config.without_effect.emplace_back(key);
    reader.integer(key, 16, 1, 1 << 16);
  }
  if (auto error = reader.finish()) return *error;
  return config;
}

}  // namespace kv_offload
