#include "kv_offload/actors/admission_controller_actor.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

namespace kv_offload {

AdmissionControllerActor::behavior_type AdmissionControllerState::make_behavior(
    AdmissionControllerDeps deps) {
  deps_ = std::move(deps);
  self_->delayed_send(self_, deps_.env->tick, Tick{});
  return {
      handled_by(this, &AdmissionControllerState::admit_cascades),
      handled_by(this, &AdmissionControllerState::admit_promotions),
      handled_by(this, &AdmissionControllerState::withdraw),
      handled_by(this, &AdmissionControllerState::reset),
      handled_by(this, &AdmissionControllerState::gate_lookup),
      handled_by(this, &AdmissionControllerState::lookups_answered),
      handled_by(this, &AdmissionControllerState::verdicts_given),
      handled_by(this, &AdmissionControllerState::below_floor),
      handled_by(this, &AdmissionControllerState::completed),
      handled_by(this, &AdmissionControllerState::fence),
      handled_by(this, &AdmissionControllerState::tier_down),
      handled_by(this, &AdmissionControllerState::stop),
      handled_by(this, &AdmissionControllerState::tick),
  };
}

SchedulerStepActor AdmissionControllerState::sender() const {
  return caf::actor_cast<SchedulerStepActor>(self_->current_sender());
}

void AdmissionControllerState::admit_cascades(const AdmitCascades& m) {
  const auto now = self_->clock().now();
  CascadesDecided answer{m.op, {}};
  for (const auto tier : m.tiers) {
    const auto decision = deps_.ledger->decide_cascade(tier, *m.keys, m.chunk_bytes * m.keys->size(),
                                                       m.request.get(), now);
    answer.tiers.push_back({decision.ticket, decision.admitted ? RefusalReason::none : decision.reason});
  }
  self_->send(sender(), std::move(answer));
}

void AdmissionControllerState::admit_promotions(const AdmitPromotions& m) {
  std::vector<PromotionCandidate> candidates;
  candidates.reserve(m.key_idx.size());
  for (std::size_t n = 0; n < m.key_idx.size(); ++n)
    candidates.push_back({(*m.keys)[m.key_idx[n]], m.tiers[n]});
  auto decision = deps_.ledger->decide_promotions(candidates, m.chunk_bytes, m.request.get(),
                                                  self_->clock().now());
  self_->send(sender(), PromotionsDecided{m.op, std::move(decision.tickets), decision.reason,
                                          deps_.ledger->pressure_epoch()});
}

void AdmissionControllerState::withdraw(const Withdraw& m) {
  const auto now = self_->clock().now();
  for (const auto& e : m.entries) deps_.ledger->withdraw(e.ticket, e.chunks, now);
}

void AdmissionControllerState::completed(const AdmissionCompleted& m) {
  const auto now = self_->clock().now();
  for (const auto& e : m.overdue) deps_.ledger->overdue(e.ticket, e.chunks, now);
  for (const auto& e : m.entries) deps_.ledger->complete(e.ticket, e.chunks, e.transfer, now);
}

void AdmissionControllerState::gate_lookup(const GateLookup& m) {
  const auto now = self_->clock().now();
  LookupGated answer{m.op, {}};
  for (const auto tier : m.tiers)
    answer.skip.push_back(deps_.ledger->decide_lookup(tier, m.prompt_tokens, m.device_tokens, now) ==
                          LookupDecision::skip);
  self_->send(sender(), std::move(answer));
}

void AdmissionControllerState::lookups_answered(const LookupsAnswered& m) {
  const auto now = self_->clock().now();
  for (const auto& e : m.entries) {
    if (!e.gated) deps_.ledger->count_lookup(e.tier, e.prompt_tokens, e.device_tokens, now);
    deps_.ledger->answer_lookup(e.tier, {e.answered, e.hit_tokens, e.device_tokens, e.took});
  }
}

void AdmissionControllerState::verdicts_given(const VerdictsGiven& m) {
  const auto now = self_->clock().now();
  for (TierIndex tier = 0; tier < m.tiers.size(); ++tier)
    deps_.ledger->observe_verdicts(m.domain, tier, m.tiers[tier], now);
}

void AdmissionControllerState::below_floor(const BelowFloor& m) {
  deps_.ledger->refuse_below_floor(m.tier, m.chunks, m.whole_job, self_->clock().now());
}

void AdmissionControllerState::reset(const ResetAdmission&) { deps_.ledger->reset(); }

void AdmissionControllerState::tier_down(const TierDown& m) { deps_.ledger->disable_tier(m.tier, true); }

void AdmissionControllerState::fence(const Fence& m) {
  if (m.publish) publish_totals();
  self_->send(caf::actor_cast<SchedulerStepActor>(m.step), FenceReached{m.op});
}

void AdmissionControllerState::stop(const StopActor& m) {
  m.reply.deliver(Ok{});
  self_->quit();
}

void AdmissionControllerState::tick(const Tick&) {
  for (const auto& report : deps_.ledger->due_reports(self_->clock().now()))
    deps_.env->log("info", report.tier + ": " + report.gate + ": " + report.text);
  publish_totals();
  self_->delayed_send(self_, deps_.env->tick, Tick{});
}

void AdmissionControllerState::publish_totals() {
  const auto& ledger = *deps_.ledger;
  totals_.tiers.assign(ledger.num_tiers(), {});
  totals_.tickets_open = 0;
  for (TierIndex tier = 0; tier < ledger.num_tiers(); ++tier) {
    auto& out = totals_.tiers[tier];
    const auto& in = ledger.totals(tier);
    for (const auto* kind : {&in.cascades, &in.promotions}) {
      out.offered += kind->offered.chunks;
      out.admitted += kind->admitted.chunks;
      out.completed += kind->completed.chunks;
      out.withdrawn += kind->withdrawn.chunks;
      out.erased += kind->erased.chunks;
      out.in_flight += kind->in_flight.chunks;
      totals_.tickets_open += kind->in_flight.jobs;
      for (std::size_t r = 0; r < kNumRefusalReasons; ++r) out.refused[r] += kind->refused[r].chunks;
    }
  }
  totals_.pressure_epoch = ledger.pressure_epoch();
  totals_.stale_tickets = ledger.stale_chunks();
  totals_.balance_violation.clear();
  ledger.check_balance(&totals_.balance_violation);
  const auto now = self_->clock().now();
  totals_.policy_samples = ledger.stats(now);
  totals_.gates = ledger.gate_reports(now);
  totals_.decisions.clear();
  for (const auto& r : ledger.decisions().recent())
    totals_.decisions.push_back({r.at, r.tier, r.is_promotion, r.chunks, r.admitted, r.reason, std::string(r.refuser)});
  self_->send(deps_.metrics, PublishTotals{totals_});
}

AdmissionControllerActor::behavior_type admission_controller_actor(
    AdmissionControllerActor::stateful_pointer<AdmissionControllerState> self,
    AdmissionControllerDeps deps) {
  return self->state.make_behavior(std::move(deps));
}

}  // namespace kv_offload
