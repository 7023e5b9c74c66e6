#include "kv_offload/actors/secondary_tier_actor.hpp"

#include <absl/container/flat_hash_set.h>
#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace kv_offload {

SecondaryTierActor::behavior_type SecondaryTierState::make_behavior(SecondaryTierDeps deps) {
  deps_ = std::move(deps);
  verdicts_ = VerdictTable(deps_.probes_max);
  self_->delayed_send(self_, deps_.env->tick, Tick{});
  using S = SecondaryTierState;
  return {
      handled_by(this, &S::probe),          handled_by(this, &S::take_events),
      handled_by(this, &S::change_revision), handled_by(this, &S::fence),
      handled_by(this, &S::open_request),   handled_by(this, &S::close_request),
      handled_by(this, &S::touch),          handled_by(this, &S::submit),
      handled_by(this, &S::cancel),         handled_by(this, &S::cancel_queued),
      handled_by(this, &S::forget),         handled_by(this, &S::lane_report),
      handled_by(this, &S::lane_probed),    handled_by(this, &S::lane_forgot),
      handled_by(this, &S::lane_died),      handled_by(this, &S::tier_down),
      handled_by(this, &S::stop),           handled_by(this, &S::tick),
  };
}

// -- probes ---------------------------------------------------------------------------------------------

void SecondaryTierState::probe(const TierProbe& m) {
  if (m.polled) return probe_polled(m);
  const auto started = self_->clock().now();
  OpenProbe open{self_->current_sender(), m.op, m.round, static_cast<std::uint32_t>(m.key_idx.size()),
                 started, {}, false, {}, {}};
  if (!totals_.alive) return answer_all(open, TierVerdict::tier_down);
  if (keys_probing_ + m.key_idx.size() > deps_.probes_max)
    return answer_all(open, TierVerdict::probes_full);
  KeyList keys;
  keys.reserve(m.key_idx.size());
  for (std::uint32_t n = 0; n < m.key_idx.size(); ++n) {
    const auto& key = (*m.keys)[m.key_idx[n]];
    if (!storing_.empty() && storing_.contains(key)) open.skipped.push_back(n);
    else keys.push_back(key);
  }
  if (keys.empty()) return answer_all(open, TierVerdict::pending);
  const auto id = next_probe_++;
  keys_probing_ += m.key_idx.size();
  auto& entry = probes_.emplace(id, std::move(open)).first->second;
  if (!deps_.tier->probe(id, std::move(keys))) {
    answer_all(entry, TierVerdict::probes_full);
    keys_probing_ -= m.key_idx.size();
    probes_.erase(id);
    return;
  }
  entry.handler_time = self_->clock().now() - started;
}

