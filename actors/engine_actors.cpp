#include "kv_offload/actors/engine_actors.hpp"

#include "kv_offload/actors/engine_config_admission.hpp"
#include "kv_offload/actors/job_tracker_actor.hpp"
#include "kv_offload/actors/primary_tier_actor.hpp"
#include "kv_offload/actors/scheduler_step_actor.hpp"
#include "kv_offload/actors/secondary_tier_actor.hpp"
#include "kv_offload/tiers/eviction/eviction_registry.hpp"

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>

namespace kv_offload {
namespace {

std::uint32_t part_of(std::uint32_t all, DomainId domains) {
  return std::max<std::uint32_t>(1, all / domains);
}

/// An actor of one domain: with a thread of its own where it is to stay on the domain's processors.
template <class Actor, class Fun, class Deps>
Actor spawn_in_domain(caf::actor_system& system, bool detached, Fun fun, Deps deps) {
  if (detached) return system.spawn<caf::detached>(fun, std::move(deps));
  return system.spawn(fun, std::move(deps));
}

Expected<std::shared_ptr<PrimaryCache>> make_home(const EngineConfig& config,
                                                  const EngineParts& parts, const DomainMap& map,
                                                  DomainId domain) {
  std::vector<std::unique_ptr<EvictionPolicy>> policies;
  for (DomainId slice = 0; slice < map.domains; ++slice) {
    auto policy = eviction_policies().make(config.eviction_policy, map.slice_chunks);
    if (!policy) return policy.error();
    policies.push_back(std::move(policy).value());
  }
  const auto share = [&](double part) {
    return static_cast<ChunkId>(config.share_chunks(part) / map.domains);
  };
  PrimaryCache::Limits limits;
  limits.num_chunks = map.home_chunks();
  limits.first_chunk = map.first_chunk(domain);
  limits.headroom_chunks = share(config.primary.headroom_share);
  // One pool in the cache; landed promotions are bounded by their own share on top of it.
  limits.hold_chunks_max = share(config.primary.hold_share + config.primary.max_pinned_share);
  limits.events = config.enable_kv_events;
  return std::make_shared<PrimaryCache>(limits, std::move(policies), parts.view.in_use);
}

Expected<PrimaryTierActor> spawn_primary(caf::actor_system& system, const EngineConfig& config,
                                         const EngineParts& parts, const DomainMap& map,
                                         DomainId domain, const EngineMetricsActor& metrics) {
  auto cache = make_home(config, parts, map, domain);
  if (!cache) return cache.error();
  PrimaryTierDeps deps;
  deps.env = parts.env;
  deps.cache = std::move(cache).value();
  deps.view = parts.view;
  deps.metrics = metrics;
  deps.unread_chunks_max =
      static_cast<ChunkId>(config.share_chunks(config.primary.max_pinned_share) / map.domains);
  deps.unread_ttl = config.deadlines.unread;
  deps.pin_unread = config.primary.pin_unread == PrimaryConfig::PinUnread::until_read;
  deps.store_threshold = config.store_threshold;
  deps.max_tracker_size = part_of(config.max_tracker_size, map.domains);
  if (map.domains == 1) deps.atomic_groups = AtomicGroups(config.atomic_groups);
  deps.domain = domain;
  deps.slices = map.domains;
  return spawn_in_domain<PrimaryTierActor>(system, parts.detached, primary_tier_actor,
                                           std::move(deps));
}

/// What the admission controller wants to be asked and told: messages that else are not sent.
struct AdmissionWants {
  explicit AdmissionWants(const AdmissionLedger& ledger)
      : lookup_gate(ledger.lookup_gates().options()),
        gates_lookups(lookup_gate.mode != GateMode::off || ledger.policy().bounds_lookups()),
        weighs_device(ledger.policy().weighs_device()) {}

