#include "kv_offload/actors/engine_config_fields.hpp"
#include "kv_offload/actors/engine_config_places.hpp"
#include "kv_offload/actors/engine_config_warnings.hpp"
#include "kv_offload/messages/byte_size.hpp"
#include "kv_offload/tiers/example/example_tier.hpp"
#include "kv_offload/tiers/obj/obj_config.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>

namespace kv_offload {
namespace {

using namespace config_fields;
using namespace config_warnings;

/// Of the index of a file tier with a capacity, per chunk: the least of what tiers/fs/README.md says.
constexpr std::uint64_t kFsIndexBytes = 67;

bool is_off(const ConfigNode* node) {
  if (node == nullptr) return false;
  const auto* b = std::get_if<bool>(&node->value());
  const auto* s = std::get_if<std::string>(&node->value());
  return (b != nullptr && !*b) || (s != nullptr && *s == "off");
}

void warn_about_checksums(const EngineConfig& config, Warnings& warnings) {
  for (std::size_t i = 0; i < config.secondary_tiers.size(); ++i)
    if (is_off(config.secondary_tiers[i].node.find("checksum")))
      warnings.push_back(
          tier_path(i) +
          ".checksum: off: damaged or misplaced bytes are served as if they were right");
}

void warn_about_directories(const EngineConfig& config, std::size_t i, Warnings& warnings) {
  const auto& tiers = config.secondary_tiers;
  const std::string* root = string_of(tiers[i].node, "root_dir");
  if (root == nullptr) return;
  for (std::size_t j = 0; j < i; ++j) {
    const std::string* other = string_of(tiers[j].node, "root_dir");
    if (other != nullptr && canonical_place(*other) == canonical_place(*root))
      warnings.push_back(tier_path(i) + ".root_dir: the same directory as " + tier_path(j) +
                         ": one copy is counted as two, and each tier finds what the other wrote");
  }
  if (!std::filesystem::path(*root).is_absolute())
    warnings.push_back(tier_path(i) + ".root_dir: " + *root +
                       " depends on the working directory; an absolute path does not");
}

/// What bounds a tier: the key that says so, and how many bytes come to it.
struct Capacity {
  std::string path;
  std::optional<std::uint64_t> bytes;  ///< none: unbounded, or not known to us
};

Capacity capacity_of(const EngineConfig& config, std::size_t i) {
  const SecondaryTierConfig& tier = config.secondary_tiers[i];
  const auto number_of = [&](const char* key) -> std::optional<std::uint64_t> {
    const ConfigNode* node = tier.node.find(key);
    if (node == nullptr) return std::nullopt;
    if (const auto* n = std::get_if<std::int64_t>(&node->value()); n != nullptr && *n > 0)
      return static_cast<std::uint64_t>(*n);
    if (const auto* s = std::get_if<std::string>(&node->value()))
      if (const auto parsed = parse_bytes(*s)) return *parsed;
    return std::nullopt;
  };
  if (tier.type == "example") {
    const auto chunks = number_of("chunks_max").value_or(ExampleConfig{}.chunks_max);
    return {tier_path(i) + ".chunks_max", chunks * config.row_bytes()};
  }
  return {tier_path(i) + ".capacity_bytes", number_of("capacity_bytes")};
}

/// A store goes to every tier, so a tier below that holds less than one above is never asked for
/// anything that the upper one has not.
void warn_about_capacities(const EngineConfig& config, Warnings& warnings) {
  std::string above = "the primary tier's";
  std::uint64_t above_bytes = config.num_chunks() * config.row_bytes();
  for (std::size_t i = 0; i < config.secondary_tiers.size(); ++i) {
    const Capacity own = capacity_of(config, i);
    if (config.secondary_tiers[i].type == "fs" &&
        config.secondary_tiers[i].node.find("capacity_bytes") == nullptr)
      warnings.push_back(tier_path(i) + ".capacity_bytes: not set: the directory grows by " +
                         format_bytes(config.row_bytes()) +
                         " for every new chunk until the disk is full");
    if (!own.bytes) continue;
    if (*own.bytes < above_bytes)
      warnings.push_back(own.path + ": " + format_bytes(*own.bytes) + " is less than " + above +
                         " " + format_bytes(above_bytes) +
                         ": it can hold nothing that the tier above it does not");
    above = tier_path(i) + "'s";
    above_bytes = *own.bytes;
  }
}

/// A key that waits for another one, and an index that the machine may have no room for.
void warn_about_bounds(const EngineConfig& config, std::size_t i, Warnings& warnings) {
  if (config.secondary_tiers[i].type != "fs") return;
  const ConfigNode& node = config.secondary_tiers[i].node;
  const Capacity capacity = capacity_of(config, i);
  if (const std::string* policy = string_of(node, "eviction_policy");
      policy != nullptr && node.find("capacity_bytes") == nullptr)
    warnings.push_back(tier_path(i) + ".eviction_policy: " + *policy +
                       " has no effect without capacity_bytes: nothing is ever evicted");
  const auto memory = memory_bytes();
  if (!capacity.bytes || !memory || config.row_bytes() == 0) return;
  const std::uint64_t chunks = *capacity.bytes / config.row_bytes();
  if (chunks * kFsIndexBytes <= *memory / 2) return;
  warnings.push_back(capacity.path + ": " + format_bytes(*capacity.bytes) + " is room for " +
                     counted(chunks, "chunk") + ": their index grows to about " +
                     std::to_string((chunks * kFsIndexBytes) >> 20) +
                     " MiB, more than half of the " + std::to_string(*memory >> 20) +
                     " MiB of memory here");
}

/// What an object store's way gives away.
void warn_about_stores(const EngineConfig& config, std::size_t i, Warnings& warnings) {
  const SecondaryTierConfig& tier = config.secondary_tiers[i];
  if (tier.type != "obj") return;
  const auto obj = parse_obj_config(tier.node, tier_path(i), config.row_bytes());
  if (!obj) return;
  for (std::size_t j = 0; j < i; ++j) {
    if (config.secondary_tiers[j].type != "obj") continue;
    const auto other =
        parse_obj_config(config.secondary_tiers[j].node, tier_path(j), config.row_bytes());
    if (other && to_string(other->place) == to_string(obj->place) && other->prefix == obj->prefix)
      warnings.push_back(tier_path(i) + ".prefix: the same bucket and prefix as " + tier_path(j) +
                         ": every chunk is sent twice");
  }
  const bool is_here = obj->place.host.starts_with("127.") ||
                       obj->place.host.starts_with("localhost") ||
                       obj->place.host.starts_with("[::1]");
  if (obj->place.scheme == "http" && !is_here)
    warnings.push_back(tier_path(i) + ".store_config.scheme: http to " + obj->place.host +
                       ": chunks travel unencrypted, and whoever sits on the way can change them");
  if (obj->insecure_skip_verify)
    warnings.push_back(tier_path(i) +
                       ".store_config.insecure_skip_verify: true: any certificate is taken for " +
                       obj->place.host + "'s");
}

}  // namespace

void config_warnings::warn_about_tiers(const EngineConfig& config, Warnings& warnings) {
  const auto& tiers = config.secondary_tiers;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    warn_about_directories(config, i, warnings);
    warn_about_bounds(config, i, warnings);
    warn_about_stores(config, i, warnings);
    const ConfigNode* events = tiers[i].node.find("enable_kv_events");
    const auto* on = events != nullptr ? std::get_if<bool>(&events->value()) : nullptr;
    if (on != nullptr && *on && !config.enable_kv_events)
      warnings.push_back(tier_path(i) +
                         ".enable_kv_events: true has no effect while the engine's own "
                         "enable_kv_events is false");
  }
  warn_about_capacities(config, warnings);
  warn_about_checksums(config, warnings);
  if (!tiers.empty() && config.identity.model_name == NamespaceIdentity{}.model_name)
    warnings.push_back(
        "identity.model_name: the default \"" + config.identity.model_name +
        "\": engines of different models that share a tier would share one namespace");
}

}  // namespace kv_offload
