#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/actors/engine_config_effective_rows.hpp"
#include "kv_offload/actors/engine_config_fields.hpp"
#include "kv_offload/tiers/extent/extent_config.hpp"
#include "kv_offload/tiers/fs/fs_config.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload {
namespace {

using namespace config_fields;

std::string times_chunks(double share, const EngineConfig& config) {
  return number_text(share) + " x " + std::to_string(config.num_chunks()) + " chunks";
}

void add_primary(EffectiveRows& rows, const EngineConfig& config, const EngineConfig& defaults) {
  rows.number("chunk_bytes", config.chunk_bytes, defaults.chunk_bytes, "bytes");
  rows.derived("row_bytes", std::to_string(config.row_bytes()), "bytes",
               "chunk_bytes rounded up to " + std::to_string(kRowAlignment));
  rows.number("cpu_bytes_to_use", config.cpu_bytes_to_use, defaults.cpu_bytes_to_use, "bytes");
  rows.derived("num_chunks", std::to_string(config.num_chunks()), "chunks",
               "cpu_bytes_to_use / row_bytes");
  rows.text("eviction_policy", config.eviction_policy, defaults.eviction_policy);
  for (const auto& field : kShares) {
    const double share = config.primary.*field.member;
    rows.share("primary." + std::string(field.key), share, defaults.primary.*field.member);
    rows.derived("primary." + std::string(field.chunks_key),
                 std::to_string(config.share_chunks(share)), "chunks", times_chunks(share, config));
  }
  rows.flag("primary.hold", config.primary.hold, defaults.primary.hold);
  const auto pin_unread = config.primary.pin_unread;
  rows.add("primary.pin_unread",
           pin_unread == PrimaryConfig::PinUnread::never ? "never" : "until_read",
           pin_unread == defaults.primary.pin_unread);
}

const char* durability_name(Durability durability) {
  return durability == Durability::none ? "none" : durability == Durability::data ? "data" : "full";
}

/// What an extent tier does where its keys are absent.
void add_extent_defaults(EffectiveRows& rows, const std::string& path, const ConfigNode& node) {
  const ExtentConfig defaults;
  const auto add = [&](const std::string& key, const std::string& value, std::string_view unit) {
    if (node.find(key) == nullptr) rows.add(path + "." + key, value, true, unit);
  };
  if (node.find("segment_bytes") == nullptr)
    rows.derived(path + ".segment_bytes", "(capacity_bytes / 64)", "bytes",
                 "between 1 MiB and 256 MiB, in whole rows");
  add("segment_eviction", defaults.segment_eviction == SegmentEviction::fifo ? "fifo" : "lru", "");
  add("rewrite_share", number_text(defaults.rewrite_share), "of a segment's rows");
  add("checksum", defaults.checksum ? "on" : "off", "");
  add("durability", durability_name(defaults.durability), "");
  add("queue_depth", std::to_string(defaults.queue_depth), "requests");
  add("max_inflight_bytes", std::to_string(defaults.inflight_bytes_max), "bytes");
  add("enable_kv_events", defaults.enable_kv_events ? "true" : "false", "");
}

/// What a file tier does where its keys are absent.
void add_fs_defaults(EffectiveRows& rows, const std::string& path, const ConfigNode& node,
                     std::uint64_t row_bytes) {
  const FsConfig defaults;
  const auto add = [&](const std::string& key, const std::string& value, std::string_view unit) {
    if (node.find(key) == nullptr) rows.add(path + "." + key, value, true, unit);
  };
  const auto config = parse_fs_config(node, path);
  if (config && config->capacity_bytes) {
    rows.add(path + ".capacity_bytes", std::to_string(*config->capacity_bytes), false, "bytes");
    rows.derived(path + ".capacity_chunks",
                 std::to_string(*config->capacity_bytes / std::max<std::uint64_t>(row_bytes, 1)),
                 "chunks", "capacity_bytes / row_bytes");
    add("eviction_policy", defaults.eviction_policy, "");
  } else {
    add("capacity_bytes", "(unbounded)", "");
  }
  add("foreign_files", defaults.foreign_files == ForeignFiles::accept ? "accept" : "refuse", "");
  add("checksum", defaults.checksum ? "on" : "off", "");
  add("durability", durability_name(defaults.durability), "");
  add("queue_depth", std::to_string(defaults.queue_depth), "requests");
  add("max_inflight_bytes", std::to_string(defaults.inflight_bytes_max), "bytes");
  add("enable_kv_events", defaults.enable_kv_events ? "true" : "false", "");
}

/// Backpressure is shown resolved, see add_admission_rows, and so is the capacity of a file tier.
ConfigNode without_own_rows(const SecondaryTierConfig& tier) {
  ConfigNode rest = tier.node;
  if (auto* object = rest.object()) {
    object->erase("backpressure");
    if (tier.type == "fs") object->erase("capacity_bytes");
  }
  return rest;
}

void add_tiers(EffectiveRows& rows, const EngineConfig& config) {
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
    rows.derived(path + ".pin_chunks", std::to_string(config.share_chunks(share)), "chunks",
                 times_chunks(share, config));
    rows.tree(path, without_own_rows(tier));
    if (tier.type == "fs") add_fs_defaults(rows, path, tier.node, config.row_bytes());
    if (tier.type == "extent") add_extent_defaults(rows, path, tier.node);
    if ((tier.type == "fs" || tier.type == "extent") && tier.node.find("io") == nullptr)
      rows.derived(path + ".io", config.io, "", "io");
  }
}

