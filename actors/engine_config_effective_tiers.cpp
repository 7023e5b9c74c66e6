#include "kv_offload/actors/engine_config_effective_rows.hpp"
#include "kv_offload/actors/engine_config_fields.hpp"
#include "kv_offload/tiers/extent/extent_config.hpp"
#include "kv_offload/tiers/extent/extent_geometry.hpp"
#include "kv_offload/tiers/fs/fs_config.hpp"
#include "kv_offload/tiers/io_mode.hpp"
#include "kv_offload/tiers/obj/obj_config.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kv_offload {
namespace {

using config_fields::number_text;

const char* durability_name(Durability durability) {
  return durability == Durability::none ? "none" : durability == Durability::data ? "data" : "full";
}

/// One tier's rows as the tier itself read them, not as they were written. A key that has a row is taken out of
/// `rest`, what stays there is shown as it was written.
class TierRows {
 public:
  TierRows(EffectiveRows& rows, const EngineConfig& config, std::string path, ConfigNode& rest)
      : rows_(rows), config_(config), path_(std::move(path)), rest_(rest) {}

  void add(const std::string& key, const std::string& value, std::string_view unit = "") {
    auto* keys = rest_.object();
    const bool is_default = keys == nullptr || keys->erase(key) == 0;
    rows_.add(path_ + "." + key, value, is_default, unit);
  }
  /// Keys of an object of its own below `section`.
  void add_nested(const std::string& section,
                  const std::vector<std::pair<std::string, std::string>>& values) {
    const ConfigNode* given = rest_.find(section);
    for (const auto& [key, value] : values)
      rows_.add(path_ + "." + section + "." + key, value,
                given == nullptr || given->find(key) == nullptr, "");
    if (auto* keys = rest_.object()) keys->erase(section);
  }
  void derived(const std::string& key, const std::string& value, std::string_view unit,
               const std::string& how) {
    rows_.derived(path_ + "." + key, value, unit, how);
  }
  /// What both tiers of files have.
  template <class Config>
  void common(const Config& tier) {
    add("checksum", tier.checksum ? "on" : "off");
    add("durability", durability_name(tier.durability));
    if (rest_.find("io") != nullptr)
      add("io",
          std::string(kIoModeNames[static_cast<std::size_t>(tier.io.value_or(IoMode::automatic))]));
    else
      derived("io", config_.io, "", "io");
    add("queue_depth", std::to_string(tier.queue_depth), "requests");
    add("max_inflight_bytes", std::to_string(tier.inflight_bytes_max), "bytes");
    add("enable_kv_events", tier.enable_kv_events ? "true" : "false");
  }
  void fs(const FsConfig& tier) {
    if (tier.capacity_bytes) {
      add("capacity_bytes", std::to_string(*tier.capacity_bytes), "bytes");
      derived("capacity_chunks", std::to_string(*tier.capacity_bytes / config_.row_bytes()),
              "chunks", "capacity_bytes / row_bytes");
      add("eviction_policy", tier.eviction_policy);
    } else {
      add("capacity_bytes", "(unbounded)");
    }
    add("foreign_files", tier.foreign_files == ForeignFiles::accept ? "accept" : "refuse");
    common(tier);
  }
  void extent(const ExtentConfig& tier, const ExtentGeometry& geometry) {
    add("capacity_bytes", std::to_string(tier.capacity_bytes), "bytes");
    const std::string segment = std::to_string(geometry.slots_per_segment * geometry.row_bytes);
    if (tier.segment_bytes != 0)
      add("segment_bytes", segment, "bytes");
    else
      derived("segment_bytes", segment, "bytes",
              "capacity_bytes / 64, between 1 MiB and 256 MiB, in whole rows");
    derived("segments", std::to_string(geometry.num_segments), "segments",
            "capacity_bytes / (segment_bytes and its table)");
    derived("capacity_chunks", std::to_string(geometry.num_slots()), "chunks",
            "segments x segment_bytes / row_bytes");
    add("segment_eviction", tier.segment_eviction == SegmentEviction::fifo ? "fifo" : "lru");
    add("rewrite_share", number_text(tier.rewrite_share), "of a segment's rows");
    common(tier);
  }
  void obj(const ObjConfig& tier) {
    const auto ms = [](Duration d) {
      return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
    };
    derived("place", to_string(tier.place), "", "store_config");
    derived("region", tier.place.region, "", "store_config.region, AWS_REGION, AWS_DEFAULT_REGION");
    derived("addressing", tier.place.virtual_host ? "virtual" : "path", "",
            "store_config.addressing");
    add("prefix", tier.prefix.empty() ? "(none)" : tier.prefix);
    add("capacity_bytes",
        tier.capacity_bytes ? std::to_string(*tier.capacity_bytes) : "(unbounded)",
        tier.capacity_bytes ? "bytes" : "");
    add("existence", tier.existence == ObjExistence::manifest ? "manifest" : "head");
    if (tier.existence == ObjExistence::manifest) {
      add("manifest_keys_max", std::to_string(tier.manifest_keys_max), "keys");
      add("manifest_refresh_ms", ms(tier.manifest_refresh), "ms");
    }
    add("verdicts_max", std::to_string(tier.verdicts_max), "keys");
    add("positive_ttl_ms", ms(tier.positive_ttl), "ms");
    add("negative_ttl_ms", ms(tier.negative_ttl), "ms");
    add("max_inflight", std::to_string(tier.max_inflight), "requests per direction");
    add("max_probes", std::to_string(tier.max_probes), "requests");
    add("connect_timeout_ms", ms(tier.connect_timeout), "ms");
    add("probe_timeout_ms", ms(tier.probe_timeout), "ms");
    add("request_timeout_ms", ms(tier.request_timeout), "ms");
    add_nested("retry", {{"attempts", std::to_string(tier.retry.attempts)},
                         {"base_ms", ms(tier.retry.base)},
                         {"max_ms", ms(tier.retry.max)},
                         {"budget_share", number_text(tier.retry.budget_share)},
                         {"budget_burst", std::to_string(tier.retry.budget_burst)}});
    add_nested("breaker", {{"failures", std::to_string(tier.breaker.failures)},
                           {"open_ms", ms(tier.breaker.open)},
                           {"open_max_ms", ms(tier.breaker.open_max)}});
    add("if_none_match", tier.if_none_match ? "true" : "false");
    add("start_unreachable", tier.start_unreachable ? "true" : "false");
    add("foreign_files", tier.refuse_foreign ? "refuse" : "accept");
    add("checksum", tier.checksum ? "on" : "off");
    add("enable_kv_events", tier.enable_kv_events ? "true" : "false");
  }

