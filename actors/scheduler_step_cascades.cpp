#include "kv_offload/actors/scheduler_step_actor.hpp"
#include "kv_offload/messages/broken_promise.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <numeric>

// From chunks in the primary tier to jobs of secondary tiers. Three ways lead in, one leads on:
//
//   complete_store ─PublishStore→ store_published ────────────────────┐
//   prepare_store of a request that a tier wants whole ─┐             ├─ AdmitCascades→ store_admitted
//   store_job (a tier serves somebody else) ────────────┴─ PinPresent→ present_pinned ─┘
//     store_admitted ─PinCascades→ primary, TrackJobs→ tracker … JobsEnded→ jobs_ended
//
// present_pinned parks what is still being written; KeysResolved brings it back through PinPresent.
namespace kv_offload {

void SchedulerStepState::store_published(const StorePublished& m) {
  const auto it = cascades_.find(m.op);
  if (it == cascades_.end()) return;
  auto& op = it->second;
  op.outcome.published = m.published;
  totals_.device_stored_chunks += m.published;
  if (auto* request = find_request(op.request)) request->summary.stored_chunks += m.published;
  if (!m.forgotten.empty()) op.lease.leave_out(m.forgotten);
  if (!resetting() && m.published > 0 && op.lease.below_floor > 0) split_below_floor(op);
  const bool cut_by_reset = resetting() && m.published > 0 && !op.tiers.empty();
  if (cut_by_reset) {  // no cascade may start any more: its slots are about to be forgotten
    drop_offered(op.tiers, m.published, DropReason::reset);
    homes_.send(PinCascades{op.lease.chunk_ids, 0, op.lease.epoch});
  } else if (m.published > 0 && op.tiers.empty() && !deps_.tiers.empty()) {
    homes_.send(PinCascades{op.lease.chunk_ids, 0, op.lease.epoch});
  }
  if (op.lease.chunk_ids.empty() || m.published == 0 || op.tiers.empty() || cut_by_reset) return end_cascade(it);
  self_->send(deps_.admission, AdmitCascades{m.op, op.context, op.lease.keys, op.tiers, deps_.chunk_bytes});
}

void SchedulerStepState::store_admitted(const CascadesDecided& m) {
  const auto it = cascades_.find(m.op);
  if (it == cascades_.end()) return;
  auto& op = it->second;
  auto* request = find_request(op.request);
  const auto chunks = op.lease.chunk_ids.size();
  const auto now = self_->clock().now();
  TrackJobs track;
  Withdraw withdrawn;
  for (std::size_t n = 0; n < op.tiers.size() && n < m.tiers.size(); ++n) {
    const auto tier = op.tiers[n];
    const auto& verdict = m.tiers[n];
    auto& offer = totals_.offers[tier];
    offer.cascades_offered.add(chunks, deps_.chunk_bytes);
    if (verdict.refused != RefusalReason::none) {
      offer.cascades_refused[static_cast<std::size_t>(verdict.refused)].add(chunks, deps_.chunk_bytes);
      ++offer.cascade_jobs_refused;
      ++op.outcome.cascades_refused;
      if (promise_broken(5)) next_job();
      if (request != nullptr) request->summary.refused_chunks += chunks;
      continue;
    }
    if (resetting() || !jobs_fit(track.jobs.size() + 1)) {
      const auto why =
          static_cast<std::size_t>(resetting() ? DropReason::reset : DropReason::jobs_full);
      offer.cascades_dropped[why].add(chunks, deps_.chunk_bytes);
      withdrawn.entries.push_back({verdict.ticket, static_cast<std::uint32_t>(chunks)});
      continue;
    }
    TransferJob job;
    job.job_id = next_job();
    job.tier = tier;
    job.epoch = op.lease.epoch;
    job.tickets = {{verdict.ticket, static_cast<std::uint32_t>(chunks)}};
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
  homes_.send(PinCascades{op.lease.chunk_ids, static_cast<std::uint32_t>(track.jobs.size()),
                          op.lease.epoch});
  if (!withdrawn.entries.empty()) self_->send(deps_.admission, std::move(withdrawn));
  StoreJobPlan plan;
  if (!track.jobs.empty()) plan = {track.jobs.front().job_id, op.store_job_idx};
  const bool wait = op.options.wait_cascades && !track.jobs.empty();
  if (wait) {
    op.submitted = true;
    op.open_jobs = static_cast<std::uint32_t>(track.jobs.size());
    for (const auto& job : track.jobs) waited_jobs_.emplace(job.job_id, m.op);
  }
  begin_jobs(std::move(track));
  op.store_job.deliver(std::move(plan));
  if (!wait) return end_cascade(it);
  if (request != nullptr) --request->open_stores;
  maybe_forget(op.request);
  push_forgets();
}

/// All its jobs are on their way, or there are none.
void SchedulerStepState::end_cascade(std::map<OpId, CascadeOp>::iterator it) {
  const auto op = std::move(it->second);
  cascades_.erase(it);
  op.reply.deliver(op.outcome);
  op.store_job.deliver(StoreJobPlan{});  // ignored where a job was answered before
  if (auto* request = find_request(op.request)) {
    if (op.counts_call) --request->open_ops;
    if (!op.submitted) --request->open_stores;
  }
  maybe_forget(op.request);
  push_forgets();
}

void SchedulerStepState::begin_jobs(TrackJobs jobs) {
  if (jobs.jobs.empty()) return;
  open_jobs_ += jobs.jobs.size();
  for (const auto& job : jobs.jobs)
    compute_meter_.begun(job.tier, job.is_promotion, job.submit_time);
  self_->send(deps_.tracker, std::move(jobs));
}

void SchedulerStepState::jobs_ended(const JobsEnded& m) {
  const auto now = self_->clock().now();
  for (const auto& e : m.entries) {
    if (e.released) --open_jobs_;
    if (e.outcome && e.is_promotion) load_costs_.landed(e.tier, e.chunks_done, e.took);
    if (e.outcome) compute_meter_.moved(e.tier, e.is_promotion, e.bytes, now);
    const auto waited = waited_jobs_.find(e.job);
    if (waited == waited_jobs_.end()) continue;
    const auto it = cascades_.find(waited->second);
    if (it == cascades_.end()) continue;
    auto& op = it->second;
    if (e.outcome) {
      op.outcome.chunks_stored += e.chunks_done;
      op.outcome.chunks_failed += e.chunks_failed;
    }
    if (!e.released) continue;
    waited_jobs_.erase(waited);
    if (--op.open_jobs == 0) end_cascade(it);
  }
}

void SchedulerStepState::Lease::leave_out(const KeyIdxList& positions) {
  auto kept = std::make_shared<KeyList>();
  std::vector<ChunkId> chunks;
  std::vector<std::uint32_t> gens;
  const auto below = below_floor;
  for (std::size_t i = 0, next = 0; i < chunk_ids.size(); ++i) {
    if (next < positions.size() && positions[next] == i) {
      ++next;
      below_floor -= i < below ? 1U : 0U;
      continue;
    }
    kept->push_back((*keys)[i]);
    chunks.push_back(chunk_ids[i]);
    gens.push_back(generations[i]);
  }
  keys = std::move(kept);
  chunk_ids = std::move(chunks);
  generations = std::move(gens);
}

// -- chunks that are there already ----------------------------------------------------------------------------

void SchedulerStepState::store_job(const StoreJobCall& m) {
  if (refuses_work(m.reply)) return;
  auto* request = live_request(m.request, m.reply);
  if (request == nullptr) return;
  const auto& context = *request->context;
  if (!context.excluded_tier || *context.excluded_tier != m.tier)
    return m.reply.fail(OffloadErrc::invalid_argument,
                        "request " + to_string(m.request) + " was not made by this tier: only its own can be stored to it");
  const auto keys = keys_of(*request, m.keys, m.reply);
  if (!keys) return;
  KeyIdxList all(keys->size());
  std::iota(all.begin(), all.end(), 0U);
  PresentOp op{m.request, request->context, keys, {m.tier}, false, epoch_, 0, {}, m.reply};
  cascade_present(next_op_++, std::move(op), std::move(all));
}

void SchedulerStepState::cascade_present(OpId id, PresentOp op, KeyIdxList key_idx) {
  if (auto* request = find_request(op.request)) ++request->open_stores;
  op.epoch = epoch_;
  homes_.send(PinPresent{id, op.keys, std::move(key_idx), op.park});
  presents_[id] = std::move(op);
}

void SchedulerStepState::present_pinned(const PresentPinned& m) {
  const auto it = presents_.find(m.op);
  if (it == presents_.end()) return;
  auto& op = it->second;
  auto* request = find_request(op.request);
  if (op.park && !m.absent.empty()) drop_offered(op.tiers, m.absent.size(), DropReason::evicted);
  if (!m.pinned.empty()) {
    CascadeOp cascade;
    cascade.request = op.request;
    cascade.context = op.context;
    auto pinned = std::make_shared<KeyList>();
    for (const auto i : m.pinned) pinned->push_back((*op.keys)[i]);
    cascade.lease = Lease{op.request, true, op.epoch, pinned, m.chunk_ids, m.generations, 0, {}};
    cascade.tiers = op.tiers;
    cascade.store_job_idx = m.pinned;
    cascade.store_job = op.store_job;
    const auto id = next_op_++;
    self_->send(deps_.admission, AdmitCascades{id, op.context, std::move(pinned), op.tiers, deps_.chunk_bytes});
    cascades_.emplace(id, std::move(cascade));  // carries the open store on
  } else {
    op.store_job.deliver(StoreJobPlan{});
    if (request != nullptr) --request->open_stores;
  }
  const auto handle = op.request;
  if (op.park && !m.writing.empty()) {
    op.parked = static_cast<std::uint32_t>(m.writing.size());
    op.deadline = self_->clock().now() + deps_.deadlines.store;
    if (request != nullptr) request->parked += op.parked;
  } else {
    presents_.erase(it);
  }
  maybe_forget(handle);
}

/// A parked key's write has ended. Keys that are there now are collected in `ready`, by their op.
void SchedulerStepState::resolve_parked(OpId id, std::uint32_t key_idx, ResolveFailure failure,
                                        std::map<OpId, KeyIdxList>& ready) {
  const auto it = presents_.find(id);
  if (it == presents_.end() || it->second.parked == 0) return;
  auto& op = it->second;
  --op.parked;
  if (auto* request = find_request(op.request)) --request->parked;
  auto& there = ready[id];
  if (failure == ResolveFailure::none) there.push_back(key_idx);
  else drop_offered(op.tiers, 1, DropReason::evicted);
}

void SchedulerStepState::unpark(OpId id, KeyIdxList key_idx) {
  const auto it = presents_.find(id);
  if (it == presents_.end()) return;
  auto again = it->second;
  if (it->second.parked == 0) presents_.erase(it);
  again.parked = 0;
  const auto handle = again.request;
  if (!key_idx.empty()) cascade_present(next_op_++, std::move(again), std::move(key_idx));
  maybe_forget(handle);
}

/// Its keys' writes did not end in time, or a reset came.
void SchedulerStepState::drop_parked(OpId id, DropReason why) {
  const auto it = presents_.find(id);
  if (it == presents_.end()) return;
  const auto op = std::move(it->second);
  presents_.erase(it);
  drop_offered(op.tiers, op.parked, why);
  if (auto* request = find_request(op.request)) request->parked -= op.parked;
  maybe_forget(op.request);
}

void SchedulerStepState::drop_offered(const std::vector<TierIndex>& tiers, std::uint64_t chunks, DropReason why) {
  for (const auto tier : tiers) {
    totals_.offers[tier].cascades_offered.add(chunks, deps_.chunk_bytes);
    totals_.offers[tier].cascades_dropped[static_cast<std::size_t>(why)].add(chunks, deps_.chunk_bytes);
  }
}

}  // namespace kv_offload