/// The polling view: every key is answered now, from the verdicts kept or from the tier's memory.
void SecondaryTierState::probe_polled(const TierProbe& m) {
  const auto started = self_->clock().now();
  OpenProbe question{self_->current_sender(), m.op, m.round, 0, started, {}, true, {}, {}};
  TierProbed answer{m.op, m.round, deps_.tier_idx, {}, {}, {}, {}};
  answer.verdicts.reserve(m.key_idx.size());
  answer.probe_times.assign(m.key_idx.size(), Duration::zero());
  const auto id = next_probe_;
  for (std::size_t n = 0; n < m.key_idx.size(); ++n) {
    const auto& key = (*m.keys)[m.key_idx[n]];
    auto& verdict = answer.verdicts.emplace_back(TierVerdict::pending);
    if (!totals_.alive) {
      verdict = TierVerdict::tier_down;
      continue;
    }
    if (storing_.contains(key)) continue;  // neither hit nor miss until the store has ended
    if (const auto known = deps_.tier->lookup(key)) {
      verdict = *known == LookupResult::hit ? TierVerdict::hit : TierVerdict::miss;
      answer.may_change = true;
      continue;
    }
    const bool room = keys_probing_ + question.keys.size() < deps_.probes_max;
    const auto asked = room || verdicts_.find(key) != nullptr ? verdicts_.ask(key, m.request, id, started)
                                                              : VerdictTable::Ask::full;
    if (asked == VerdictTable::Ask::full) {
      verdict = TierVerdict::probes_full;
      ++totals_.verdicts_full;
    } else if (asked == VerdictTable::Ask::probe) {
      question.keys.push_back(key);
    } else {
      const auto& kept = *verdicts_.find(key);
      using State = VerdictTable::State;
      if (kept.state == State::probing) continue;
      verdict = kept.state == State::hit    ? TierVerdict::hit
                : kept.state == State::miss ? TierVerdict::miss
                                            : TierVerdict::retry;
      answer.probe_times[n] = kept.probe_time;
    }
  }
  if (!question.keys.empty()) {
    ++next_probe_;
    auto keys = question.keys;
    question.num_keys = static_cast<std::uint32_t>(keys.size());
    keys_probing_ += question.num_keys;
    const auto& kept = probes_.emplace(id, std::move(question)).first->second;
    if (!deps_.tier->probe(id, std::move(keys))) {  // its queue is full: asked again next step
      for (const auto& key : kept.keys) verdicts_.answer(key, id, std::nullopt, started);
      keys_probing_ -= kept.num_keys;
      probes_.erase(id);
    }
  }
  answer.handler_time = self_->clock().now() - started;
  self_->send(caf::actor_cast<SchedulerStepActor>(self_->current_sender()), std::move(answer));
}

void SecondaryTierState::lane_probed(const LaneProbed& m) {
  const auto it = probes_.find(m.probe);
  if (it == probes_.end()) return;  // forgotten by its time limit
  auto& probe = it->second;
  if (probe.polled) {
    const auto now = self_->clock().now();
    for (std::size_t n = 0; n < probe.keys.size(); ++n) {
      const auto v = n < m.verdicts.size() ? m.verdicts[n] : LookupResult::retry;
      const bool told = v == LookupResult::hit || v == LookupResult::miss;
      verdicts_.answer(probe.keys[n], m.probe, told ? std::optional(v == LookupResult::hit) : std::nullopt, now);
    }
  } else {
    std::vector<TierVerdict> verdicts;
    verdicts.reserve(probe.num_keys);
    auto skipped = probe.skipped.begin();
    for (const auto v : m.verdicts) {
      for (; skipped != probe.skipped.end() && *skipped == verdicts.size(); ++skipped)
        verdicts.push_back(TierVerdict::pending);
      verdicts.push_back(v == LookupResult::hit    ? TierVerdict::hit
                         : v == LookupResult::miss ? TierVerdict::miss
                                                   : TierVerdict::retry);
    }
    verdicts.resize(probe.num_keys, probe.skipped.empty() ? TierVerdict::retry : TierVerdict::pending);
    answer(probe, std::move(verdicts));
  }
  keys_probing_ -= probe.num_keys;
  probes_.erase(it);
}

void SecondaryTierState::answer(const OpenProbe& probe, std::vector<TierVerdict> verdicts) {
  self_->send(caf::actor_cast<SchedulerStepActor>(probe.step),
              TierProbed{probe.op, probe.round, deps_.tier_idx, std::move(verdicts), probe.handler_time,
                         self_->clock().now() - probe.started, {}});
}

void SecondaryTierState::answer_all(const OpenProbe& probe, TierVerdict verdict) {
  if (!probe.polled) answer(probe, std::vector<TierVerdict>(probe.num_keys, verdict));
}

// -- requests -------------------------------------------------------------------------------------------

void SecondaryTierState::open_request(const OpenRequest& m) {
  self_->send(caf::actor_cast<SchedulerStepActor>(self_->current_sender()),
              RequestOpened{m.op, deps_.tier_idx, deps_.tier->on_new_request(*m.request)});
}

void SecondaryTierState::close_request(const CloseRequest& m) {
  verdicts_.close(m.request->handle);
  if (deps_.tier->traits().asks_requests) deps_.tier->on_request_finished(*m.request);
}

