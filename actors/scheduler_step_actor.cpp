#include "kv_offload/actors/scheduler_step_actor.hpp"
#include "kv_offload/actors/tenant_salt.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>

// Requests, tick and totals of the scheduler_step actor; lookups, stores and loads, and the engine-wide
// calls have files of their own.
namespace kv_offload {

SchedulerStepActor::behavior_type SchedulerStepState::make_behavior(SchedulerStepDeps deps) {
  deps_ = std::move(deps);
  if (deps_.env->enter_domain) deps_.env->enter_domain(deps_.domain, name);
  homes_ = PrimaryHomes(self_, deps_.map, std::move(deps_.primaries), deps_.atomic_groups);
  next_op_ =
      OpId{deps_.domain} << 48;  // the tracker and the tiers keep calls of all domains in one table
  next_order_ = std::uint64_t{deps_.domain} << 48;
  tier_alive_.assign(deps_.tiers.size(), true);
  totals_.lookups.resize(deps_.tiers.size() + 1);
  for (auto& l : totals_.lookups) {
    l.sync_delay = Histogram({1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, .01, .05, .1, .5, 1});
    l.async_delay = Histogram({1e-4, 5e-4, 1e-3, 5e-3, .01, .05, .1, .5, 1, 5, 10});
  }
  totals_.offers.resize(deps_.tiers.size());
  for (auto* copies : {&totals_.store_copies, &totals_.load_copies})
    copies->size = Histogram({1e6, 5e6, 1e7, 2e7, 4e7, 6e7, 8e7, 1e8, 1.5e8, 2e8});
  verdicts_.resize(deps_.tiers.size());
  load_costs_ = LoadCosts(deps_.tiers.size());
  probe_windows_.assign(deps_.tiers.size(), ProbeWindows(deps_.probes_max));
  if (deps_.weighs_device)
    compute_meter_ = ComputeMeter(deps_.tiers.size(), deps_.tokens_per_chunk);
  self_->delayed_send(self_, deps_.env->tick, Tick{});
  using S = SchedulerStepState;
  // CAF compares a message's type with these one after the other, by name: what every request has comes first.
  return {
      handled_by(this, &S::lookup),
      gathered(&S::lookup_probed),
      handled_by(this, &S::new_request),
      handled_by(this, &S::finish),
      handled_by(this, &S::touch),
      handled_by(this, &S::prepare_load),
      gathered(&S::load_pinned),
      handled_by(this, &S::complete_load),
      handled_by(this, &S::prepare_store),
      gathered(&S::store_reserved),
      handled_by(this, &S::complete_store),
      gathered(&S::store_published),
      handled_by(this, &S::store_admitted),
      handled_by(this, &S::jobs_ended),
      handled_by(this, &S::lookup_tier_probed),
      gathered(&S::lookup_claimed),
      handled_by(this, &S::lookup_admitted),
      gathered(&S::lookup_granted),
      handled_by(this, &S::keys_resolved),
      handled_by(this, &S::allocated),
      handled_by(this, &S::abort),
      handled_by(this, &S::step),
      handled_by(this, &S::events),
      handled_by(this, &S::stats),
      handled_by(this, &S::drain),
      handled_by(this, &S::reset),
      handled_by(this, &S::forget),
      handled_by(this, &S::pending_work),
      handled_by(this, &S::store_blocks),
      handled_by(this, &S::load_blocks),
      handled_by(this, &S::store_job),
      gathered(&S::primary_reset),
      gathered(&S::events_taken),
      handled_by(this, &S::fence_reached),
      gathered(&S::present_pinned),
      gathered(&S::keys_forgotten),
      handled_by(this, &S::lookup_changed),
      handled_by(this, &S::meet_peers),
      handled_by(this, &S::pause),
      handled_by(this, &S::peer_paused),
      handled_by(this, &S::resume),
      handled_by(this, &S::fence),
      handled_by(this, &S::lookup_gated),
      handled_by(this, &S::revision_changed),
      handled_by(this, &S::request_opened),
      handled_by(this, &S::jobs_drained),
      handled_by(this, &S::worker_report),
      handled_by(this, &S::tier_down),
      handled_by(this, &S::stop),
      handled_by(this, &S::tick),
  };
}

namespace {

/// A client's text in a line of ours: short, and without what would begin a new line.
std::string shown(std::string text) {
  text = text.substr(0, 60);
  for (auto& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}
constexpr std::size_t kReqIdBytesMax = 1024;

}  // namespace

// -- requests ---------------------------------------------------------------------------------------------

SchedulerStepState::Request* SchedulerStepState::find_request(RequestHandle handle) {
  const auto it = requests_.find(handle);
  return it == requests_.end() ? nullptr : &it->second;
}

void SchedulerStepState::new_request(const NewRequestCall& m) {
  if (refuses_work(m.reply)) return;
  if (m.request.req_id.empty() || m.request.req_id.size() > kReqIdBytesMax)
    return m.reply.fail(OffloadErrc::invalid_argument, "req_id: " + std::to_string(m.request.req_id.size()) +
                                                           " bytes are not allowed; expected 1 to 1024");
  if (by_req_id_.contains(m.request.req_id))
    return m.reply.fail(OffloadErrc::duplicate_request,
                        "req_id \"" + shown(m.request.req_id) + "\" is already live: finish it before it comes again");
  if (requests_.size() >= deps_.requests_max)
    return m.reply.fail(OffloadErrc::busy, "requests_max: " + std::to_string(deps_.requests_max) +
                                               " requests are live; finish some");
  const RequestHandle handle{deps_.domain, next_request_++};
  Request request;
  request.context = std::make_shared<const RequestContext>(RequestContext{handle, m.request, m.excluded_tier});
  request.salt = m.request.tenant.empty() ? 0 : tenant_salt(m.request.tenant);
  request.told.assign(deps_.tiers.size(), false);
  request.claims.resize(deps_.tiers.size());
  for (const auto fault : m.request.param_faults)
    if (++totals_.transfer_param_faults[static_cast<std::size_t>(fault)] == 1)  // said once, counted always
      deps_.env->log("warn", "kv_transfer_params of request \"" + shown(m.request.req_id) + "\" " +
                                 (fault == TransferParamFault::not_an_object
                                      ? std::string("is no JSON object of at most 64 KiB and was ignored")
                                      : "has a malformed " + std::string(to_string(fault)) + ", which was ignored") +
                                 "; said once, counted always");
  OpenRequestOp op{handle, {}, self_->clock().now() + deps_.deadlines.probe, m.reply};
  for (TierIndex t = 0; t < deps_.tiers.size(); ++t)
    if (tier_alive_[t] && deps_.traits[t].asks_requests && m.excluded_tier != t) op.waiting.push_back(t);
  for (const auto t : op.waiting) request.told[t] = true;
  request.open_ops = op.waiting.empty() ? 0 : 1;
  const auto context = request.context;
  by_req_id_.emplace(m.request.req_id, handle);
  requests_.emplace(handle, std::move(request));
  ++totals_.requests_started;
  totals_.external_requests += m.excluded_tier ? 1U : 0U;
  if (op.waiting.empty()) return m.reply.deliver(OpenedRequest{handle, OffloadPolicy::chunk_level});
  const auto id = next_op_++;
  for (const auto t : op.waiting) self_->send(deps_.tiers[t], OpenRequest{id, context});
  open_requests_.emplace(id, std::move(op));
}

void SchedulerStepState::request_opened(const RequestOpened& m) {
  const auto it = open_requests_.find(m.op);
  if (it == open_requests_.end()) return;  // late: the tier's wish is not known of
  auto& op = it->second;
  std::erase(op.waiting, m.tier);
  auto* request = find_request(op.request);
  if (request != nullptr && m.policy == OffloadPolicy::request_level) {
    auto& tiers = request->request_level_tiers;
    tiers.insert(std::upper_bound(tiers.begin(), tiers.end(), m.tier), m.tier);
  }
  if (op.waiting.empty()) answer_opened(it);
}

void SchedulerStepState::answer_opened(std::map<OpId, OpenRequestOp>::iterator it) {
  const auto op = std::move(it->second);
  open_requests_.erase(it);
  auto* request = find_request(op.request);
  if (request == nullptr) return;
  --request->open_ops;
  op.reply.deliver(OpenedRequest{op.request, request->request_level_tiers.empty() ? OffloadPolicy::chunk_level
                                                                                  : OffloadPolicy::request_level});
  maybe_forget(op.request);
}

void SchedulerStepState::allocated(const AllocatedCall& m) {
  auto* request = live_request(m.request, m.reply);
  if (request == nullptr) return;
  request->allocated = true;
  request->counted.clear();
  judge_claims(*request, m.device_tokens);
  const auto prompt_tokens = request->context->request.prompt_tokens;
  compute_meter_.allocated(m.request, prompt_tokens - std::min(prompt_tokens, m.device_tokens),
                           request->answered_at, self_->clock().now());
  m.reply.deliver(Ok{});
}

void SchedulerStepState::touch(const TouchCall& m) {
  auto* request = live_request(m.request, m.reply);
  if (request == nullptr) return;
  const auto keys = keys_of(*request, m.keys, m.reply);
  if (!keys) return;
  KeyIdxList fresh;
  fresh.reserve(keys->size());
  for (std::uint32_t i = 0; i < keys->size(); ++i)
    if (request->touched.insert((*keys)[i].hash()).second) fresh.push_back(i);
  if (fresh.empty()) return m.reply.deliver(Ok{});
  if (fresh.size() == keys->size()) fresh.clear();  // all of them
  const auto excluded = request->context->excluded_tier;
  for (TierIndex t = 0; t < deps_.tiers.size(); ++t)
    if (tier_alive_[t] && deps_.traits[t].wants_touch && excluded != t) self_->send(deps_.tiers[t], TouchKeys{keys, fresh});
  homes_.send(TouchKeys{keys, std::move(fresh)});
  m.reply.deliver(Ok{});
}

void SchedulerStepState::abort(const AbortCall& m) {
  auto* request = live_request(m.request, m.reply);
  if (request == nullptr) return;
  drop_memo(*request);
  end_waits_of(m.request, OffloadErrc::aborted, "the request was aborted");
  homes_.send(EndRequest{m.request});
  m.reply.deliver(Ok{});
}

void SchedulerStepState::finish(const FinishCall& m) {
  auto* request = live_request(m.request, m.reply);
  if (request == nullptr) return;
  end_waits_of(m.request, OffloadErrc::aborted, "the request was finished");
  request = find_request(m.request);  // ending a wait may have moved the table
  request->finished = true;
  drop_memo(*request);
  by_req_id_.erase(request->context->request.req_id);
  homes_.send(EndRequest{m.request});
  m.reply.deliver(request->summary);
  maybe_forget(m.request);
}

/// A finished request lives on until its last lease and call have ended: late completions are legal. Tiers
/// hear of its end once its last cascade was submitted.
void SchedulerStepState::maybe_forget(RequestHandle handle) {
  const auto it = requests_.find(handle);
  if (it == requests_.end() || !it->second.finished) return;
  auto& request = it->second;
  if (request.open_stores > 0 || request.parked > 0) return;
  if (!std::exchange(request.closed, true)) tell_tiers(request);
  if (request.open_ops > 0 || request.open_leases > 0) return;
  if (std::find(request.told.begin(), request.told.end(), true) != request.told.end())
    tell_tiers(request);  // a lookup that was still open asked another tier
  end_claims(request);
  compute_meter_.ended(handle, self_->clock().now());
  requests_.erase(it);
  ++totals_.requests_ended;
}

void SchedulerStepState::tell_tiers(Request& request) {
  for (TierIndex t = 0; t < deps_.tiers.size(); ++t)
    if (request.told[t]) self_->send(deps_.tiers[t], CloseRequest{request.context});
  request.told.assign(deps_.tiers.size(), false);
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
  std::vector<OpId> unopened, parked;
  for (const auto& [id, op] : open_requests_)
    if (op.deadline <= now) unopened.push_back(id);
  for (const auto id : unopened) answer_opened(open_requests_.find(id));
  for (const auto& [id, op] : presents_)
    if (op.parked > 0 && op.deadline <= now) parked.push_back(id);
  for (const auto id : parked) drop_parked(id, DropReason::deadline);
  std::erase_if(forgets_, [&](auto& entry) {
    if (now < entry.second.deadline) return false;
    entry.second.reply.fail(OffloadErrc::deadline, "forget: not every tier answered before deadlines.drain");
    return true;
  });
  push_forgets();
  submit_late_pending_loads(now);
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
  std::vector<OpId> opening;
  for (auto& [id, op] : open_requests_)
    if (std::erase(op.waiting, m.tier) > 0 && op.waiting.empty()) opening.push_back(id);
  for (const auto id : opening) answer_opened(open_requests_.find(id));
}

void SchedulerStepState::publish_totals() {
  totals_.requests_live = requests_.size();
  totals_.leases_open = leases_.size();
  totals_.calls_open = lookups_.size() + prepare_stores_.size() + prepare_loads_.size() + cascades_.size() +
                       open_requests_.size() + presents_.size() + forgets_.size();
  totals_.promotions_pending = 0;
  for (const auto& pending : pending_loads_) totals_.promotions_pending += pending.job.keys.size();
  totals_.cascades_parked = 0;
  for (const auto& [id, op] : presents_) totals_.cascades_parked += op.parked;
  if (deps_.external_expired) totals_.external_expired = deps_.external_expired->load(std::memory_order_relaxed);
  totals_.jobs_numbered = next_job_;
  if (deps_.worker_stats) totals_.workers = deps_.worker_stats();
  self_->send(deps_.metrics, PublishTotals{totals_, deps_.domain});
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
  fail_all(cascades_);
  fail_all(open_requests_);
  fail_all(forgets_);
  for (auto& [id, op] : cascades_) op.store_job.fail(code, why);
  for (auto& [id, op] : presents_) op.store_job.fail(code, why);
  for (auto& [id, op] : copies_) op.fail(code, why);
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
