#include "kv_offload/actors/job_tracker_actor.hpp"

#include "kv_offload/messages/broken_promise.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

namespace kv_offload {
namespace {

/// A tier from outside may say anything: what the engine goes on with is in range.
JobResult sanitised(JobResult result, std::size_t keys) {
  if (static_cast<std::size_t>(result.failure) >= kNumTransferFailures) result.failure = TransferFailure::io_error;
  if (result.fates.size() > keys) result.fates.resize(keys);
  for (auto& fate : result.fates)
    if (fate > KeyFate::already_present) fate = KeyFate::failed;
  return result;
}

}  // namespace

JobTrackerActor::behavior_type JobTrackerState::make_behavior(JobTrackerDeps deps) {
  deps_ = std::move(deps);
  tiers_.resize(deps_.tier_labels.size());
  silent_since_.resize(deps_.tier_labels.size());
  failure_log_.resize(deps_.tier_labels.size());
  totals_.tiers.resize(deps_.tier_labels.size());
  self_->delayed_send(self_, deps_.env->tick, Tick{});
  return {
      handled_by(this, &JobTrackerState::track),      handled_by(this, &JobTrackerState::drain),
      handled_by(this, &JobTrackerState::new_epoch),  handled_by(this, &JobTrackerState::lane_report),
      handled_by(this, &JobTrackerState::fence),      handled_by(this, &JobTrackerState::tier_up),
      handled_by(this, &JobTrackerState::tier_down),  handled_by(this, &JobTrackerState::stop),
      handled_by(this, &JobTrackerState::tick),       handled_by(this, &JobTrackerState::forget),
      handled_by(this, &JobTrackerState::tier_forgot),
  };
}

void JobTrackerState::track(const TrackJobs& m) {
  const auto now = self_->clock().now();
  Ends ends;
  std::map<TierIndex, SubmitJobs> batches;
  for (const auto& job : m.jobs) {
    auto [it, fresh] = jobs_.emplace(
        job.job_id, TrackedJob{self_->current_sender(), job.request ? job.request->handle : RequestHandle{},
                               job.tier, job.is_promotion, job.epoch, job.tickets, job.chunk_ids,
                               job.chunk_bytes, job.submit_time, job.deadline, false, {}, {}});
    if (!fresh) continue;  // ids are never reused
    ++totals_.jobs_registered;
    auto& t = totals_.tiers[job.tier];
    ++(job.is_promotion ? t.active_promotion_jobs : t.active_cascade_jobs);
    (job.is_promotion ? t.active_promotion_chunks : t.active_cascade_chunks) += job.keys.size();
    if (t.disabled || !tiers_[job.tier]) {
      // Never submitted: nothing can touch the slots, both ends come at once.
      JobResult result;
      result.failure = TransferFailure::lane_dead;
      auto& end = give_outcome(job.job_id, it->second, result, now, ends);
      give_release(it, false, &end, ends);
      continue;
    }
    batches[job.tier].jobs.push_back(job);
  }
  for (auto& [tier, batch] : batches)
    self_->send(caf::actor_cast<SecondaryTierActor>(tiers_[tier]), std::move(batch));
  send_ends(ends);
}

void JobTrackerState::lane_report(const LaneReport& m) {
  const auto now = self_->clock().now();
  Ends ends;
  std::map<JobId, std::size_t> in_this_report;
  for (const auto& reported : m.outcomes) {
    const auto known = jobs_.find(reported.job_id);
    const auto result = sanitised(reported, known == jobs_.end() ? 0 : known->second.chunk_ids.size());
    if (result.failure != TransferFailure::cancelled) silent_since_[m.tier].reset();
    const auto it = jobs_.find(result.job_id);
    if (it == jobs_.end()) {
      ++totals_.unknown_results;
    } else if (it->second.outcome_given) {
      ++totals_.late_results;  // its deadline spoke first: late data is discarded
    } else {
      give_outcome(it->first, it->second, result, now, ends);
      in_this_report.emplace(it->first, ends.to_primary.ends.size() - 1);
    }
  }
  for (const auto& id : m.quiesced) {
    const auto it = jobs_.find(id);
    if (it == jobs_.end()) continue;  // abandoned before; its slots stay quarantined
    if (!it->second.outcome_given) {  // a tier that forgets an Outcome breaks its contract: it failed
      JobResult lost;
      lost.failure = TransferFailure::io_error;
      give_outcome(id, it->second, lost, now, ends);
      in_this_report.emplace(id, ends.to_primary.ends.size() - 1);
    }
    const auto same = in_this_report.find(id);
    give_release(it, false, same == in_this_report.end() ? nullptr : &ends.to_primary.ends[same->second],
                 ends);
  }
  send_ends(ends);
}

TransferEnd& JobTrackerState::give_outcome(JobId id, TrackedJob& job, const JobResult& result,
                                           MonotonicTime now, Ends& ends) {
  ++totals_.outcomes;
  job.outcome_given = true;
  if (result.failure == TransferFailure::deadline)
    for (const auto& share : job.tickets) ends.to_admission.overdue.push_back(share);
  job.outcome_at = now;
  count_outcome(job, result);
  if (!result.success) log_failure(job, result, now);
  if (job.epoch != epoch_) ++totals_.stale_results;
  const auto finished = result.finished_at == MonotonicTime{} ? now : result.finished_at;
  job.transfer = CompletedTransfer{result.success, result.transfer_bytes, job.submitted_at, finished, result.failure};
  std::uint32_t done = 0;
  for (const auto fate : result.fates) done += fate != KeyFate::failed ? 1U : 0U;
  ends.to_steps[job.step].entries.push_back(
      {id, job.request, job.is_promotion, true, false, done,
       static_cast<std::uint32_t>(job.chunk_ids.size()) - done, result.transfer_bytes, job.tier,
       finished - job.submitted_at});
  totals_.tiers[job.tier].quarantined_chunks += job.chunk_ids.size();
  return ends.to_primary.ends.emplace_back(TransferEnd{id, job.tier, job.is_promotion, true, false, false,
                                                       job.epoch, job.chunk_ids, result.fates});
}

void JobTrackerState::count_outcome(const TrackedJob& job, const JobResult& result) {
  auto& t = totals_.tiers[job.tier];
  const auto failure = static_cast<std::size_t>(
      result.failure == TransferFailure::none ? TransferFailure::io_error : result.failure);
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < job.chunk_ids.size(); ++i) {
    const auto fate = i < result.fates.size() ? result.fates[i] : KeyFate::failed;
    if (fate == KeyFate::failed) {
      (job.is_promotion ? t.load_failed : t.store_failed)[failure].add(1, job.chunk_bytes);
    } else if (fate == KeyFate::already_present) {
      t.already_present.add(1, job.chunk_bytes);
    } else {
      if (promise_broken(2) && !job.is_promotion) continue;
      (job.is_promotion ? t.loaded : t.stored).add(1, job.chunk_bytes);
      ++done;
    }
  }
  // Partial promotions move bytes and count as a failure; failed cascades move none (the reference's rule).
  const bool moved = job.is_promotion ? done > 0 : result.success;
  if (moved) (job.is_promotion ? t.read_bytes : t.write_bytes) += result.transfer_bytes;
  if (moved) (job.is_promotion ? t.read_time_s : t.write_time_s) += to_seconds(result.transfer_time);
  if (!result.success) ++(job.is_promotion ? t.promotion_job_failures : t.cascade_job_failures);
  if (result.failure == TransferFailure::deadline) ++totals_.deadline_outcomes;
}

