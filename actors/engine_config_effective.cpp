#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/actors/engine_config_domains.hpp"
#include "kv_offload/actors/engine_config_effective_rows.hpp"
#include "kv_offload/actors/engine_config_fields.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload {
namespace {

using namespace config_fields;

void add_primary(EffectiveRows& rows, const EngineConfig& config, const EngineConfig& defaults) {
  rows.number("chunk_bytes", config.chunk_bytes, defaults.chunk_bytes, "bytes");
  rows.derived("row_bytes", std::to_string(config.row_bytes()), "bytes",
               "chunk_bytes rounded up to " + std::to_string(kRowAlignment));
  rows.number("cpu_bytes_to_use", config.cpu_bytes_to_use, defaults.cpu_bytes_to_use, "bytes");
  rows.derived("num_chunks", std::to_string(config.num_chunks()), "chunks",
               config.num_domains == 1
                   ? "cpu_bytes_to_use / row_bytes"
                   : "cpu_bytes_to_use / row_bytes, down to a multiple of num_domains squared");
  rows.text("eviction_policy", config.eviction_policy, defaults.eviction_policy);
  for (const auto& field : kShares) {
    const double share = config.primary.*field.member;
    rows.share("primary." + std::string(field.key), share, defaults.primary.*field.member);
    rows.share_chunks("primary." + std::string(field.chunks_key), share);
  }
  rows.flag("primary.hold", config.primary.hold, defaults.primary.hold);
  const auto pin_unread = config.primary.pin_unread;
  rows.add("primary.pin_unread",
           pin_unread == PrimaryConfig::PinUnread::never ? "never" : "until_read",
           pin_unread == defaults.primary.pin_unread);
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

void add_workers(EffectiveRows& rows, const EngineConfig& config) {
  if (!config.workers) return rows.add("workers", "(none)", true);
  const WorkersConfig& workers = *config.workers;
  const WorkersConfig defaults;
  rows.number("workers.world_size", workers.world_size, defaults.world_size, "processes");
  rows.add("workers.socket", workers.socket.empty() ? "(none)" : workers.socket,
           workers.socket.empty());
  rows.add("workers.region_file", workers.region_file.empty() ? "(memfd)" : workers.region_file,
           workers.region_file.empty());
  rows.number("workers.join_ms", to_ms(workers.join), to_ms(defaults.join), "ms");
  rows.derived("workers.blocks_per_chunk", std::to_string(config.identity.blocks_per_file), "blocks", "identity.blocks_per_file");
  rows.derived("workers.layout", std::string(to_string(config.chunk_layout())), "",
               config.identity.canonical_format    ? "identity.canonical_format is set"
               : config.identity.replicated_layout ? "identity.replicated_layout is set"
                                                   : "neither canonical nor replicated");
}

/// @param plan  an error where this machine has not what is wanted, which validate() says
void add_domains(EffectiveRows& rows, const EngineConfig& config,
                 const Expected<DomainPlan>& plan) {
  if (!plan) return;
  std::string nodes;
  for (const auto& domain : plan->domains)
    nodes += (nodes.empty() ? "" : ", ") + std::to_string(domain.node);
  const bool one = config.num_domains == 1;
  rows.derived(
      "num_domains", std::to_string(config.num_domains), "domains",
      one ? "memory and threads are bound to no NUMA node"
          : (plan->pins ? "pinned to NUMA nodes " : "not pinned, for NUMA nodes ") + nodes);
  if (one) return;
  const auto slices = std::uint64_t{config.num_domains} * config.num_domains;
  rows.derived("slice_chunks", std::to_string(config.num_chunks() / slices), "chunks",
               "num_chunks / num_domains squared: of a domain's keys in one node's memory");
}

void add_engine(EffectiveRows& rows, const EngineConfig& config, const EngineConfig& defaults) {
  for (const auto& field : kIntegers)
    rows.number(std::string(field.key), config.*field.member, defaults.*field.member, field.unit);
  for (const auto& field : kDeadlines)
    rows.number("deadlines." + std::string(field.key), to_ms(config.deadlines.*field.member),
                to_ms(defaults.deadlines.*field.member), "ms");
  for (const auto& field : kBooleans)
    rows.flag(std::string(field.key), config.*field.member, defaults.*field.member);
  rows.text("domains", config.domains, defaults.domains);
  rows.add("topology", config.topology.empty() ? "(this machine)" : config.topology,
           config.topology.empty());
  rows.text("io", config.io, defaults.io);
  rows.text("log_level", config.log_level, defaults.log_level);
  const auto& port = config.metrics.port;
  rows.add("metrics.port",
           !port        ? "(no server)"
           : *port == 0 ? "any free"
                        : std::to_string(*port),
           !port);
  rows.text("metrics.address", config.metrics.address, defaults.metrics.address);
  rows.add("engine_id", config.engine_id.empty() ? "(none)" : config.engine_id,
           config.engine_id.empty());
}

}  // namespace

std::vector<EngineConfig::Effective> EngineConfig::effective() const {
  const EngineConfig defaults;
  EngineConfig here = *this;
  const auto plan = resolve_domains(here);
  EffectiveRows rows(here);
  add_primary(rows, here, defaults);
  add_tier_rows(rows, here);
  add_admission_rows(rows, here);
  rows.add("admission_state_file", admission_state_file.empty() ? "(none)" : admission_state_file,
           admission_state_file.empty());
  add_identity(rows, here);
  add_atomic_groups(rows, here);
  add_workers(rows, here);
  add_engine(rows, here, defaults);
  add_domains(rows, here, plan);
  return rows.take();
}

}  // namespace kv_offload
