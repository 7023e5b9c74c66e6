#include "kv_offload/actors/engine_config_fields.hpp"
#include "kv_offload/actors/engine_config_sections.hpp"
#include "kv_offload/messages/byte_size.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kv_offload::config_sections {

using namespace config_fields;

namespace {

enum class Kind { text, boolean };
struct KeyWithoutEffect {
  std::string_view key;
  Kind kind;
  std::string_view why;
};
constexpr std::array<KeyWithoutEffect, 4> kWithoutEffect{{
    {"spec_name", Kind::text, "there is one engine, and it is always tiered"},
    {"spec_module_path", Kind::text, "there is one engine, and it is always tiered"},
    {"cache_policy_module_path", Kind::text, "eviction policies are registered by the program"},
    {"self_describing_kv_events", Kind::boolean, "events carry keys only"},
}};

/// A name that only a module from outside could know is a slip where no module is named.
void check_spec_name(ConfigReader& document) {
  const ConfigNode* name = document.child("spec_name");
  const ConfigNode* module = document.child("spec_module_path");
  const bool has_module = module != nullptr && !module->is_null();
  if (name != nullptr && !name->is_null() && !has_module)
    (void)document.choice("spec_name", "", choices(kSpecNames));
}

/// Tokens per block of the serving engine, if every cache group says the same.
std::optional<std::int64_t> common_tokens_per_block(const NamespaceIdentity& identity) {
  if (identity.kv_cache_groups.empty()) return std::nullopt;
  const std::uint32_t first = identity.kv_cache_groups.front().tokens_per_block;
  for (const auto& group : identity.kv_cache_groups)
    if (group.tokens_per_block != first) return std::nullopt;
  return first;
}

/// blocks_per_chunk, directly or as block_size ÷ tokens per block; 1 if neither is given.
std::int64_t read_blocks_per_chunk(ConfigReader& document,
                                   std::optional<std::int64_t> tokens_per_block) {
  const std::int64_t blocks = document.integer("blocks_per_chunk", 1, 1, 1 << 20);
  const ConfigNode* size = document.child("block_size");
  if (size == nullptr) return blocks;
  if (document.has("blocks_per_chunk"))
    return document.fail("block_size", *size, "only one of block_size and blocks_per_chunk"), 1;
  const std::int64_t tokens = document.integer("block_size", 1, 1, kTokensPerChunkMax);
  if (document.failed()) return 1;
  if (!tokens_per_block) {
    document.fail("block_size", *size,
                  "identity.kv_cache_groups with one tokens_per_block to divide it by, or "
                  "blocks_per_chunk");
    return 1;
  }
  if (tokens % *tokens_per_block != 0)
    document.fail("block_size", *size,
                  "a multiple of tokens_per_block " + std::to_string(*tokens_per_block));
  return tokens / *tokens_per_block;
}

}  // namespace

void read_chunk_size(ConfigReader& document, EngineConfig& config) {
  constexpr std::array<const char*, 4> kSources{
      {"block_size", "blocks_per_chunk", "worker_kv_bytes_per_block", "world_size"}};
  const char* source = nullptr;
  for (const char* key : kSources)
    if (const ConfigNode* node = document.child(key); node != nullptr && source == nullptr)
      source = key;
  config.chunk_bytes = read_bytes(document, "chunk_bytes", 0, kChunkBytesMin, kChunkBytesMax);
  if (source == nullptr) return;
  if (document.has("chunk_bytes"))
    return document.fail(source, *document.child(source),
                         "it absent beside chunk_bytes, which already says the size");
  if (!document.has("worker_kv_bytes_per_block"))
    return document.fail(source, *document.child(source),
                         "worker_kv_bytes_per_block beside it to derive chunk_bytes, or "
                         "chunk_bytes instead");

  const auto tokens_per_block = common_tokens_per_block(config.identity);
  const std::int64_t blocks = read_blocks_per_chunk(document, tokens_per_block);
  const std::uint64_t block_bytes =
      read_bytes(document, "worker_kv_bytes_per_block", 1, 1, kChunkBytesMax);
  const std::int64_t world = document.integer("world_size", 1, 1, 65536);
  if (document.failed()) return;
  // Identical bytes on every rank are kept once.
  const std::uint64_t copies =
      config.identity.replicated_layout ? 1 : static_cast<std::uint64_t>(world);
  // At most 2^32 · 2^16 · 2^20: no overflow before the comparison as a double.
  const double bytes =
      static_cast<double>(block_bytes) * static_cast<double>(copies) * static_cast<double>(blocks);
  const std::string product = std::to_string(block_bytes) + " B/block x " + std::to_string(copies) +
                              " workers x " + std::to_string(blocks) + " blocks";
  if (bytes < static_cast<double>(kChunkBytesMin) || bytes > static_cast<double>(kChunkBytesMax))
    return document.fail("worker_kv_bytes_per_block: " + product + " is not allowed; expected " +
                         "chunk_bytes in [" + format_bytes(kChunkBytesMin) + ", " +
                         format_bytes(kChunkBytesMax) + "]");
  config.chunk_bytes = block_bytes * copies * static_cast<std::uint64_t>(blocks);
  config.origins["chunk_bytes"] = "derived: " + product;
  const ConfigNode* identity = document.child("identity");
  if (identity == nullptr || identity->find("blocks_per_file") == nullptr) {
    config.identity.blocks_per_file = static_cast<std::uint32_t>(blocks);
    config.origins["identity.blocks_per_file"] = "derived: blocks per chunk";
  }
  if (!document.has("tokens_per_chunk") && tokens_per_block &&
      blocks * *tokens_per_block <= kTokensPerChunkMax) {
    config.tokens_per_chunk = static_cast<std::uint32_t>(blocks * *tokens_per_block);
    config.origins["tokens_per_chunk"] = "derived: " + std::to_string(blocks) + " blocks x " +
                                         std::to_string(*tokens_per_block) + " tokens";
  }
}

void read_keys_without_effect(ConfigReader& document, EngineConfig& config) {
  check_spec_name(document);
  for (const auto& [name, kind, why] : kWithoutEffect) {
    const std::string key(name);
    const ConfigNode* node = document.child(key);
    if (node == nullptr) continue;
    if (kind == Kind::text && !node->is_null()) (void)document.string(key, "");
    if (kind == Kind::boolean) (void)document.boolean(key, false);
    config.notes.push_back(key + ": has no effect: " + std::string(why));
  }
  if (document.has("max_tracker_size") && config.store_threshold < kStoreThresholdMin)
    config.notes.push_back("max_tracker_size: has no effect: with store_threshold " +
                           std::to_string(config.store_threshold) +
                           " every chunk is stored at first sight, and no lookups are counted");
  if (const ConfigNode* node = document.child("backpressure")) {
    if (node->object() == nullptr && !node->is_null())
      document.fail("backpressure", *node, "an object or null");
    config.backpressure = *node;
  }
}

}  // namespace kv_offload::config_sections