void JobTrackerState::log_failure(const TrackedJob& job, const JobResult& result, MonotonicTime now) {
  constexpr auto kPeriod = std::chrono::seconds(10);
  if (result.failure == TransferFailure::cancelled) return;
  auto& log = failure_log_[job.tier];
  ++log.untold;
  if (log.last && now < *log.last + kPeriod) return;
  log.last = now;
  std::string line = deps_.tier_labels[job.tier] + ": " + (job.is_promotion ? "load" : "store") +
                     " failed: " + std::string(to_string(result.failure));
  if (result.error_number != 0) line += " (errno " + std::to_string(result.error_number) + ")";
  if (log.untold > 1) line += "; " + std::to_string(log.untold) + " jobs failed since the last line";
  deps_.env->log("warn", line);
  log.untold = 0;
}

void JobTrackerState::give_release(std::map<JobId, TrackedJob>::iterator it, bool abandoned,
                                   TransferEnd* same_handler, Ends& ends) {
  auto& [id, job] = *it;
  auto& t = totals_.tiers[job.tier];
  const auto chunks = job.chunk_ids.size();
  ++(abandoned ? totals_.abandoned : totals_.quiesced);
  --(job.is_promotion ? t.active_promotion_jobs : t.active_cascade_jobs);
  (job.is_promotion ? t.active_promotion_chunks : t.active_cascade_chunks) -= chunks;
  t.quarantined_chunks -= chunks;
  for (const auto& share : job.tickets)
    ends.to_admission.entries.push_back({share.ticket, share.chunks, job.transfer});
  auto& entries = ends.to_steps[job.step].entries;
  if (same_handler != nullptr && !entries.empty() && entries.back().job == id) {
    entries.back().released = true;
  } else {
    entries.push_back({id, job.request, job.is_promotion, false, true, 0, 0, 0});
  }
  if (same_handler != nullptr) {
    (abandoned ? same_handler->abandoned : same_handler->quiesced) = true;
  } else {
    ends.to_primary.ends.push_back(TransferEnd{id, job.tier, job.is_promotion, false, !abandoned, abandoned,
                                               job.epoch, std::move(job.chunk_ids), {}});
  }
  jobs_.erase(it);
}

