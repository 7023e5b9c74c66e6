#include "kv_offload/bench/engine_setup.hpp"

#include "kv_offload/messages/tier_traits.hpp"

#include <string>
#include <utility>

namespace kv_offload::bench {
namespace {

EngineConfig default_config(const EngineOptions& options, const EngineDefaults& defaults) {
  EngineConfig config;
  config.chunk_bytes = defaults.chunk_bytes;
  config.cpu_bytes_to_use = defaults.primary_bytes;
  config.tokens_per_chunk = defaults.tokens_per_chunk;
  config.identity.model_name = "kv-offload-bench";
  config.log_level = "error";  // the table says the rest; a configuration file may ask for more
  if (options.tiers.empty()) {
    config.primary.headroom_share = 0;
    config.primary.hold_share = 1;
    config.primary.max_pinned_share = 0;
  }
  return config;
}

// Of an extent tier that no configuration describes: enough for the bundled traces.
constexpr std::int64_t kExtentBytes = std::int64_t{4} << 30;

std::optional<OffloadError> place_tiers(EngineConfig& config, const WorkDir& dir) {
  for (std::size_t t = 0; t < config.secondary_tiers.size(); ++t) {
    auto& tier = config.secondary_tiers[t];
    auto* keys = tier.node.object();
    const bool is_fs = tier.type == "fs", is_extent = tier.type == "extent";
    const char* place = is_extent ? "path" : "root_dir";
    if ((!is_fs && !is_extent) || keys == nullptr || keys->contains(place)) continue;
    auto root = dir.subdirectory(tier_label(static_cast<TierIndex>(t), tier.type));
    if (!root) return root.error();
    (*keys)[place] = ConfigNode(is_extent ? (*root / "chunks.extent").string() : root->string());
    if (is_extent) keys->try_emplace("capacity_bytes", ConfigNode(kExtentBytes));
  }
  return std::nullopt;
}

}  // namespace

Expected<EngineConfig> make_engine_config(const EngineOptions& options,
                                          const EngineDefaults& defaults, const WorkDir& dir) {
  auto loaded = options.config_file ? EngineConfig::load_file(*options.config_file)
                                    : Expected<EngineConfig>(default_config(options, defaults));
  if (!loaded) return loaded.error();
  EngineConfig config = std::move(*loaded);
  const std::uint64_t chunks_before = config.num_chunks();
  if (options.chunk_bytes) config.chunk_bytes = *options.chunk_bytes;
  if (options.primary_chunks)
    config.cpu_bytes_to_use = *options.primary_chunks * config.row_bytes();
  else if (options.chunk_bytes && options.config_file)
    config.cpu_bytes_to_use = chunks_before * config.row_bytes();
  if (options.eviction) config.eviction_policy = *options.eviction;
  if (options.admission)
    config.admission_policy = ConfigNode(ConfigNode::Object{{"type", ConfigNode(*options.admission)}});
  if (options.metrics_port) config.metrics.port = *options.metrics_port;
  for (const auto& type : options.tiers) {
    SecondaryTierConfig tier;
    tier.type = type;
    tier.path = "secondary_tiers[" + std::to_string(config.secondary_tiers.size()) + "]";
    config.secondary_tiers.push_back(std::move(tier));
  }
  if (auto error = place_tiers(config, dir)) return *error;
  if (auto error = config.validate()) return *error;
  return config;
}

}  // namespace kv_offload::bench
