#include "kv_offload/actors/engine_supervisor_actor.hpp"

#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/system_messages.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>

namespace kv_offload {

EngineSupervisorActor::behavior_type EngineSupervisorState::make_behavior(EngineSupervisorDeps deps) {
  deps_ = std::move(deps);
  self_->set_down_handler([this](caf::down_msg& m) { down(m); });
  for (const auto& step : deps_.steps) self_->monitor(step);
  self_->monitor(deps_.tracker);
  self_->monitor(deps_.admission);
  for (const auto& primary : deps_.primaries) self_->monitor(primary);
  self_->monitor(deps_.metrics);
  for (const auto& tier : deps_.tiers) self_->monitor(tier);
  return {handled_by(this, &EngineSupervisorState::stop)};
}

void EngineSupervisorState::down(const caf::down_msg& m) {
  if (m.reason == caf::exit_reason::normal || !m.reason) return;  // it was stopped in order
  const std::string why = "its actor died: " + caf::to_string(m.reason);
  for (TierIndex t = 0; t < deps_.tiers.size(); ++t) {
    if (m.source != deps_.tiers[t].address()) continue;
    self_->send(deps_.tracker, TierDown{t, why});
    for (const auto& step : deps_.steps) self_->send(step, TierDown{t, why});
    return;
  }
  const auto among = [&](const auto& actors) {
    return std::any_of(actors.begin(), actors.end(),
                       [&](const auto& actor) { return m.source == actor.address(); });
  };
  const std::string who = among(deps_.steps) ? std::string("kv_offload.scheduler_step")
                          : m.source == deps_.tracker.address() ? "kv_offload.job_tracker"
                          : m.source == deps_.admission.address()
                              ? "kv_offload.admission_controller"
                          : among(deps_.primaries) ? "kv_offload.primary_tier"
                                                   : "kv_offload.engine_metrics";
  const std::string failure = who + " died: " + caf::to_string(m.reason);
  deps_.env->log("error", "engine failed: " + failure);
  deps_.failed->set(failure);
  for (const auto& step : deps_.steps)
    self_->send(step, StopActor{{}, failure});  // nobody must wait for an answer that cannot come
}

void EngineSupervisorState::stop(const StopActor& m) {
  deps_.tiers.clear();
  m.reply.deliver(Ok{});
  self_->quit();
}

EngineSupervisorActor::behavior_type engine_supervisor_actor(
    EngineSupervisorActor::stateful_pointer<EngineSupervisorState> self, EngineSupervisorDeps deps) {
  return self->state.make_behavior(std::move(deps));
}

}  // namespace kv_offload
