#pragma once

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/bench/options.hpp"
#include "kv_offload/bench/work_dir.hpp"

#include <cstdint>

namespace kv_offload::bench {

/// What a subcommand starts from where neither the configuration file nor an option says otherwise.
struct EngineDefaults {
  std::uint64_t chunk_bytes = 16 * 1024;
  std::uint64_t primary_bytes = std::uint64_t{512} << 20;
  std::uint32_t tokens_per_chunk = 0;
};

/// Configuration file, or defaults, with the options laid over it; tiers without `root_dir` get a
/// directory of their own in `dir`. Validated; errors are one line.
///
/// Without a configuration file and without secondary tiers the shares of the primary tier are set so
/// that nothing but its size decides what stays: no headroom, holds up to the whole tier.
Expected<EngineConfig> make_engine_config(const EngineOptions& options,
                                          const EngineDefaults& defaults, const WorkDir& dir);

}  // namespace kv_offload::bench
