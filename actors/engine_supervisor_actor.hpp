#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kv_offload/actors/actor_support.hpp"
#include "kv_offload/messages/protocol/actor_interfaces.hpp"

namespace kv_offload {

/// The engine's named failed state, read by every facade call. Set once.
class FailedState {
 public:
  void set(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    if (name_.empty()) name_ = name;
    failed_.store(true, std::memory_order_release);
  }
  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }
  [[nodiscard]] std::string name() const {
    const std::scoped_lock lock(mutex_);
    return name_;
  }

 private:
  mutable std::mutex mutex_;
  std::string name_;
  std::atomic<bool> failed_{false};
};

struct EngineSupervisorDeps {
  SharedEnvironment env;
  std::shared_ptr<FailedState> failed;
  std::vector<SchedulerStepActor> steps;  ///< by domain
  JobTrackerActor tracker;
  AdmissionControllerActor admission;
  std::vector<PrimaryTierActor> primaries;  ///< by domain
  EngineMetricsActor metrics;
  std::vector<SecondaryTierActor> tiers;
};

/// Watches every other actor. No stateful actor is restarted: a dead tier actor disables that tier, any
/// other death puts the engine into a failed state named after the actor.
class EngineSupervisorState {
 public:
  static inline const char* name = "kv_offload.engine_supervisor";
  explicit EngineSupervisorState(EngineSupervisorActor::pointer self) : self_(self) {}
  EngineSupervisorActor::behavior_type make_behavior(EngineSupervisorDeps deps);

  ActorTotals& actor_totals() { return totals_; }
  [[nodiscard]] const ActorEnvironment& environment() const { return *deps_.env; }

 private:
  void down(const caf::down_msg& m);
  void stop(const StopActor& m);

  EngineSupervisorActor::pointer self_;
  EngineSupervisorDeps deps_;
  ActorTotals totals_;
};

EngineSupervisorActor::behavior_type engine_supervisor_actor(
    EngineSupervisorActor::stateful_pointer<EngineSupervisorState> self, EngineSupervisorDeps deps);

}  // namespace kv_offload
