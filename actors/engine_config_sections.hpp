#pragma once

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/messages/config_node.hpp"

namespace kv_offload::config_sections {

/// Parts of the JSON document, each reading its keys from the reader of the whole document into
/// `config`. The first problem stays in the reader as one line; the rest of the part is then moot.

void read_primary(ConfigReader& document, EngineConfig& config);
void read_atomic_groups(ConfigReader& document, EngineConfig& config);
void read_secondary_tiers(ConfigReader& document, EngineConfig& config);
void read_identity(ConfigReader& document, EngineConfig& config);
void read_deadlines(ConfigReader& document, EngineConfig& config);
void read_metrics(ConfigReader& document, EngineConfig& config);
/// Call it after read_chunk_size.
void read_workers(ConfigReader& document, EngineConfig& config);
/// chunk_bytes, or the keys of a serving engine that it follows from. Call it after read_identity.
void read_chunk_size(ConfigReader& document, EngineConfig& config);
/// Keys of other engines that are welcome here but change nothing; each leaves a note.
void read_keys_without_effect(ConfigReader& document, EngineConfig& config);

}  // namespace kv_offload::config_sections
