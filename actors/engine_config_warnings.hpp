#pragma once

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/messages/config_node.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

// Inside EngineConfig::warnings only.
namespace kv_offload::config_warnings {

using Warnings = std::vector<std::string>;

/// The text under a key, or null.
inline const std::string* string_of(const ConfigNode& node, const std::string& key) {
  const ConfigNode* value = node.find(key);
  return value != nullptr ? std::get_if<std::string>(&value->value()) : nullptr;
}

/// Memory of the machine or of our container, whichever is smaller; nullopt if neither is known.
std::optional<std::uint64_t> memory_bytes();

/// What the secondary tiers' own keys, and the tiers together, may harm.
void warn_about_tiers(const EngineConfig& config, Warnings& warnings);

}  // namespace kv_offload::config_warnings