void JobTrackerState::send_ends(Ends& ends) {
  if (!ends.to_primary.ends.empty()) send_to_primaries(std::move(ends.to_primary));
  if (!ends.to_admission.entries.empty() || !ends.to_admission.overdue.empty()) self_->send(deps_.admission, std::move(ends.to_admission));
  for (auto& [step, message] : ends.to_steps)
    if (step) self_->send(caf::actor_cast<SchedulerStepActor>(step), std::move(message));
  if (jobs_.empty()) answer_drains(self_->clock().now());
}

void JobTrackerState::send_to_primaries(TransfersEnded ended) {
  if (deps_.primaries.size() == 1) return self_->send(deps_.primaries.front(), std::move(ended));
  std::vector<TransfersEnded> parts(deps_.primaries.size());
  for (const auto& end : ended.ends) {
    std::vector<TransferEnd*> part_of(parts.size(), nullptr);
    for (std::size_t n = 0; n < end.chunk_ids.size(); ++n) {
      const auto home = deps_.map.home_of(end.chunk_ids[n]);
      auto*& part = part_of[home];
      if (part == nullptr) {
        part = &parts[home].ends.emplace_back(end);
        part->chunk_ids.clear();
        part->fates.clear();
      }
      part->chunk_ids.push_back(end.chunk_ids[n]);
      if (n < end.fates.size()) part->fates.push_back(end.fates[n]);
    }
  }
  for (std::size_t h = 0; h < parts.size(); ++h)
    if (!parts[h].ends.empty()) self_->send(deps_.primaries[h], std::move(parts[h]));
}

// -- deadlines ---------------------------------------------------------------------------------------------

void JobTrackerState::expire_overdue(MonotonicTime now) {
  Ends ends;
  std::vector<TierIndex> lost;
  for (auto& [id, job] : jobs_) {
    if (!job.outcome_given && job.deadline <= now) {
      JobResult late;
      late.failure = TransferFailure::deadline;
      give_outcome(id, job, late, now, ends);
      if (tiers_[job.tier])
        self_->send(caf::actor_cast<SecondaryTierActor>(tiers_[job.tier]), CancelJob{id});
      if (is_silent(job.tier, now)) disable_tier(job.tier, "deadline after deadline passes without a result");
    } else if (job.outcome_given && job.outcome_at + deps_.abandon_after <= now) {
      lost.push_back(job.tier);
    }
  }
  for (const auto tier : lost)
    abandon_tier(tier, "its I/O did not end after the deadline", now, ends);
  send_ends(ends);
}

bool JobTrackerState::is_silent(TierIndex tier, MonotonicTime now) {
  auto& since = silent_since_[tier];
  if (!since) since = now;
  return *since + deps_.abandon_after <= now;
}

void JobTrackerState::disable_tier(TierIndex tier, const std::string& why) {
  if (std::exchange(totals_.tiers[tier].disabled, true)) return;
  deps_.env->log("error", deps_.tier_labels[tier] + ": disabled: " + why);
  self_->send(deps_.admission, TierDown{tier, why});
  if (tiers_[tier]) self_->send(caf::actor_cast<SecondaryTierActor>(tiers_[tier]), TierDown{tier, why});
}

