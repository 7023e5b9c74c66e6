#include "kv_offload/actors/engine_config_sections.hpp"

#include "kv_offload/actors/engine_config_fields.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace kv_offload::config_sections {

using namespace config_fields;

namespace {

/// Runs `read` on the object under `key`, if there is one, and hands its problem up.
template <class F>
void in_section(ConfigReader& document, const std::string& key, F read) {
  const ConfigNode* node = document.child(key);
  if (node == nullptr) return;
  ConfigReader section(*node, document.path_of(key));
  if (!section.failed()) read(section);
  if (auto error = section.finish()) document.fail(error->detail);
}

void read_cache_groups(ConfigReader& identity, EngineConfig& config) {
  const ConfigNode* groups = identity.child("kv_cache_groups");
  if (groups == nullptr) return;
  if (groups->list() == nullptr)
    return identity.fail("kv_cache_groups", *groups, "a list of {tokens_per_block, layer_names}");
  for (std::size_t i = 0; i < groups->list()->size(); ++i) {
    ConfigReader group((*groups->list())[i],
                       identity.path_of("kv_cache_groups") + "[" + std::to_string(i) + "]");
    NamespaceIdentity::CacheGroup parsed;
    parsed.tokens_per_block = static_cast<std::uint32_t>(
        group.integer("tokens_per_block", parsed.tokens_per_block, 1, kTokensPerBlockMax));
    if (const ConfigNode* names = group.child("layer_names"); names != nullptr) {
      if (names->list() == nullptr) group.fail("layer_names", *names, "a list of strings");
      for (const ConfigNode& name : names->list() ? *names->list() : ConfigNode::List{}) {
        const auto* text = std::get_if<std::string>(&name.value());
        if (text == nullptr) group.fail("layer_names", name, "a list of strings");
        parsed.layer_names.push_back(text ? *text : "");
      }
    }
    if (auto error = group.finish()) return identity.fail(error->detail);
    config.identity.kv_cache_groups.push_back(std::move(parsed));
  }
}

/// Only its shape is read here: it stays in the tier's node, and admission reads its fields.
void read_backpressure(ConfigReader& reader) {
  const ConfigNode* node = reader.child("backpressure");
  if (node != nullptr && node->object() == nullptr && !node->is_null())
    reader.fail("backpressure", *node, "an object or null");
}

/// Keys that the reference's tiers have and ours need not.
void note_keys_without_effect(ConfigReader& reader, const std::string& type, EngineConfig& config) {
  if (reader.has("module_path")) {
    (void)reader.string("module_path", "");
    config.notes.push_back(reader.path_of("module_path") +
                           ": has no effect: tier types are registered by the program");
  }
  if (type != "fs") return;
  for (const char* key : {"n_read_threads", "n_write_threads", "io_threads"})
    if (reader.has(key))
      config.notes.push_back(reader.path_of(key) +
                             ": has no effect: one thread keeps queue_depth requests in flight");
}

SecondaryTierConfig read_tier(ConfigReader& reader, const ConfigNode::Object& keys,
                              EngineConfig& config) {
  SecondaryTierConfig tier;
  tier.type = reader.string("type", "");
  if (!reader.has("type"))
    reader.fail(reader.path_of("type") + ": missing; expected the name of a tier type, such as fs");
  if (reader.has("pin_share")) tier.pin_share = reader.number("pin_share", 0, 0, 1);
  read_backpressure(reader);
  note_keys_without_effect(reader, tier.type, config);
  // What is left is the tier's own; it reads and checks those keys itself.
  ConfigNode::Object own;
  for (const auto& [key, value] : keys)
    if (key != "type" && key != "pin_share" && key != "module_path") own.emplace(key, value);
  tier.node = ConfigNode(ConfigNode::Value(std::move(own)));
  return tier;
}

}  // namespace

void read_primary(ConfigReader& document, EngineConfig& config) {
  in_section(document, "primary", [&](ConfigReader& section) {
    for (const auto& field : kShares)
      config.primary.*field.member =
          section.number(std::string(field.key), config.primary.*field.member, 0, 1);
    config.primary.hold = section.boolean("hold", config.primary.hold);
    config.primary.pin_unread =
        section.choice("pin_unread", "until_read", {"never", "until_read"}) == "never"
            ? PrimaryConfig::PinUnread::never
            : PrimaryConfig::PinUnread::until_read;
  });
}

void read_deadlines(ConfigReader& document, EngineConfig& config) {
  in_section(document, "deadlines", [&](ConfigReader& section) {
    for (const auto& field : kDeadlines) {
      Duration& deadline = config.deadlines.*field.member;
      deadline = std::chrono::milliseconds(
          section.integer(std::string(field.key), to_ms(deadline), 1, kDeadlineMsMax));
    }
  });
}

void read_metrics(ConfigReader& document, EngineConfig& config) {
  in_section(document, "metrics", [&](ConfigReader& section) {
    const ConfigNode* port = section.child("port");
    if (port != nullptr && !port->is_null())
      config.metrics.port = static_cast<int>(section.integer("port", 0, 0, 65535));
    config.metrics.address = section.string("address", config.metrics.address);
  });
}

