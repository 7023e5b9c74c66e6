#include "kv_offload/actors/engine_config_domains.hpp"

#include <utility>

namespace kv_offload {
namespace {

/// Below this a domain runs out of rows near one device while it has some near another.
constexpr std::uint64_t kSliceChunksAdvised = 64;
/// scheduler_step and primary_tier have a thread each where domains are pinned.
constexpr std::size_t kThreadsOfDomain = 2;

std::uint64_t slices_of(std::uint32_t domains) { return std::uint64_t{domains} * domains; }

}  // namespace

Expected<DomainPlan> planned_domains(const EngineConfig& config) {
  const auto topology = read_topology(config.topology);
  if (!topology) return topology.error();
  auto plan = plan_domains(config.domains, *topology);
  if (!plan) return plan;
  const std::uint64_t row = config.row_bytes(), slices = slices_of(plan->num_domains());
  if (row > 0 && config.cpu_bytes_to_use / row < slices)
    return {OffloadErrc::invalid_config,
            "cpu_bytes_to_use: " + std::to_string(config.cpu_bytes_to_use) +
                " is not allowed; expected at least " + std::to_string(slices * row) +
                ", a row for each of " + std::to_string(plan->num_domains()) +
                " domains in the memory of each, or domains: off"};
  return plan;
}

Expected<DomainPlan> resolve_domains(EngineConfig& config) {
  config.num_domains = 1;
  auto plan = planned_domains(config);
  if (plan) config.num_domains = plan->num_domains();
  return plan;
}

void warn_about_domains(const EngineConfig& config, const DomainPlan& plan,
                        std::vector<std::string>& warnings) {
  warnings.insert(warnings.end(), plan.notes.begin(), plan.notes.end());
  if (!config.topology.empty())
    warnings.push_back("topology: " + config.topology +
                       " is not of this machine: no thread and no memory is bound by it");
  if (config.num_domains == 1) return;
  const std::uint64_t slice = config.num_chunks() / slices_of(config.num_domains);
  if (slice < kSliceChunksAdvised)
    warnings.push_back("domains: " + std::to_string(config.num_domains) + " leave " +
                       std::to_string(slice) + " of " + std::to_string(config.num_chunks()) +
                       " chunks for the keys of one domain in the memory of another; below " +
                       std::to_string(kSliceChunksAdvised) + " many chunks lie far from their device");
  for (const auto& domain : plan.domains)
    if (plan.pins && domain.cpus.size() < kThreadsOfDomain)
      warnings.push_back("domains: NUMA node " + std::to_string(domain.node) + " has " +
                         std::to_string(domain.cpus.size()) + " CPU" +
                         (domain.cpus.size() == 1 ? "" : "s") + " for this process, and " +
                         std::to_string(kThreadsOfDomain) + " threads are pinned there");
}

}  // namespace kv_offload