void JobTrackerState::abandon_tier(TierIndex tier, const std::string& why, MonotonicTime now, Ends& ends) {
  disable_tier(tier, why + "; its slots in flight stay quarantined until the engine ends");
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    const auto job = it++;
    if (job->second.tier != tier) continue;
    TransferEnd* end = nullptr;
    if (!job->second.outcome_given) {
      JobResult dead;
      dead.failure = TransferFailure::lane_dead;
      end = &give_outcome(job->first, job->second, dead, now, ends);
    }
    give_release(job, true, end, ends);
  }
}

// -- forget -------------------------------------------------------------------------------------------------

/// On to every tier, behind the jobs submitted so far.
void JobTrackerState::forget(const ForgetKeys& m) {
  const auto step = caf::actor_cast<SchedulerStepActor>(m.step);
  for (std::size_t t = 0; t < tiers_.size(); ++t) {
    if (tiers_[t] && !totals_.tiers[t].disabled) {
      self_->send(caf::actor_cast<SecondaryTierActor>(tiers_[t]), m);
    } else {
      self_->send(step, KeysForgotten{m.op, static_cast<std::uint32_t>(t + 1), 0, "it is disabled"});
    }
  }
}

void JobTrackerState::tier_forgot(const TierForgot& m) {
  self_->send(caf::actor_cast<SchedulerStepActor>(m.step), m.answer);
}

void JobTrackerState::tier_up(const TierUp& m) { tiers_[m.tier] = m.actor; }

void JobTrackerState::tier_down(const TierDown& m) {
  Ends ends;
  abandon_tier(m.tier, m.why, self_->clock().now(), ends);
  send_ends(ends);
}

void JobTrackerState::tick(const Tick&) {
  const auto now = self_->clock().now();
  expire_overdue(now);
  answer_drains(now);
  publish_totals();
  self_->delayed_send(self_, deps_.env->tick, Tick{});
}

// -- drain, epochs, fences, end ------------------------------------------------------------------------------

void JobTrackerState::drain(const DrainJobs& m) {
  if (m.cancel_queued)
    for (TierIndex t = 0; t < tiers_.size(); ++t)
      if (tiers_[t] && !totals_.tiers[t].disabled)
        self_->send(caf::actor_cast<SecondaryTierActor>(tiers_[t]), CancelQueued{});
  drains_.push_back({m.op, self_->current_sender(), m.deadline});
  answer_drains(self_->clock().now());
}

void JobTrackerState::answer_drains(MonotonicTime now) {
  std::erase_if(drains_, [&](const OpenDrain& drain) {
    if (!jobs_.empty() && now < drain.deadline) return false;
    JobsDrained answer{drain.op, jobs_.empty(), {}};
    for (const auto& [id, job] : jobs_)
      answer.busy_chunks.insert(answer.busy_chunks.end(), job.chunk_ids.begin(), job.chunk_ids.end());
    self_->send(caf::actor_cast<SchedulerStepActor>(drain.step), std::move(answer));
    return true;
  });
}

void JobTrackerState::new_epoch(const NewEpoch& m) { epoch_ = m.epoch; }

void JobTrackerState::fence(const Fence& m) {
  if (++fences_[m.op] < m.expected) return;
  fences_.erase(m.op);
  if (m.publish) publish_totals();
  for (const auto& primary : deps_.primaries) self_->send(primary, m);
  self_->send(deps_.admission, m);
}

void JobTrackerState::stop(const StopActor& m) {
  for (const auto& [id, job] : jobs_)
    deps_.env->log("warn", "job " + to_string(id) + " of tier " + std::to_string(job.tier) +
                               " had not quiesced when the engine ended");
  tiers_.clear();
  m.reply.deliver(Ok{});
  self_->quit();
}

void JobTrackerState::publish_totals() {
  totals_.jobs_active = jobs_.size();
  while (fences_.size() > 4096) fences_.erase(fences_.begin());  // of tiers that died under a fence
  self_->send(deps_.metrics, PublishTotals{totals_});
}

JobTrackerActor::behavior_type job_tracker_actor(JobTrackerActor::stateful_pointer<JobTrackerState> self,
                                                 JobTrackerDeps deps) {
  return self->state.make_behavior(std::move(deps));
}

}  // namespace kv_offload
