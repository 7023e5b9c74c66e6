#include "kv_offload/actors/scheduler_step_actor.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

// Requests, tick and totals of the scheduler_step actor; lookups, stores and loads, and the engine-wide
// calls have files of their own.
namespace kv_offload {

SchedulerStepActor::behavior_type SchedulerStepState::make_behavior(SchedulerStepDeps deps) {
  deps_ = std::move(deps);
  tier_alive_.assign(deps_.tiers.size(), true);
  totals_.lookups.resize(deps_.tiers.size() + 1);
  for (auto& l : totals_.lookups) {
    l.sync_delay = Histogram({1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, .01, .05, .1, .5, 1});
    l.async_delay = Histogram({1e-4, 5e-4, 1e-3, 5e-3, .01, .05, .1, .5, 1, 5, 10});
  }
  totals_.offers.resize(deps_.tiers.size());
  self_->delayed_send(self_, deps_.env->tick, Tick{});
  using S = SchedulerStepState;
  return {
      handled_by(this, &S::new_request),
      handled_by(this, &S::lookup),
      handled_by(this, &S::allocated),
      handled_by(this, &S::touch),
      handled_by(this, &S::abort),
      handled_by(this, &S::finish),
      handled_by(this, &S::prepare_store),
      handled_by(this, &S::complete_store),
      handled_by(this, &S::prepare_load),
      handled_by(this, &S::complete_load),
      handled_by(this, &S::step),
      handled_by(this, &S::events),
      handled_by(this, &S::stats),
      handled_by(this, &S::drain),
      handled_by(this, &S::reset),
      handled_by(this, &S::lookup_probed),
      handled_by(this, &S::lookup_claimed),
      handled_by(this, &S::lookup_granted),
      handled_by(this, &S::store_reserved),
      handled_by(this, &S::store_published),
      handled_by(this, &S::load_pinned),
      handled_by(this, &S::lookup_resolved),
      handled_by(this, &S::primary_reset),
      handled_by(this, &S::events_taken),
      handled_by(this, &S::fence_reached),
      handled_by(this, &S::store_admitted),
      handled_by(this, &S::lookup_admitted),
      handled_by(this, &S::lookup_tier_probed),
      handled_by(this, &S::revision_changed),
      handled_by(this, &S::jobs_ended),
      handled_by(this, &S::jobs_drained),
      handled_by(this, &S::tier_down),
      handled_by(this, &S::stop),
      handled_by(this, &S::tick),
  };
}

// -- requests ---------------------------------------------------------------------------------------------

SchedulerStepState::Request* SchedulerStepState::find_request(RequestHandle handle) {
  const auto it = requests_.find(handle);
  return it == requests_.end() ? nullptr : &it->second;
}

void SchedulerStepState::new_request(const NewRequestCall& m) {
  if (refuses_work(m.reply)) return;
  if (by_req_id_.contains(m.request.req_id))
    return m.reply.fail(OffloadErrc::duplicate_request,
                        "req_id \"" + m.request.req_id + "\" is already live: finish it before it comes again");
  if (requests_.size() >= deps_.requests_max)
    return m.reply.fail(OffloadErrc::busy, "requests_max: " + std::to_string(deps_.requests_max) +
                                               " requests are live; finish some");
  const RequestHandle handle{deps_.domain, next_request_++};
  Request request;
  request.context = std::make_shared<const RequestContext>(RequestContext{handle, m.request});
  by_req_id_.emplace(m.request.req_id, handle);
  requests_.emplace(handle, std::move(request));
  ++totals_.requests_started;
  m.reply.deliver(handle);
}

void SchedulerStepState::allocated(const AllocatedCall& m) {
  auto* request = live_request(m.request, m.reply);
  if (request == nullptr) return;
  request->allocated = true;
  request->counted.clear();
  m.reply.deliver(Ok{});
}

void SchedulerStepState::touch(const TouchCall& m) {
  auto* request = live_request(m.request, m.reply);
  if (request == nullptr) return;
  KeyIdxList fresh;
  fresh.reserve(m.keys->size());
  for (std::uint32_t i = 0; i < m.keys->size(); ++i)
    if (request->touched.insert((*m.keys)[i].hash()).second) fresh.push_back(i);
  if (fresh.size() == m.keys->size()) fresh.clear();  // all of them
  else if (fresh.empty()) return m.reply.deliver(Ok{});
  self_->send(deps_.primary, TouchKeys{m.keys, std::move(fresh)});
  m.reply.deliver(Ok{});
}

void SchedulerStepState::abort(const AbortCall& m) {
  auto* request = live_request(m.request, m.reply);
  if (request == nullptr) return;
  end_waits_of(m.request, OffloadErrc::aborted, "the request was aborted");
  self_->send(deps_.primary, EndRequest{m.request});
  m.reply.deliver(Ok{});
}

void SchedulerStepState::finish(const FinishCall& m) {
  auto* request = live_request(m.request, m.reply);
  if (request == nullptr) return;
  end_waits_of(m.request, OffloadErrc::aborted, "the request was finished");
  request = find_request(m.request);  // ending a wait may have moved the table
  request->finished = true;
  by_req_id_.erase(request->context->request.req_id);
  self_->send(deps_.primary, EndRequest{m.request});
  m.reply.deliver(request->summary);
  maybe_forget(m.request);
}

/// A finished request lives on until its last lease and call have ended: late completions are legal.
void SchedulerStepState::maybe_forget(RequestHandle handle) {
  const auto it = requests_.find(handle);
  if (it == requests_.end() || !it->second.finished) return;
  if (it->second.open_ops > 0 || it->second.open_leases > 0) return;
  requests_.erase(it);
  ++totals_.requests_ended;
}

// -- deadlines ----------------------------------------------------------------------------------------------

void SchedulerStepState::tick(const Tick&) {
  const auto now = self_->clock().now();
  std::vector<OpId> late_probe, late_call;
  for (const auto& [id, op] : lookups_) {
    const bool interruptible = op.phase == LookupOp::Phase::probing || op.phase == LookupOp::Phase::waiting;
    if (interruptible && op.deadline <= now) late_call.push_back(id);
    else if (op.phase == LookupOp::Phase::probing && op.probe_deadline <= now) late_probe.push_back(id);
  }
  for (const auto id : late_call) give_up_lookup(lookups_.at(id), GiveUpReason::deadline);
  for (const auto id : late_probe) give_up_probe(lookups_.at(id), GiveUpReason::deadline);
  std::erase_if(fences_, [&](auto& entry) {
    auto& fence = entry.second;
    if (now < fence.deadline) return false;
    const std::string why = "the fence did not come back before deadlines.drain";
    if (fence.step) fence.step->fail(OffloadErrc::deadline, why);
    if (fence.stats) fence.stats->fail(OffloadErrc::deadline, why);
    if (fence.events) fence.events->fail(OffloadErrc::deadline, why);
    return true;
  });
  push_drains_and_reset();
  if (!delayed_lookups_.empty()) {
    auto again = std::exchange(delayed_lookups_, {});
    for (const auto& call : again) lookup(call);
  }
  publish_totals();
  self_->delayed_send(self_, deps_.env->tick, Tick{});
}

void SchedulerStepState::tier_down(const TierDown& m) {
  if (m.tier >= tier_alive_.size()) return;
  tier_alive_[m.tier] = false;
  std::vector<OpId> asking;
  for (const auto& [id, op] : lookups_)
    if (op.phase == LookupOp::Phase::probing && op.probe_tier == m.tier) asking.push_back(id);
  for (const auto id : asking) give_up_probe(lookups_.at(id), GiveUpReason::tier_down);
}

void SchedulerStepState::publish_totals() {
  totals_.requests_live = requests_.size();
  totals_.leases_open = leases_.size();
  totals_.calls_open = lookups_.size() + prepare_stores_.size() + prepare_loads_.size() + complete_stores_.size();
  totals_.jobs_numbered = next_job_;
  self_->send(deps_.metrics, PublishTotals{totals_});
}

void SchedulerStepState::stop(const StopActor& m) {
  publish_totals();
  const auto code = m.failure.empty() ? OffloadErrc::shutting_down : OffloadErrc::engine_failed;
  const std::string why = m.failure.empty() ? "the engine was shut down" : m.failure;
  const auto fail_all = [&](auto& ops) {
    for (auto& [id, op] : ops) op.reply.fail(code, why);
  };
  fail_all(lookups_);
  fail_all(prepare_stores_);
  fail_all(prepare_loads_);
  fail_all(complete_stores_);
  fail_all(drains_);
  for (auto& [id, op] : fences_) {
    if (op.step) op.step->fail(code, why);
    if (op.stats) op.stats->fail(code, why);
    if (op.events) op.events->fail(code, why);
  }
  if (reset_) reset_->second.reply.fail(code, why);
  m.reply.deliver(Ok{});
  self_->quit();
}

SchedulerStepActor::behavior_type scheduler_step_actor(
    SchedulerStepActor::stateful_pointer<SchedulerStepState> self, SchedulerStepDeps deps) {
  return self->state.make_behavior(std::move(deps));
}

}  // namespace kv_offload