void SecondaryTierState::touch(const TouchKeys& m) {
  if (m.key_idx.empty()) return deps_.tier->touch(*m.keys);
  KeyList keys;
  keys.reserve(m.key_idx.size());
  for (const auto i : m.key_idx) keys.push_back((*m.keys)[i]);
  deps_.tier->touch(keys);
}

// -- jobs -----------------------------------------------------------------------------------------------

void SecondaryTierState::submit(const SubmitJobs& m) {
  for (const auto& job : m.jobs) {
    jobs_.emplace(job.job_id, ActiveJob{job.keys, job.is_promotion, false});
    if (job.is_promotion) continue;
    for (const auto& key : job.keys) ++storing_[key];
  }
  deps_.tier->submit(m.jobs);
}

void SecondaryTierState::cancel(const CancelJob& m) { deps_.tier->cancel(m.job); }

void SecondaryTierState::cancel_queued(const CancelQueued&) { deps_.tier->cancel_queued(); }

void SecondaryTierState::lane_report(const LaneReport& m) {
  for (const auto& result : m.outcomes) job_outcome(result);
  self_->send(deps_.tracker, m);
  for (const auto job : m.quiesced) job_quiesced(job);
}

/// What the engine's own transfers show of the tier's contents corrects the verdicts kept.
void SecondaryTierState::job_outcome(const JobResult& result) {
  const auto it = jobs_.find(result.job_id);
  if (it == jobs_.end() || std::exchange(it->second.outcome_given, true)) return;
  const auto& job = it->second;
  for (std::size_t i = 0; i < job.keys.size(); ++i) {
    const auto fate = i < result.fates.size() ? result.fates[i] : KeyFate::failed;
    if (job.is_promotion) {
      if (fate == KeyFate::failed) verdicts_.correct(job.keys[i], false);
      continue;
    }
    if (const auto s = storing_.find(job.keys[i]); s != storing_.end() && --s->second == 0) storing_.erase(s);
    if (fate != KeyFate::failed) verdicts_.correct(job.keys[i], true);
  }
}

void SecondaryTierState::job_quiesced(JobId job) {
  if (jobs_.erase(job) == 0) return;
  for (std::size_t at = 0; at < forgets_.size();) {
    std::erase(forgets_[at].behind, job);
    const auto open = forgets_.size();
    if (!forgets_[at].running && forgets_[at].behind.empty()) run_forget(forgets_[at]);
    at += forgets_.size() == open ? 1U : 0U;
  }
}

// -- forget ---------------------------------------------------------------------------------------------

void SecondaryTierState::forget(const ForgetKeys& m) {
  OpenForget open{m, next_forget_++, {}, false, self_->clock().now() + deps_.forget_ttl};
  absl::flat_hash_set<OffloadKey> keys;
  if (m.keys) keys.insert(m.keys->begin(), m.keys->end());
  const auto concerned = [&](const OffloadKey& key) {
    return keys.contains(key) || (m.tenant_salt && key.has_salt(*m.tenant_salt));
  };
  for (const auto& [id, job] : jobs_)
    if (std::any_of(job.keys.begin(), job.keys.end(), concerned)) open.behind.push_back(id);
  verdicts_.correct_missing(concerned);
  forgets_.push_back(std::move(open));
  if (forgets_.back().behind.empty()) run_forget(forgets_.back());
}

void SecondaryTierState::run_forget(OpenForget& forget) {
  forget.running = true;
  const auto id = forget.id;
  const auto what = forget.what;  // the answer may come inside the call and end `forget`
  const bool taken = what.tenant_salt ? deps_.tier->forget_tenant(id, *what.tenant_salt)
                                      : deps_.tier->forget(id, *what.keys);
  if (!taken) end_forget(id, 0, "it cannot forget");
}

void SecondaryTierState::lane_forgot(const LaneForgot& m) {
  totals_.forgotten_chunks += m.chunks;
  end_forget(m.forget, m.chunks, m.error);
}

