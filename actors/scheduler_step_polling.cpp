#include "kv_offload/actors/scheduler_step_actor.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>

// The polling view: promotions granted during a step wait for its end, so that each tier gets one job per
// request, with the keys in the order in which they were asked for.
namespace kv_offload {

namespace {
/// An embedder that never ends its step must not keep slots reserved for ever.
constexpr auto kPendingLoadMax = std::chrono::seconds(1);
}  // namespace

void SchedulerStepState::step(const StepCall& m) {
  for (const auto handle : m.step.new_requests)
    if (auto* request = find_request(handle)) {
      request->allocated = true;
      request->counted.clear();
    }
  if (m.ends) submit_pending_loads();
  FenceOp op;
  op.step = m.reply;
  start_fence(std::move(op), false);
}

void SchedulerStepState::pending_work(const PendingWorkCall& m) {
  m.reply.deliver(open_jobs_ > 0 || !pending_loads_.empty() || !presents_.empty() || flows_running());
}

void SchedulerStepState::add_pending_load(const LookupOp& op, TierIndex tier, TransferJob chunks,
                                          MonotonicTime now) {
  const auto same = std::find_if(pending_loads_.begin(), pending_loads_.end(), [&](const PendingLoad& p) {
    return p.tier == tier && p.job.request->handle == op.request->handle;
  });
  if (same == pending_loads_.end()) {
    chunks.request = op.request;
    pending_loads_.push_back({tier, now, std::move(chunks)});
    return;
  }
  auto& job = same->job;
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  append(job.keys, chunks.keys);
  append(job.chunk_ids, chunks.chunk_ids);
  append(job.generations, chunks.generations);
  append(job.tickets, chunks.tickets);
}

void SchedulerStepState::submit_pending_loads() {
  if (pending_loads_.empty()) return;
  const auto now = self_->clock().now();
  TrackJobs track;
  auto loads = std::exchange(pending_loads_, {});
  std::stable_sort(loads.begin(), loads.end(), [](const PendingLoad& a, const PendingLoad& b) {
    return a.job.request->request.priority > b.job.request->request.priority;
  });
  for (auto& pending : loads) {
    auto& job = pending.job;
    job.job_id = next_job();
    job.is_promotion = true;
    job.tier = pending.tier;
    job.epoch = epoch_;
    job.chunk_bytes = deps_.chunk_bytes;
    job.submit_time = now;
    job.deadline = now + deps_.deadlines.load;
    track.jobs.push_back(std::move(job));
  }
  begin_jobs(std::move(track));
}

/// A reset takes their slots away before they were submitted.
void SchedulerStepState::drop_pending_loads() {
  Withdraw withdrawn;
  for (const auto& pending : std::exchange(pending_loads_, {})) {
    totals_.offers[pending.tier].promotions_dropped[static_cast<std::size_t>(DropReason::reset)].add(
        pending.job.keys.size(), deps_.chunk_bytes);
    for (const auto& share : pending.job.tickets) withdrawn.entries.push_back({share.ticket, share.chunks});
  }
  if (!withdrawn.entries.empty()) self_->send(deps_.admission, std::move(withdrawn));
}

void SchedulerStepState::submit_late_pending_loads(MonotonicTime now) {
  if (!pending_loads_.empty() && pending_loads_.front().since + kPendingLoadMax <= now) submit_pending_loads();
}

}  // namespace kv_offload
