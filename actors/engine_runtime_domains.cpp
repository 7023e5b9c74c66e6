#include "kv_offload/actors/engine_config_domains.hpp"
#include "kv_offload/actors/engine_runtime.hpp"
#include "kv_offload/tiers/topology/pin_thread.hpp"

#include <string>
#include <utility>

// The engine's NUMA domains: how many, which rows are whose, and how their actors' threads stay where they belong.
namespace kv_offload {

Expected<Ok> EngineRuntime::start_domains(ActorEnvironment& env) {
  auto plan = resolve_domains(config_);
  if (!plan) return plan.error();
  plan_ = std::move(plan).value();
  const auto domains = plan_.num_domains();
  const auto chunks = static_cast<ChunkId>(config_.num_chunks());
  parts_.map = DomainMap{domains, chunks / (ChunkId{domains} * domains)};
  if (domains == 1) return Ok{};
  parts_.detached = true;
  env.log("info", "domains: " + std::to_string(domains) +
                      (plan_.pins ? ", pinned to their nodes" : ", not pinned") + "; " +
                      std::to_string(parts_.map.slice_chunks) +
                      " chunks for the keys of one in the memory of another");
  if (!plan_.pins) return Ok{};
  env.is_in_domain = [plan = plan_](DomainId domain) { return runs_on(plan.domains[domain]); };
  env.enter_domain = [plan = plan_, log = env.log](DomainId domain, std::string_view actor) {
    if (const auto why = pin_thread(plan.domains[domain], std::string(actor)); !why.empty())
      log("warn", std::string(actor) + " of domain " + std::to_string(domain) + ": " + why);
  };
  return Ok{};
}

}  // namespace kv_offload