/// Told by way of the tracker: behind the ends of jobs that were told before.
void SecondaryTierState::end_forget(ForgetId id, std::uint64_t chunks, std::string error) {
  const auto it = std::find_if(forgets_.begin(), forgets_.end(), [&](const auto& f) { return f.id == id; });
  if (it == forgets_.end()) return;
  self_->send(deps_.tracker, TierForgot{it->what.step, {it->what.op, deps_.tier_idx + 1U, chunks, std::move(error)}});
  forgets_.erase(it);
}

void SecondaryTierState::lane_died(const LaneDied& m) {
  if (!totals_.alive) return;
  end_service();
  self_->send(deps_.tracker, TierDown{deps_.tier_idx, m.why});
}

void SecondaryTierState::tier_down(const TierDown&) {
  if (totals_.alive) end_service();
}

void SecondaryTierState::end_service() {
  totals_.alive = false;
  if (deps_.gate) deps_.gate->close();
  for (const auto& [id, probe] : probes_) answer_all(probe, TierVerdict::tier_down);
  probes_.clear();
  keys_probing_ = 0;
  while (!forgets_.empty()) end_forget(forgets_.front().id, 0, "its lane is gone");
}

// -- the rest ---------------------------------------------------------------------------------------------

void SecondaryTierState::take_events(const TakeEvents& m) {
  self_->send(caf::actor_cast<SchedulerStepActor>(self_->current_sender()),
              EventsTaken{m.op, deps_.tier_idx + 1U, deps_.tier->take_events()});
}

void SecondaryTierState::change_revision(const ChangeRevision& m) {
  const auto changed = deps_.tier->set_revision(m.revision);
  self_->send(caf::actor_cast<SchedulerStepActor>(self_->current_sender()),
              RevisionChanged{m.op, deps_.tier_idx, changed ? std::string() : to_string(changed.error())});
}

void SecondaryTierState::fence(const Fence& m) {
  if (m.publish) publish_totals();
  self_->send(deps_.tracker, m);
}

void SecondaryTierState::stop(const StopActor& m) {
  publish_totals();
  deps_.tier.reset();
  m.reply.deliver(Ok{});
  self_->quit();
}

void SecondaryTierState::tick(const Tick&) {
  deps_.sink->flush();
  const auto now = self_->clock().now();
  for (auto it = probes_.begin(); it != probes_.end() && it->second.started + deps_.probe_ttl <= now;) {
    keys_probing_ -= it->second.num_keys;  // its caller gave up at the same deadline
    for (const auto& key : it->second.keys) verdicts_.answer(key, it->first, std::nullopt, now);
    it = probes_.erase(it);
  }
  std::vector<ForgetId> late;
  for (const auto& forget : forgets_)
    if (forget.deadline <= now) late.push_back(forget.id);
  for (const auto id : late) end_forget(id, 0, "it did not answer in time");
  publish_totals();
  self_->delayed_send(self_, deps_.env->tick, Tick{});
}

void SecondaryTierState::publish_totals() {
  const auto s = deps_.tier->stats();
  totals_.queued_jobs = s.queued_jobs;
  totals_.running_jobs = s.running_jobs;
  totals_.unverified_chunks = s.unverified_chunks;
  totals_.corrupt_chunks = s.corrupt_chunks;
  totals_.foreign_refused = s.foreign_refused;
  totals_.probes = s.probes;
  totals_.probes_open = keys_probing_;
  totals_.verdicts = verdicts_.size();
  totals_.samples = s.samples;
  self_->send(deps_.metrics, PublishTotals{TierPublished{deps_.tier_idx, totals_}});
}

SecondaryTierActor::behavior_type secondary_tier_actor(
    SecondaryTierActor::stateful_pointer<SecondaryTierState> self, SecondaryTierDeps deps) {
  return self->state.make_behavior(std::move(deps));
}

}  // namespace kv_offload
