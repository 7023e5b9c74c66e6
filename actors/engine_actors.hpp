#pragma once

#include "kv_offload/actors/actor_support.hpp"
#include "kv_offload/actors/admission_controller_actor.hpp"
#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/actors/engine_metrics_actor.hpp"
#include "kv_offload/actors/engine_supervisor_actor.hpp"
#include "kv_offload/actors/lane_sink.hpp"
#include "kv_offload/actors/parent_gate.hpp"
#include "kv_offload/actors/worker_sink.hpp"
#include "kv_offload/messages/domain_map.hpp"
#include "kv_offload/messages/protocol/actor_interfaces.hpp"
#include "kv_offload/tiers/primary_view.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace caf {
class actor_system;
}

namespace kv_offload {

/// What the actors are built on. Everything outlives them.
struct EngineParts {
  SharedEnvironment env;
  std::shared_ptr<FailedState> failed = std::make_shared<FailedState>();
  std::shared_ptr<StatsBoard> board = std::make_shared<StatsBoard>();
  PrimaryView view;
  /// How the rows are divided; one domain unless it says otherwise. With several, their actors have threads of their own
  /// where `detached`; otherwise they are scheduled as all others (virtual time).
  DomainMap map = {};
  bool detached = false;
  std::vector<DomainMemory> memory = {};  ///< where it lies, by domain; empty: not bound to nodes
  std::vector<std::shared_ptr<SecondaryTier>> tiers;  ///< started
  std::vector<std::shared_ptr<LaneSink>> sinks;       ///< co-indexed
  std::vector<std::shared_ptr<ParentGate>> gates;     ///< co-indexed
  std::shared_ptr<std::atomic<std::uint64_t>> external_expired = std::make_shared<std::atomic<std::uint64_t>>(0);
  std::vector<TierTraits> traits;                     ///< co-indexed
  std::vector<std::string> labels;                    ///< [0] primary, [1+t] tier t
  AdmissionKeeping admission_keeping;
  std::shared_ptr<WorkerSink> worker_sink = nullptr;  ///< null: no workers with a socket
  std::function<Expected<Ok>(WorkerOrder)> order_workers = {};
  std::function<WorkerHubStats()> worker_stats = {};
  std::function<void(const std::string&)> revise_workers = {};
};

/// Handles of one engine's actors. Dropping them all lets the actor system end.
struct EngineActors {
  std::vector<SchedulerStepActor> steps;    ///< by domain
  std::vector<PrimaryTierActor> primaries;  ///< by domain
  AdmissionControllerActor admission;
  JobTrackerActor tracker;
  std::vector<SecondaryTierActor> tiers;
  EngineMetricsActor metrics;
  EngineSupervisorActor supervisor;
};

/// Spawns and wires every actor; the same for a running engine and for tests in virtual time. Fails only
/// on configuration that validation would have found.
Expected<EngineActors> spawn_engine_actors(caf::actor_system& system, const EngineConfig& config,
                                           const EngineParts& parts);

}  // namespace kv_offload
