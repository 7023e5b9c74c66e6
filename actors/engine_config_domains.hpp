#pragma once

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/tiers/topology/domain_plan.hpp"

#include <string>
#include <vector>

namespace kv_offload {

/// Reads the topology and plans `config.domains` on it. Errors are one line that names the field: `topology`,
/// `domains`, or `cpu_bytes_to_use` where so many domains leave it no rows. Takes milliseconds.
Expected<DomainPlan> planned_domains(const EngineConfig& config);

/// The same, and sets `config.num_domains`, which the number of chunks and everything shared out of it follow. Once per
/// engine, before anything is made by the configuration: the process's affinity may be another the next time.
Expected<DomainPlan> resolve_domains(EngineConfig& config);

/// What may harm in a plan: one line each. `config` is resolved.
void warn_about_domains(const EngineConfig& config, const DomainPlan& plan,
                        std::vector<std::string>& warnings);

}  // namespace kv_offload
