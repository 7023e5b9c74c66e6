#include "kv_offload/actors/scheduler_step_actor.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

// Engine-wide calls of the scheduler_step actor: fences (steps, stats, events), drain and reset.
namespace kv_offload {

// -- fences -----------------------------------------------------------------------------------------------

void SchedulerStepState::stats(const StatsCall& m) {
  FenceOp op;
  op.stats = m.reply;
  start_fence(std::move(op), true);
}

void SchedulerStepState::events(const EventsCall& m) {
  FenceOp op;
  op.events = m.reply;
  start_fence(std::move(op), false);
}

void SchedulerStepState::start_fence(FenceOp op, bool publish) {
  op.deadline = self_->clock().now() + deps_.deadlines.drain;
  const auto id = next_op_++;
  fences_.emplace(id, std::move(op));
  send_fence(id, publish);
}

/// The fence travels as results do: through every living tier's actor to the tracker, and from there
/// to primary and admission. Without tiers the tracker gets it from here.
void SchedulerStepState::send_fence(OpId id, bool publish) {
  std::uint32_t alive = 0;
  for (std::size_t t = 0; t < deps_.tiers.size(); ++t) alive += tier_alive_[t] ? 1U : 0U;
  const Fence fence{id, caf::actor_cast<caf::strong_actor_ptr>(self_), publish, std::max(alive, 1U)};
  auto& waiting = fences_.at(id).waiting;
  waiting = homes_.count() + 1;
  if (publish) {  // the other domains' numbers, too
    waiting += peers_.size();
    for (const auto& peer : peers_) self_->send(peer, fence);
  }
  if (alive == 0) return self_->send(deps_.tracker, fence);
  for (std::size_t t = 0; t < deps_.tiers.size(); ++t)
    if (tier_alive_[t]) self_->send(deps_.tiers[t], fence);
}

void SchedulerStepState::fence_reached(const FenceReached& m) {
  const auto it = fences_.find(m.op);
  if (it == fences_.end() || --it->second.waiting > 0) return;
  auto& op = it->second;
  if (op.step) op.step->deliver(Ok{});
  if (op.stats) {
    publish_totals();
    self_->send(deps_.metrics, AnswerStats{*op.stats});
  }
  if (op.events) {  // primary first, then the tiers in order
    homes_.send(TakeEvents{m.op});
    op.sources = 1;
    for (std::size_t t = 0; t < deps_.tiers.size(); ++t) {
      if (!tier_alive_[t]) continue;
      self_->send(deps_.tiers[t], TakeEvents{m.op});
      ++op.sources;
    }
    return;
  }
  fences_.erase(it);
}

void SchedulerStepState::events_taken(const EventsTaken& m) {
  const auto it = fences_.find(m.op);
  if (it == fences_.end()) return;
  auto& op = it->second;
  op.taken.emplace(m.source, m.events);
  if (op.taken.size() < op.sources) return;
  std::vector<OffloadingEvent> all;
  for (auto& [source, events] : op.taken)
    all.insert(all.end(), std::make_move_iterator(events.begin()), std::make_move_iterator(events.end()));
  op.events->deliver(std::move(all));
  fences_.erase(it);
}

// -- drain ------------------------------------------------------------------------------------------------

/// Calls that may still become jobs; they pass in a few messages and never wait for I/O, but for copies by
/// workers, which have a deadline.
bool SchedulerStepState::flows_running() const {
  if (!prepare_stores_.empty() || !prepare_loads_.empty() || !copies_.empty()) return true;
  for (const auto& [id, op] : cascades_)
    if (!op.submitted) return true;
  for (const auto& [id, op] : presents_)
    if (op.parked == 0) return true;
  for (const auto& [id, op] : lookups_)
    if (op.phase != LookupOp::Phase::probing && op.phase != LookupOp::Phase::waiting &&
        (op.phase != LookupOp::Phase::queued ||
         resetting()))  // a reset has ended its place in line
      return true;
  return false;
}

void SchedulerStepState::drain(const DrainCall& m) {
  DrainOp op;
  op.cancel_queued = m.cancel_queued;
  op.deadline = self_->clock().now() + m.patience.value_or(deps_.deadlines.drain);
  op.reply = m.reply;
  submit_pending_loads();
  drains_.emplace(next_op_++, std::move(op));
  push_drains_and_reset();
}

void SchedulerStepState::push_drains_and_reset() {
  const auto now = self_->clock().now();
  const bool busy = flows_running();
  for (auto& [id, op] : drains_) {
    if (op.sent || (busy && now < op.deadline)) continue;
    op.sent = true;
    self_->send(deps_.tracker, DrainJobs{id, op.cancel_queued, op.deadline});
  }
  if (pause_ && !pause_->answered && (!busy || now >= pause_->deadline)) {
    pause_->answered = true;
    self_->send(caf::actor_cast<SchedulerStepActor>(pause_->leader), StepPaused{pause_->op});
  }
  if (!reset_ || reset_->second.phase != ResetOp::Phase::flows) return;
  if ((busy || reset_->second.peers_open > 0) && now < reset_->second.deadline) return;
  reset_->second.phase = ResetOp::Phase::draining;
  self_->send(deps_.tracker, DrainJobs{reset_->first, true, reset_->second.deadline});
}

void SchedulerStepState::jobs_drained(const JobsDrained& m) {
  if (reset_ && reset_->first == m.op) {
    reset_->second.phase = ResetOp::Phase::primary;
    if (!m.drained)
      deps_.env->log("warn", "reset: " + std::to_string(m.busy_chunks.size()) +
                                 " chunks are still in transfer; their slots are quarantined");
    begin_epoch(epoch_ + 1);
    self_->send(deps_.tracker, NewEpoch{epoch_});
    homes_.send(ResetPrimary{m.op, epoch_, m.busy_chunks});
    return;
  }
  const auto it = drains_.find(m.op);
  if (it == drains_.end()) return;
  if (m.drained) it->second.reply.deliver(Ok{});
  else
    it->second.reply.fail(OffloadErrc::deadline, "drain: " + std::to_string(m.busy_chunks.size()) +
                                                     " chunks are still in transfer after deadlines.drain");
  drains_.erase(it);
}

// -- reset ------------------------------------------------------------------------------------------------

void SchedulerStepState::reset(const ResetCall& m) {
  if (refuses_work(m.reply)) return;
  ResetOp op;
  op.deadline = self_->clock().now() + deps_.deadlines.drain;
  op.change_revision = m.change_revision;
  op.revision = m.revision;
  op.reply = m.reply;
  const auto id = next_op_++;
  op.peers_open = peers_.size();
  for (const auto& peer : peers_) self_->send(peer, PauseStep{id, op.deadline});
  reset_.emplace(id, std::move(op));
  begin_reset();
  push_drains_and_reset();
}

void SchedulerStepState::begin_reset() {
  ++memo_epoch_;
  std::vector<RequestHandle> waiting;
  for (const auto& [id, lookup_op] : lookups_) waiting.push_back(lookup_op.request->handle);
  for (const auto handle : waiting) {
    end_waits_of(handle, OffloadErrc::resetting, "a reset began");
    homes_.send(EndRequest{handle});  // also out of the line for slots
  }
  drop_pending_loads();
  std::vector<OpId> parked;
  for (const auto& [id, present] : presents_)
    if (present.parked > 0) parked.push_back(id);
  for (const auto id : parked) drop_parked(id, DropReason::reset);
}

void SchedulerStepState::begin_epoch(Epoch epoch) {
  epoch_ = epoch;
  homes_.set_epoch(epoch);
}

void SchedulerStepState::primary_reset(const PrimaryReset& m) {
  if (!reset_ || reset_->first != m.op) return;
  self_->send(deps_.admission, ResetAdmission{});
  forget_what_was_there();
  if (reset_->second.change_revision) {
    reset_->second.phase = ResetOp::Phase::revision;
    for (std::size_t t = 0; t < deps_.tiers.size(); ++t) {
      if (!tier_alive_[t]) continue;
      ++reset_->second.revisions_open;
      self_->send(deps_.tiers[t], ChangeRevision{m.op, reset_->second.revision});
    }
    if (reset_->second.revisions_open > 0) return;
  }
  finish_reset({});
}

void SchedulerStepState::revision_changed(const RevisionChanged& m) {
  if (!reset_ || reset_->first != m.op) return;
  auto& op = reset_->second;
  if (!m.error.empty() && op.error.empty())
    op.error = "tier " + std::to_string(m.tier) + " keeps its old revision: " + m.error;
  if (--op.revisions_open == 0) finish_reset(op.error);
}

void SchedulerStepState::finish_reset(std::string error) {
  const auto reply = reset_->second.reply;
  if (reset_->second.change_revision && error.empty() && deps_.revise_workers)
    deps_.revise_workers(reset_->second.revision);
  reset_.reset();
  for (const auto& peer : peers_) self_->send(peer, ResumeStep{epoch_});
  if (error.empty()) reply.deliver(Ok{});
  else reply.fail(OffloadErrc::unsupported, std::move(error));
}

}  // namespace kv_offload