  LookupGateOptions lookup_gate;
  bool gates_lookups, weighs_device;
};

/// All but who they are: the same for the steps of all domains.
SchedulerStepDeps step_deps(const EngineConfig& config, const EngineParts& parts,
                            const DomainMap& map, const EngineActors& actors,
                            const AdmissionWants& wants) {
  SchedulerStepDeps step;
  step.env = parts.env;
  step.primaries = actors.primaries;
  step.map = map;
  step.admission = actors.admission;
  step.tracker = actors.tracker;
  step.tiers = actors.tiers;
  step.traits = parts.traits;
  step.metrics = actors.metrics;
  step.chunk_bytes = config.row_bytes();
  step.jobs_max = part_of(config.jobs_max, map.domains);
  step.requests_max = part_of(config.requests_max, map.domains);
  step.probes_max = config.probes_max;
  step.tokens_per_chunk = config.tokens_per_chunk;
  step.offload_prompt_only = config.offload_prompt_only;
  step.atomic_groups = AtomicGroups(config.atomic_groups);
  step.gates_lookups = wants.gates_lookups && config.tokens_per_chunk > 0;
  step.weighs_device = wants.weighs_device && config.tokens_per_chunk > 0;
  step.min_load_tokens = wants.lookup_gate.min_load_tokens;
  step.compute_tokens_per_s = config.compute_tokens_per_s;
  step.deadlines = {config.deadlines.load,   config.deadlines.store, config.deadlines.probe,
                    config.deadlines.lookup, config.deadlines.drain, config.deadlines.copy};
  step.blocks_per_chunk = config.identity.blocks_per_file;
  step.order_workers = parts.order_workers;
  return step;
}

/// Domain 0 leads, and tells what is of the whole engine.
void spawn_steps(caf::actor_system& system, const EngineParts& parts,
                 const SchedulerStepDeps& common, EngineActors& actors) {
  for (DomainId domain = 0; domain < common.map.domains; ++domain) {
    auto step = common;
    step.domain = domain;
    if (domain == 0) {
      step.external_expired = parts.external_expired;
      step.worker_stats = parts.worker_stats;
      step.revise_workers = parts.revise_workers;
    }
    actors.steps.push_back(spawn_in_domain<SchedulerStepActor>(
        system, parts.detached, scheduler_step_actor, std::move(step)));
  }
  if (actors.steps.size() == 1) return;
  MeetPeers peers;
  for (std::size_t d = 1; d < actors.steps.size(); ++d)
    peers.peers.push_back(caf::actor_cast<caf::strong_actor_ptr>(actors.steps[d]));
  caf::anon_send(actors.steps.front(), std::move(peers));
}

}  // namespace

Expected<EngineActors> spawn_engine_actors(caf::actor_system& system, const EngineConfig& config,
                                           const EngineParts& parts) {
  EngineActors actors;
  const auto map = parts.map.slice_chunks > 0
                       ? parts.map
                       : DomainMap{1, static_cast<ChunkId>(config.num_chunks())};
  auto admission = build_admission(config);
  if (!admission) return admission.error();
  std::vector<std::uint32_t> pin_chunks;
  for (std::size_t t = 0; t < parts.tiers.size(); ++t)
    pin_chunks.push_back(static_cast<ChunkId>(config.share_chunks(config.pin_share(t))));
  const std::vector<std::string> tier_labels(parts.labels.begin() + 1, parts.labels.end());

  actors.metrics = system.spawn(
      engine_metrics_actor,
      EngineMetricsDeps{parts.env, parts.board, parts.labels, config.row_bytes(),
                        config.tokens_per_chunk,
                        config.workers && parts.worker_sink ? config.workers->world_size : 0,
                        map.domains, parts.memory});
  for (DomainId domain = 0; domain < map.domains; ++domain) {
    auto primary = spawn_primary(system, config, parts, map, domain, actors.metrics);
    if (!primary) return primary.error();
    actors.primaries.push_back(std::move(primary).value());
  }
  auto ledger = std::make_shared<AdmissionLedger>(std::move(admission->policy), std::move(pin_chunks),
                                                  admission_environment(config));
  const AdmissionWants wants(*ledger);
  actors.admission =
      system.spawn(admission_controller_actor,
                   AdmissionControllerDeps{parts.env, std::move(ledger), actors.metrics,
                                           tier_labels, parts.admission_keeping});
  actors.tracker = system.spawn(
      job_tracker_actor,
      JobTrackerDeps{parts.env, actors.primaries, map, actors.admission, actors.metrics,
                     tier_labels, std::max(config.deadlines.load, config.deadlines.store)});
  for (std::size_t t = 0; t < parts.tiers.size(); ++t) {
    auto actor = system.spawn(
        secondary_tier_actor,
        SecondaryTierDeps{parts.env, static_cast<TierIndex>(t), parts.tiers[t], parts.sinks[t],
                          t < parts.gates.size() ? parts.gates[t] : nullptr, actors.tracker, actors.metrics,
                          config.probes_max, config.deadlines.probe, config.deadlines.drain});
    caf::anon_send(actors.tracker,
                   TierUp{static_cast<TierIndex>(t), caf::actor_cast<caf::strong_actor_ptr>(actor)});
    parts.sinks[t]->open(actor);
    actors.tiers.push_back(std::move(actor));
  }
  spawn_steps(system, parts, step_deps(config, parts, map, actors, wants), actors);
  for (const auto& gate : parts.gates) gate->open(actors.steps.front());
  if (parts.worker_sink) parts.worker_sink->open(actors.steps);
  actors.supervisor = system.spawn(
      engine_supervisor_actor,
      EngineSupervisorDeps{parts.env, parts.failed, actors.steps, actors.tracker, actors.admission,
                           actors.primaries, actors.metrics, actors.tiers});
  return actors;
}

}  // namespace kv_offload