 private:
  EffectiveRows& rows_;
  const EngineConfig& config_;
  const std::string path_;
  ConfigNode& rest_;
};

/// The tier's own keys. Where they cannot be read, validate() tells why, and they are shown as written.
void add_own_rows(EffectiveRows& rows, const EngineConfig& config, const SecondaryTierConfig& tier,
                  const std::string& path) {
  ConfigNode rest = tier.node;
  if (auto* keys = rest.object()) keys->erase("backpressure");  // resolved: add_admission_rows
  hide_obj_secrets(rest);  // whatever the type is called: a misspelt one must not show them either
  const std::uint64_t row_bytes = config.row_bytes();
  TierRows own(rows, config, path, rest);
  if (tier.type == "fs" && row_bytes > 0) {
    if (const auto fs = parse_fs_config(tier.node, path, row_bytes)) own.fs(*fs);
  } else if (tier.type == "extent" && row_bytes > 0) {
    const auto extent = parse_extent_config(tier.node, path, row_bytes);
    if (extent)
      if (const auto geometry =
              ExtentGeometry::make(extent->capacity_bytes, extent->segment_bytes, row_bytes))
        own.extent(*extent, *geometry);
  } else if (tier.type == "obj" && row_bytes > 0) {
    if (const auto obj = parse_obj_config(tier.node, path, row_bytes)) own.obj(*obj);
  }
  rows.tree(path, rest);
}

}  // namespace

void add_tier_rows(EffectiveRows& rows, const EngineConfig& config) {
  if (config.secondary_tiers.empty()) rows.add("secondary_tiers", "(none)", true);
  for (std::size_t i = 0; i < config.secondary_tiers.size(); ++i) {
    const SecondaryTierConfig& tier = config.secondary_tiers[i];
    const std::string path = "secondary_tiers[" + std::to_string(i) + "]";
    rows.add(path + ".type", tier.type, false);
    const double share = config.pin_share(i);
    if (tier.pin_share) {
      rows.add(path + ".pin_share", number_text(share), false, "of chunks");
    } else {
      rows.derived(path + ".pin_share", number_text(share), "of chunks",
                   "0.4 / " + std::to_string(config.secondary_tiers.size()) + " tiers");
    }
    rows.share_chunks(path + ".pin_chunks", share);
    add_own_rows(rows, config, tier, path);
  }
}

}  // namespace kv_offload
