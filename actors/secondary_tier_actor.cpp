#include "kv_offload/actors/secondary_tier_actor.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

namespace kv_offload {

SecondaryTierActor::behavior_type SecondaryTierState::make_behavior(SecondaryTierDeps deps) {
  deps_ = std::move(deps);
  self_->delayed_send(self_, deps_.env->tick, Tick{});
  return {
      handled_by(this, &SecondaryTierState::probe),
      handled_by(this, &SecondaryTierState::take_events),
      handled_by(this, &SecondaryTierState::change_revision),
      handled_by(this, &SecondaryTierState::fence),
      handled_by(this, &SecondaryTierState::submit),
      handled_by(this, &SecondaryTierState::cancel),
      handled_by(this, &SecondaryTierState::cancel_queued),
      handled_by(this, &SecondaryTierState::lane_report),
      handled_by(this, &SecondaryTierState::lane_probed),
      handled_by(this, &SecondaryTierState::lane_died),
      handled_by(this, &SecondaryTierState::stop),
      handled_by(this, &SecondaryTierState::tick),
  };
}

// -- probes ---------------------------------------------------------------------------------------------

void SecondaryTierState::probe(const TierProbe& m) {
  const auto started = self_->clock().now();
  OpenProbe open{self_->current_sender(), m.op, m.round, static_cast<std::uint32_t>(m.key_idx.size()),
                 started, {}};
  if (!totals_.alive) return answer_all(open, TierVerdict::tier_down);
  if (keys_probing_ + m.key_idx.size() > deps_.probes_max)
    return answer_all(open, TierVerdict::probes_full);
  KeyList keys;
  keys.reserve(m.key_idx.size());
  for (const auto i : m.key_idx) keys.push_back((*m.keys)[i]);
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

void SecondaryTierState::lane_probed(const LaneProbed& m) {
  const auto it = probes_.find(m.probe);
  if (it == probes_.end()) return;  // forgotten by its time limit
  std::vector<TierVerdict> verdicts;
  verdicts.reserve(m.verdicts.size());
  for (const auto v : m.verdicts)
    verdicts.push_back(v == LookupResult::hit    ? TierVerdict::hit
                       : v == LookupResult::miss ? TierVerdict::miss
                                                 : TierVerdict::retry);
  answer(it->second, std::move(verdicts));
  keys_probing_ -= it->second.num_keys;
  probes_.erase(it);
}

void SecondaryTierState::answer(const OpenProbe& probe, std::vector<TierVerdict> verdicts) {
  self_->send(caf::actor_cast<SchedulerStepActor>(probe.step),
              TierProbed{probe.op, probe.round, deps_.tier_idx, std::move(verdicts), probe.handler_time,
                         self_->clock().now() - probe.started});
}

void SecondaryTierState::answer_all(const OpenProbe& probe, TierVerdict verdict) {
  answer(probe, std::vector<TierVerdict>(probe.num_keys, verdict));
}

// -- jobs -----------------------------------------------------------------------------------------------

void SecondaryTierState::submit(const SubmitJobs& m) { deps_.tier->submit(m.jobs); }

void SecondaryTierState::cancel(const CancelJob& m) { deps_.tier->cancel(m.job); }

void SecondaryTierState::cancel_queued(const CancelQueued&) { deps_.tier->cancel_queued(); }

void SecondaryTierState::lane_report(const LaneReport& m) { self_->send(deps_.tracker, m); }

void SecondaryTierState::lane_died(const LaneDied& m) {
  if (!totals_.alive) return;
  totals_.alive = false;
  for (const auto& [id, probe] : probes_) answer_all(probe, TierVerdict::tier_down);
  probes_.clear();
  keys_probing_ = 0;
  self_->send(deps_.tracker, TierDown{deps_.tier_idx, m.why});
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
    it = probes_.erase(it);
  }
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
  totals_.samples = s.samples;
  self_->send(deps_.metrics, PublishTotals{TierPublished{deps_.tier_idx, totals_}});
}

SecondaryTierActor::behavior_type secondary_tier_actor(
    SecondaryTierActor::stateful_pointer<SecondaryTierState> self, SecondaryTierDeps deps) {
  return self->state.make_behavior(std::move(deps));
}

}  // namespace kv_offload
