#include "kv_offload/actors/scheduler_step_actor.hpp"
#include "kv_offload/messages/broken_promise.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

// Stores and loads between device and primary, and the cascades behind a store:
//
//   prepare_store ─ReserveStore→ store_reserved            (lease)
//   complete_store ─PublishStore→ store_published ─AdmitCascades→ store_admitted
//     ─PinCascades→ primary, TrackJobs→ tracker … JobsEnded→ jobs_ended
//   prepare_load ─PinLeading→ load_pinned (lease) · complete_load ─Unpin→
namespace kv_offload {

void SchedulerStepState::prepare_store(const PrepareStoreCall& m) {
  if (refuses_work(m.reply) || refuses_lease(m.reply)) return;
  auto* request = live_request(m.request, m.reply);
  if (request == nullptr) return;
  const auto id = next_op_++;
  ++request->open_ops;
  prepare_stores_.emplace(id, PrepareStoreOp{m.request, m.keys, m.reply});
  self_->send(deps_.primary, ReserveStore{id, m.request, m.keys});
}

void SchedulerStepState::store_reserved(const StoreReserved& m) {
  const auto it = prepare_stores_.find(m.op);
  if (it == prepare_stores_.end()) return;
  const auto op = std::move(it->second);
  prepare_stores_.erase(it);
  auto* request = find_request(op.request);
  if (request != nullptr) --request->open_ops;
  if (!m.ok) {
    ++totals_.allocation_failures;
    op.reply.fail(OffloadErrc::no_space, "no " + std::to_string(op.keys->size()) +
                                             " slots can be had now: too many chunks are pinned, held or being written");
    return maybe_forget(op.request);
  }
  Lease lease{op.request, true, epoch_, {}, m.chunk_ids, m.generations};
  if (m.key_idx.size() == op.keys->size()) {
    lease.keys = op.keys;
  } else {
    auto stored = std::make_shared<KeyList>();
    stored->reserve(m.key_idx.size());
    for (const auto i : m.key_idx) stored->push_back((*op.keys)[i]);
    lease.keys = std::move(stored);
  }
  const LeaseId lease_id{deps_.domain, next_lease_++};
  leases_.emplace(lease_id, std::move(lease));
  if (request != nullptr) ++request->open_leases;
  op.reply.deliver(StorePlan{lease_id, m.key_idx, m.chunk_ids, m.evicted});
}

void SchedulerStepState::complete_store(const CompleteStoreCall& m) {
  const auto it = leases_.find(m.lease);
  if (it == leases_.end() || !it->second.is_store)
    return m.reply.fail(OffloadErrc::unknown_lease, "lease " + to_string(m.lease) + " is no open store");
  CompleteStoreOp op;
  op.lease = std::move(it->second);
  leases_.erase(it);
  op.request = op.lease.request;
  op.options = m.options;
  op.reply = m.reply;
  if (auto* request = find_request(op.request)) {
    op.context = request->context;
    --request->open_leases;
    ++request->open_ops;
  }
  const auto id = next_op_++;
  const bool hold = m.options.success && !deps_.tiers.empty() && !op.lease.chunk_ids.empty();
  self_->send(deps_.primary, PublishStore{id, op.lease.chunk_ids, op.lease.generations, m.options.success,
                                          hold, op.lease.epoch});
  complete_stores_.emplace(id, std::move(op));
}

void SchedulerStepState::store_published(const StorePublished& m) {
  const auto it = complete_stores_.find(m.op);
  if (it == complete_stores_.end()) return;
  auto& op = it->second;
  op.outcome.published = m.published;
  totals_.device_stored_chunks += m.published;
  if (auto* request = find_request(op.request)) request->summary.stored_chunks += m.published;
  const bool cut_by_reset = reset_ && m.published > 0 && !deps_.tiers.empty();
  if (cut_by_reset) {  // no cascade may start any more: its slots are about to be forgotten
    for (auto& offer : totals_.offers) {
      offer.cascades_offered.add(m.published, deps_.chunk_bytes);
      offer.cascades_dropped[static_cast<std::size_t>(DropReason::reset)].add(m.published, deps_.chunk_bytes);
    }
    self_->send(deps_.primary, PinCascades{op.lease.chunk_ids, 0, op.lease.epoch});
  }
  if (m.published == 0 || deps_.tiers.empty() || cut_by_reset) {
    op.reply.deliver(op.outcome);
    const auto handle = op.request;
    if (auto* request = find_request(handle)) --request->open_ops;
    complete_stores_.erase(it);
    return maybe_forget(handle);
  }
  self_->send(deps_.admission, AdmitCascades{m.op, op.context, op.lease.keys, deps_.chunk_bytes});
}

void SchedulerStepState::store_admitted(const CascadesDecided& m) {
  const auto it = complete_stores_.find(m.op);
  if (it == complete_stores_.end()) return;
  auto& op = it->second;
  auto* request = find_request(op.request);
  const auto chunks = op.lease.chunk_ids.size();
  const auto now = self_->clock().now();
  TrackJobs track;
  Withdraw withdrawn;
  for (TierIndex tier = 0; tier < m.tiers.size(); ++tier) {
    auto& offer = totals_.offers[tier];
    offer.cascades_offered.add(chunks, deps_.chunk_bytes);
    const auto reason = m.tiers[tier].refused;
    if (reason != RefusalReason::none) {
      offer.cascades_refused[static_cast<std::size_t>(reason)].add(chunks, deps_.chunk_bytes);
      ++offer.cascade_jobs_refused;
      ++op.outcome.cascades_refused;
      if (promise_broken(5)) next_job();
      if (request != nullptr) request->summary.refused_chunks += chunks;
      continue;
    }
    if (reset_ || !jobs_fit(track.jobs.size() + 1)) {
      const auto why = static_cast<std::size_t>(reset_ ? DropReason::reset : DropReason::jobs_full);
      offer.cascades_dropped[why].add(chunks, deps_.chunk_bytes);
      withdrawn.entries.push_back({m.tiers[tier].ticket, static_cast<std::uint32_t>(chunks)});
      continue;
    }
    TransferJob job;
    job.job_id = next_job();
    job.tier = tier;
    job.epoch = op.lease.epoch;
    job.ticket = m.tiers[tier].ticket;
    job.keys = *op.lease.keys;
    job.chunk_ids = op.lease.chunk_ids;
    job.generations = op.lease.generations;
    job.chunk_bytes = deps_.chunk_bytes;
    job.submit_time = now;
    job.deadline = now + deps_.deadlines.store;
    job.request = op.context;
    track.jobs.push_back(std::move(job));
    ++op.outcome.cascades_admitted;
    if (request != nullptr) request->summary.cascaded_chunks += chunks;
  }
  // The hold becomes the admitted tiers' pins before any lane can hear of the jobs.
  self_->send(deps_.primary,
              PinCascades{op.lease.chunk_ids, static_cast<std::uint32_t>(track.jobs.size()), op.lease.epoch});
  if (!withdrawn.entries.empty()) self_->send(deps_.admission, std::move(withdrawn));
  open_jobs_ += track.jobs.size();
  const bool wait = op.options.wait_cascades && !track.jobs.empty();
  if (wait) {
    op.submitted = true;
    op.open_jobs = static_cast<std::uint32_t>(track.jobs.size());
    for (const auto& job : track.jobs) waited_jobs_.emplace(job.job_id, m.op);
  }
  if (!track.jobs.empty()) self_->send(deps_.tracker, std::move(track));
  if (wait) return;
  op.reply.deliver(op.outcome);
  const auto handle = op.request;
  if (request != nullptr) --request->open_ops;
  complete_stores_.erase(it);
  maybe_forget(handle);
}

void SchedulerStepState::jobs_ended(const JobsEnded& m) {
  for (const auto& e : m.entries) {
    if (e.released) --open_jobs_;
    const auto waited = waited_jobs_.find(e.job);
    if (waited == waited_jobs_.end()) continue;
    const auto it = complete_stores_.find(waited->second);
    if (it == complete_stores_.end()) continue;
    auto& op = it->second;
    if (e.outcome) {
      op.outcome.chunks_stored += e.chunks_done;
      op.outcome.chunks_failed += e.chunks_failed;
    }
    if (!e.released) continue;
    waited_jobs_.erase(waited);
    if (--op.open_jobs > 0) continue;
    op.reply.deliver(op.outcome);
    const auto handle = op.request;
    if (auto* request = find_request(handle)) --request->open_ops;
    complete_stores_.erase(it);
    maybe_forget(handle);
  }
}

// -- load -----------------------------------------------------------------------------------------------------

void SchedulerStepState::prepare_load(const PrepareLoadCall& m) {
  if (refuses_work(m.reply) || refuses_lease(m.reply)) return;
  auto* request = live_request(m.request, m.reply);
  if (request == nullptr) return;
  const auto id = next_op_++;
  ++request->open_ops;
  prepare_loads_.emplace(id, PrepareLoadOp{m.request, m.reply});
  self_->send(deps_.primary, PinLeading{id, m.request, m.keys});
}

void SchedulerStepState::load_pinned(const LeadingPinned& m) {
  const auto it = prepare_loads_.find(m.op);
  if (it == prepare_loads_.end()) return;
  const auto op = std::move(it->second);
  prepare_loads_.erase(it);
  if (auto* request = find_request(op.request)) {
    --request->open_ops;
    ++request->open_leases;
    request->summary.loaded_chunks += m.chunk_ids.size();
  }
  totals_.device_loaded_chunks += m.chunk_ids.size();
  const LeaseId lease_id{deps_.domain, next_lease_++};
  leases_.emplace(lease_id, Lease{op.request, false, epoch_, {}, m.chunk_ids, {}});
  op.reply.deliver(LoadPlan{lease_id, m.chunk_ids});
}

void SchedulerStepState::complete_load(const CompleteLoadCall& m) {
  const auto it = leases_.find(m.lease);
  if (it == leases_.end() || it->second.is_store)
    return m.reply.fail(OffloadErrc::unknown_lease, "lease " + to_string(m.lease) + " is no open load");
  const auto lease = std::move(it->second);
  leases_.erase(it);
  self_->send(deps_.primary, Unpin{lease.chunk_ids, lease.epoch});
  if (auto* request = find_request(lease.request)) --request->open_leases;
  m.reply.deliver(Ok{});
  maybe_forget(lease.request);
}

}  // namespace kv_offload