void read_workers(ConfigReader& document, EngineConfig& config) {
  config.engine_id = document.string("engine_id", "");
  // The reference's switch; the format's name, which goes into the namespace, is ours to ask for.
  if (const ConfigNode* node = document.child("canonical_layout");
      node != nullptr &&
      document.boolean("canonical_layout", false) != config.identity.canonical_format.has_value())
    document.fail("canonical_layout", *node,
                  "true beside identity.canonical_format (such as \"v1-nhd\"), false without it");
  in_section(document, "workers", [&](ConfigReader& section) {
    WorkersConfig workers;
    // What the size of a chunk was derived with, if it was.
    const std::int64_t by_default = document.integer("world_size", 1, 1, kWorldSizeMax);
    workers.world_size =
        static_cast<std::uint32_t>(section.integer("world_size", by_default, 1, kWorldSizeMax));
    if (!section.has("world_size") && document.has("world_size"))
      config.origins["workers.world_size"] = "derived: world_size";
    workers.region_file = section.string("region_file", "");
    workers.socket = section.string("socket", "");
    if (!section.has("socket") && !config.engine_id.empty() && workers.region_file.empty()) {
      workers.socket = "@kv_offload-" + config.engine_id;
      config.origins["workers.socket"] = "derived: engine_id";
    }
    workers.join = std::chrono::milliseconds(
        section.integer("join_ms", to_ms(workers.join), 1, kDeadlineMsMax));
    config.workers = std::move(workers);
  });
  if (!config.workers && document.has("engine_id"))
    config.notes.push_back(
        "engine_id: has no effect: without workers the primary tier's memory is private to the "
        "process");
}

void read_identity(ConfigReader& document, EngineConfig& config) {
  in_section(document, "identity", [&](ConfigReader& section) {
    NamespaceIdentity& identity = config.identity;
    identity.model_name = section.string("model_name", identity.model_name);
    identity.dtype = section.string("dtype", identity.dtype);
    identity.inference_engine = section.string("inference_engine", identity.inference_engine);
    identity.tenant = section.string("tenant", identity.tenant);
    for (const auto& field : kIdentityIntegers)
      identity.*field.member = static_cast<std::uint32_t>(
          section.integer(std::string(field.key), identity.*field.member, field.min, field.max));
    identity.parallelism_agnostic =
        section.boolean("parallelism_agnostic", identity.parallelism_agnostic);
    identity.replicated_layout = section.boolean("replicated_layout", identity.replicated_layout);
    const ConfigNode* format = section.child("canonical_format");
    if (format != nullptr && !format->is_null())
      identity.canonical_format = section.string("canonical_format", "");
    read_cache_groups(section, config);
  });
}

void read_atomic_groups(ConfigReader& document, EngineConfig& config) {
  const ConfigNode* sets = document.child("atomic_groups");
  if (sets == nullptr || sets->is_null()) return;
  if (sets->list() == nullptr)
    return document.fail("atomic_groups", *sets, "a list of lists of cache-group indices");
  for (const ConfigNode& set : *sets->list()) {
    const std::string path = "atomic_groups[" + std::to_string(config.atomic_groups.size()) + "]";
    if (set.list() == nullptr)
      return document.fail(path, set, std::string(kAtomicGroupForms));
    auto& groups = config.atomic_groups.emplace_back();
    for (const ConfigNode& group : *set.list()) {
      const auto* index = std::get_if<std::int64_t>(&group.value());
      if (index == nullptr || *index < 0 || *index > kCacheGroupMax)
        return document.fail(path + "[" + std::to_string(groups.size()) + "]", group,
                             "an integer in [0, " + std::to_string(kCacheGroupMax) + "]");
      groups.push_back(static_cast<std::uint32_t>(*index));
    }
  }
}

void read_secondary_tiers(ConfigReader& document, EngineConfig& config) {
  const ConfigNode* tiers = document.child("secondary_tiers");
  if (tiers == nullptr) return;
  if (tiers->list() == nullptr)
    return document.fail("secondary_tiers", *tiers, "a list of objects");
  if (tiers->list()->size() > kTiersMax)
    return document.fail("secondary_tiers", *tiers,
                         "at most " + std::to_string(kTiersMax) + " tiers");
  for (std::size_t i = 0; i < tiers->list()->size(); ++i) {
    const ConfigNode& node = (*tiers->list())[i];
    const std::string path = "secondary_tiers[" + std::to_string(i) + "]";
    ConfigReader reader(node, path);
    if (reader.failed()) return document.fail(reader.finish()->detail);
    SecondaryTierConfig tier = read_tier(reader, *node.object(), config);
    tier.path = path;
    // finish() would refuse the tier's own keys, which only the tier knows.
    if (reader.failed()) return document.fail(reader.finish()->detail);
    config.secondary_tiers.push_back(std::move(tier));
  }
}

}  // namespace kv_offload::config_sections
