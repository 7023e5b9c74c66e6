#pragma once

#include <memory>
#include <mutex>

#include "kv_offload/actors/actor_support.hpp"
#include "kv_offload/messages/protocol/actor_interfaces.hpp"

namespace kv_offload {

/// The latest totals of every actor, for readers outside the actor system (the metrics server). Written
/// by the engine_metrics actor only; a short lock guards one copy.
class StatsBoard {
 public:
  void put(const EngineStats& stats) {
    const std::scoped_lock lock(mutex_);
    stats_ = stats;
  }
  [[nodiscard]] EngineStats get() const {
    const std::scoped_lock lock(mutex_);
    return stats_;
  }

 private:
  mutable std::mutex mutex_;
  EngineStats stats_;
};

struct EngineMetricsDeps {
  SharedEnvironment env;
  std::shared_ptr<StatsBoard> board;
  std::vector<std::string> tier_labels;  ///< [0] primary
  std::uint64_t chunk_bytes = 0;
  std::uint32_t tokens_per_chunk = 0;  ///< 0: unknown
  std::uint32_t worker_ranks = 0;
  std::size_t domains = 1;
  std::vector<DomainMemory> memory;  ///< by domain; empty: not bound to nodes
};

/// Owns the published totals: each actor sends its own whole, the newest replaces the one before. Those of the domains
/// are added up.
class EngineMetricsState {
 public:
  static inline const char* name = "kv_offload.engine_metrics";
  explicit EngineMetricsState(EngineMetricsActor::pointer self) : self_(self) {}
  EngineMetricsActor::behavior_type make_behavior(EngineMetricsDeps deps);

  ActorTotals& actor_totals() { return stats_.metrics; }
  [[nodiscard]] const ActorEnvironment& environment() const { return *deps_.env; }

 private:
  void publish(const PublishTotals& m);
  void add_up_domains();
  void answer(const AnswerStats& m);
  void stop(const StopActor& m);

  EngineMetricsActor::pointer self_;
  EngineMetricsDeps deps_;
  EngineStats stats_;
  std::vector<SchedulerTotals> schedulers_;  // by domain, where there are several
  std::vector<PrimaryTotals> primaries_;
};

EngineMetricsActor::behavior_type engine_metrics_actor(
    EngineMetricsActor::stateful_pointer<EngineMetricsState> self, EngineMetricsDeps deps);

}  // namespace kv_offload
