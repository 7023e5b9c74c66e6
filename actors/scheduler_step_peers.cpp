#include "kv_offload/actors/scheduler_step_actor.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

// What the domains' steps do together. The one of domain 0 leads:
//
//   reset ─PauseStep→ peers: pause … peer_paused ◄─StepPaused─ (no flow can become a job any more)
//     leader drains, resets every home, admission and tiers ─ResumeStep(epoch)→ peers: resume
//   stats ─Fence→ peers: fence (their totals are published) ─FenceReached→ leader
namespace kv_offload {

void SchedulerStepState::meet_peers(const MeetPeers& m) {
  for (const auto& peer : m.peers) peers_.push_back(caf::actor_cast<SchedulerStepActor>(peer));
}

void SchedulerStepState::pause(const PauseStep& m) {
  pause_ = Pause{m.op, self_->current_sender(), m.deadline, false};
  begin_reset();
  push_drains_and_reset();
}

/// Of a reset whose deadline has spoken since: too late, it goes on without.
void SchedulerStepState::peer_paused(const StepPaused& m) {
  if (!reset_ || reset_->first != m.op || reset_->second.peers_open == 0) return;
  --reset_->second.peers_open;
  push_drains_and_reset();
}

void SchedulerStepState::resume(const ResumeStep& m) {
  pause_.reset();
  begin_epoch(m.epoch);
  forget_what_was_there();
}

void SchedulerStepState::fence(const Fence& m) {
  if (m.publish) publish_totals();
  self_->send(caf::actor_cast<SchedulerStepActor>(m.step), FenceReached{m.op});
}

/// After a reset: what a request had touched, or been refused, it may touch and be refused anew.
void SchedulerStepState::forget_what_was_there() {
  for (auto& [handle, request] : requests_) {
    request.touched.clear();
    request.refused_once.clear();
  }
}

}  // namespace kv_offload