void add_identity(EffectiveRows& rows, const EngineConfig& config) {
  const NamespaceIdentity& identity = config.identity;
  const NamespaceIdentity defaults;
  rows.text("identity.model_name", identity.model_name, defaults.model_name);
  rows.text("identity.dtype", identity.dtype, defaults.dtype);
  rows.text("identity.inference_engine", identity.inference_engine, defaults.inference_engine);
  for (const auto& field : kIdentityIntegers)
    rows.number("identity." + std::string(field.key), identity.*field.member,
                defaults.*field.member, field.unit);
  rows.flag("identity.parallelism_agnostic", identity.parallelism_agnostic,
            defaults.parallelism_agnostic);
  rows.flag("identity.replicated_layout", identity.replicated_layout, defaults.replicated_layout);
  rows.add("identity.canonical_format", identity.canonical_format.value_or("(none)"),
           !identity.canonical_format);
  rows.add("identity.tenant", identity.tenant.empty() ? "(none)" : "(set)",
           identity.tenant.empty());
  for (std::size_t i = 0; i < identity.kv_cache_groups.size(); ++i) {
    const auto& group = identity.kv_cache_groups[i];
    const std::string path = "identity.kv_cache_groups[" + std::to_string(i) + "]";
    rows.number(path + ".tokens_per_block", group.tokens_per_block,
                NamespaceIdentity::CacheGroup{}.tokens_per_block, "tokens");
    rows.derived(path + ".layer_names", std::to_string(group.layer_names.size()), "layers",
                 "number of names given");
  }
  rows.add("revision", identity.revision.empty() ? "(none)" : identity.revision,
           identity.revision.empty());
}

void add_atomic_groups(EffectiveRows& rows, const EngineConfig& config) {
  if (config.atomic_groups.empty()) return rows.add("atomic_groups", "(none)", true);
  for (std::size_t s = 0; s < config.atomic_groups.size(); ++s) {
    std::string set;
    for (const auto group : config.atomic_groups[s])
      set += (set.empty() ? "" : ", ") + std::to_string(group);
    const std::string path = "atomic_groups[" + std::to_string(s) + "]";
    rows.add(path, set, false, "cache groups", path + "[0]");
  }
}

void add_engine(EffectiveRows& rows, const EngineConfig& config, const EngineConfig& defaults) {
  for (const auto& field : kIntegers)
    rows.number(std::string(field.key), config.*field.member, defaults.*field.member, field.unit);
  for (const auto& field : kDeadlines)
    rows.number("deadlines." + std::string(field.key), to_ms(config.deadlines.*field.member),
                to_ms(defaults.deadlines.*field.member), "ms");
  for (const auto& field : kBooleans)
    rows.flag(std::string(field.key), config.*field.member, defaults.*field.member);
  rows.number("domains", config.domains, defaults.domains, "domains");
  rows.text("io", config.io, defaults.io);
  rows.text("log_level", config.log_level, defaults.log_level);
  const auto& port = config.metrics.port;
  rows.add("metrics.port",
           !port        ? "(no server)"
           : *port == 0 ? "any free"
                        : std::to_string(*port),
           !port);
  rows.text("metrics.address", config.metrics.address, defaults.metrics.address);
}

}  // namespace

std::vector<EngineConfig::Effective> EngineConfig::effective() const {
  const EngineConfig defaults;
  EffectiveRows rows(*this);
  add_primary(rows, *this, defaults);
  add_tiers(rows, *this);
  add_admission_rows(rows, *this);
  rows.add("admission_state_file", admission_state_file.empty() ? "(none)" : admission_state_file,
           admission_state_file.empty());
  add_identity(rows, *this);
  add_atomic_groups(rows, *this);
  add_engine(rows, *this, defaults);
  return rows.take();
}

}  // namespace kv_offload
