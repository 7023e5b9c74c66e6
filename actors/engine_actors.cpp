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

namespace kv_offload {
Expected<EngineActors> spawn_engine_actors(caf::actor_system& system, const EngineConfig& config,
                                           const EngineParts& parts) {
  EngineActors actors;
  const auto chunks = config.num_chunks();
  auto policy = eviction_policies().make(config.eviction_policy, static_cast<ChunkId>(chunks));
  if (!policy) return policy.error();
  auto admission = build_admission(config);
  if (!admission) return admission.error();
  const auto share = [&](double part) { return static_cast<ChunkId>(config.share_chunks(part)); };
  std::vector<std::uint32_t> pin_chunks;
  for (std::size_t t = 0; t < parts.tiers.size(); ++t)
    pin_chunks.push_back(share(config.pin_share(t)));

  PrimaryCache::Limits limits;
  limits.num_chunks = static_cast<ChunkId>(chunks);
  limits.headroom_chunks = share(config.primary.headroom_share);
  // One pool in the cache; landed promotions are bounded by their own share on top of it.
  limits.hold_chunks_max = share(config.primary.hold_share + config.primary.max_pinned_share);
  limits.events = config.enable_kv_events;

  actors.metrics = system.spawn(
      engine_metrics_actor,
      EngineMetricsDeps{parts.env, parts.board, parts.labels, config.row_bytes(),
                        config.tokens_per_chunk,
                        config.workers && parts.worker_sink ? config.workers->world_size : 0});
  PrimaryTierDeps primary;
  primary.env = parts.env;
  primary.cache = std::make_shared<PrimaryCache>(limits, std::move(policy).value(), parts.view.in_use);
  primary.view = parts.view;
  primary.metrics = actors.metrics;
  primary.unread_chunks_max = share(config.primary.max_pinned_share);
  primary.unread_ttl = config.deadlines.unread;
  primary.pin_unread = config.primary.pin_unread == PrimaryConfig::PinUnread::until_read;
  primary.store_threshold = config.store_threshold;
  primary.max_tracker_size = config.max_tracker_size;
  primary.atomic_groups = AtomicGroups(config.atomic_groups);
  actors.primary = system.spawn(primary_tier_actor, std::move(primary));
  auto ledger = std::make_shared<AdmissionLedger>(std::move(admission->policy), std::move(pin_chunks),
                                                  admission_environment(config));
  const auto lookup_gate = ledger->lookup_gates().options();
  const bool bounds_lookups = ledger->policy().bounds_lookups();
  actors.admission = system.spawn(admission_controller_actor,
                                  AdmissionControllerDeps{parts.env, std::move(ledger), actors.metrics,
                                                          {parts.labels.begin() + 1, parts.labels.end()},
                                                          parts.admission_keeping});
  actors.tracker = system.spawn(job_tracker_actor,
                          JobTrackerDeps{parts.env, actors.primary, actors.admission, actors.metrics,
                                         {parts.labels.begin() + 1, parts.labels.end()},
                                         std::max(config.deadlines.load, config.deadlines.store)});
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
  SchedulerStepDeps step;
  step.env = parts.env;
  step.primary = actors.primary;
  step.admission = actors.admission;
  step.tracker = actors.tracker;
  step.tiers = actors.tiers;
  step.traits = parts.traits;
  step.metrics = actors.metrics;
  step.chunk_bytes = config.row_bytes();
  step.jobs_max = config.jobs_max;
  step.requests_max = config.requests_max;
  step.tokens_per_chunk = config.tokens_per_chunk;
  step.offload_prompt_only = config.offload_prompt_only;
  step.atomic_groups = AtomicGroups(config.atomic_groups);
  step.gates_lookups = (lookup_gate.mode != GateMode::off || bounds_lookups) && config.tokens_per_chunk > 0;
  step.min_load_tokens = lookup_gate.min_load_tokens;
  step.compute_tokens_per_s = config.compute_tokens_per_s;
  step.external_expired = parts.external_expired;
  step.deadlines = {config.deadlines.load,   config.deadlines.store, config.deadlines.probe,
                    config.deadlines.lookup, config.deadlines.drain, config.deadlines.copy};
  step.blocks_per_chunk = config.identity.blocks_per_file;
  step.order_workers = parts.order_workers;
  step.worker_stats = parts.worker_stats;
  step.revise_workers = parts.revise_workers;
  actors.step = system.spawn(scheduler_step_actor, std::move(step));
  for (const auto& gate : parts.gates) gate->open(actors.step);
  if (parts.worker_sink) parts.worker_sink->open(actors.step);
  actors.supervisor = system.spawn(engine_supervisor_actor,
                             EngineSupervisorDeps{parts.env, parts.failed, actors.step, actors.tracker, actors.admission, actors.primary,
                                                  actors.metrics, actors.tiers});
  return actors;
}

}  // namespace kv_offload
