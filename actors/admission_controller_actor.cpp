#include "kv_offload/actors/admission_controller_actor.hpp"

#include "kv_offload/actors/admission_page_numbers.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <cassert>

namespace kv_offload {
namespace {

JobAmount amount(const JobCount& count) { return {count.jobs, count.chunks}; }

AdmissionFlow flow(const AdmissionTotals& totals) {
  AdmissionFlow out{amount(totals.offered),   amount(totals.admitted), amount(totals.completed),
                    amount(totals.withdrawn), amount(totals.erased),   amount(totals.in_flight),
                    {}};
  for (std::size_t r = 0; r < kNumRefusalReasons; ++r) out.refused[r] = amount(totals.refused[r]);
  return out;
}

}  // namespace

AdmissionControllerActor::behavior_type AdmissionControllerState::make_behavior(
    AdmissionControllerDeps deps) {
  deps_ = std::move(deps);
  restore_state();
  totals_.cadences = gate_cadences(*deps_.ledger);
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
      handled_by(this, &AdmissionControllerState::device_computed),
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
    if (m.keys->empty()) continue;
    note_decision(tier, false);
    if (!decision.admitted) count_refusal(decision.refuser, tier, false, m.keys->size());
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
  // The log has one record per tier that got anything, in this order, and then the refusal.
  std::uint64_t noted = 0;  // by tier; an engine has at most 64
  for (std::size_t n = 0; n < decision.num_admitted(); ++n) {
    const std::uint64_t tier = std::uint64_t{1} << candidates[n].tier;
    if ((noted & tier) == 0) note_decision(candidates[n].tier, true);
    noted |= tier;
  }
  if (decision.num_admitted() < candidates.size()) {
    const TierIndex tier = candidates[decision.num_admitted()].tier;
    note_decision(tier, true);
    count_refusal(decision.refuser, tier, true, 1);
  }
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
  LookupGated answer{m.op, {}, {}};
  for (const auto tier : m.tiers) {
    answer.skip.push_back(deps_.ledger->decide_lookup(tier, m.prompt_tokens, m.device_tokens, now) ==
                          LookupDecision::skip);
    const bool asks = m.keys != nullptr && !answer.skip.back();
    answer.asked_until.push_back(asks
                                     ? deps_.ledger->decide_reach({tier, *m.keys, m.first_key}, now)
                                     : LookupReach::kEverything);
  }
  self_->send(sender(), std::move(answer));
}

void AdmissionControllerState::lookups_answered(const LookupsAnswered& m) {
  const auto now = self_->clock().now();
  for (const auto& e : m.entries) {
    if (!e.gated) deps_.ledger->count_lookup(e.tier, e.prompt_tokens, e.device_tokens, now);
    deps_.ledger->answer_lookup(e.tier, {e.answered, e.hit_tokens, e.device_tokens, e.took});
    if (e.keys && e.answered)
      deps_.ledger->observe_reach({{e.tier, *e.keys, e.first_key},
                                   e.served_until,
                                   e.served_chunks,
                                   e.asked_from,
                                   e.asked_until,
                                   e.probing},
                                  now);
  }
  if (const auto& wanted = m.wanted; wanted.keys)
    deps_.ledger->observe_demand(
        {wanted.primary, wanted.served, std::span(*wanted.keys).subspan(wanted.unserved_from), wanted.prefix}, now);
}

void AdmissionControllerState::verdicts_given(const VerdictsGiven& m) {
  const auto now = self_->clock().now();
  for (TierIndex tier = 0; tier < m.tiers.size(); ++tier)
    deps_.ledger->observe_verdicts(m.domain, tier, m.tiers[tier], now);
}

void AdmissionControllerState::device_computed(const DeviceComputed& m) {
  deps_.ledger->observe_computed(m.sample, self_->clock().now());
}

void AdmissionControllerState::below_floor(const BelowFloor& m) {
  deps_.ledger->refuse_below_floor(m.tier, m.chunks, m.whole_job, self_->clock().now());
  if (m.chunks == 0) return;
  note_decision(m.tier, false);
  count_refusal(to_string(RefusalReason::save_floor), m.tier, false, m.chunks);
}

void AdmissionControllerState::reset(const ResetAdmission&) { deps_.ledger->reset(); }

void AdmissionControllerState::tier_down(const TierDown& m) { deps_.ledger->disable_tier(m.tier, true); }

void AdmissionControllerState::fence(const Fence& m) {
  if (m.publish) publish_totals();
  self_->send(caf::actor_cast<SchedulerStepActor>(m.step), FenceReached{m.op});
}

void AdmissionControllerState::stop(const StopActor& m) {
  keep_state(true);
  m.reply.deliver(Ok{});
  self_->quit();
}

void AdmissionControllerState::tick(const Tick&) {
  for (const auto& report : deps_.ledger->due_reports(self_->clock().now()))
    deps_.env->log("info", report.tier + ": " + report.gate + ": " + report.text);
  publish_totals();
  keep_state(false);
  self_->delayed_send(self_, deps_.env->tick, Tick{});
}

// -- what survives the engine -------------------------------------------------------------------

void AdmissionControllerState::restore_state() {
  if (!deps_.keeping.unix_ms || deps_.keeping.kept.empty()) return;
  const auto restored = deps_.ledger->restore_state(
      deps_.keeping.kept, self_->clock().now(), deps_.keeping.unix_ms());
  deps_.keeping.kept.clear();
  if (restored) return;
  const std::string aside = deps_.keeping.keep_aside ? deps_.keeping.keep_aside() : std::string();
  deps_.env->log("warn",
                 "admission_state_file: " + restored.error().detail +
                     (aside.empty() ? "" : "; it is kept as " + aside + " when it is replaced"));
}

void AdmissionControllerState::keep_state(bool is_last) {
  if (!deps_.keeping.keep || !deps_.keeping.unix_ms) return;
  const auto now = self_->clock().now();
  if (!is_last && now < keep_at_) return;
  // While nothing is admitted and nothing ends, the state moves with the clock alone, and whoever
  // restores it knows what that comes to.
  std::uint64_t moves = 0;
  for (TierIndex tier = 0; tier < deps_.ledger->num_tiers(); ++tier)
    for (const auto* kind : {&deps_.ledger->totals(tier).cascades, &deps_.ledger->totals(tier).promotions})
      moves += kind->admitted.chunks + kind->completed.chunks + kind->withdrawn.chunks;
  if (std::exchange(kept_moves_, moves) == moves) return;
  keep_at_ = now + deps_.keeping.every;
  std::string text = deps_.ledger->saved_state(now, deps_.keeping.unix_ms());
  if (!text.empty()) deps_.keeping.keep(std::move(text));
}

// -- what is shown ------------------------------------------------------------------------------

std::string AdmissionControllerState::label_of(TierIndex tier) const {
  return tier < deps_.tier_labels.size() ? deps_.tier_labels[tier] : tier_label(tier, "unknown");
}

void AdmissionControllerState::note_decision(TierIndex tier, bool is_promotion) {
  const auto& totals = deps_.ledger->totals(tier);
  const auto& kind = is_promotion ? totals.promotions : totals.cascades;
  notes_[num_noted_++ % notes_.size()] = {kind.in_flight.chunks, nullptr};
}

void AdmissionControllerState::count_refusal(std::string_view policy, TierIndex tier,
                                             bool is_promotion, std::uint64_t chunks) {
  Refusals& refusals = refusals_[{policy, tier, is_promotion}];
  ++refusals.decisions;
  refusals.chunks += chunks;
}

void AdmissionControllerState::publish_totals() {
  const auto& ledger = *deps_.ledger;
  publish_flows();
  totals_.pressure_epoch = ledger.pressure_epoch();
  totals_.stale_tickets = ledger.stale_chunks();
  totals_.balance_violation.clear();
  ledger.check_balance(&totals_.balance_violation);
  const auto now = self_->clock().now();
  totals_.policy_samples = ledger.stats(now);
  totals_.gates = ledger.gate_reports(now);
  publish_decisions();
  self_->send(deps_.metrics, PublishTotals{totals_});
}

void AdmissionControllerState::publish_flows() {
  const auto& ledger = *deps_.ledger;
  totals_.tiers.assign(ledger.num_tiers(), {});
  totals_.tickets_open = 0;
  for (TierIndex tier = 0; tier < ledger.num_tiers(); ++tier) {
    auto& out = totals_.tiers[tier];
    const auto& in = ledger.totals(tier);
    out.cascades = flow(in.cascades);
    out.promotions = flow(in.promotions);
    out.pin_share_chunks = ledger.pin_share_chunks(tier);
    out.disabled = ledger.is_disabled(tier);
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
}

void AdmissionControllerState::publish_decisions() {
  const auto& ledger = *deps_.ledger;
  totals_.refusers.clear();
  for (const auto& [who, n] : refusals_) {
    const auto& [policy, tier, is_promotion] = who;
    totals_.refusers.push_back({std::string(policy), tier, is_promotion, n.decisions, n.chunks});
  }
  const std::uint64_t num_added = ledger.decisions().num_added();
  assert(num_added == num_noted_ && "a decision was logged that nobody noted");
  if (num_added == num_published_) return;
  const auto recent = ledger.decisions().recent();
  const std::uint64_t first = num_added - recent.size();
  std::map<std::tuple<std::string_view, TierIndex, bool>, std::shared_ptr<const std::string>> numbers;
  totals_.decisions.clear();
  for (std::size_t i = 0; i < recent.size(); ++i) {
    const auto& r = recent[i];
    Note& note = notes_[(first + i) % notes_.size()];
    if (!r.admitted && first + i >= num_published_) {
      auto& text = numbers[{r.refuser, r.tier, r.is_promotion}];
      if (text == nullptr)
        text = std::make_shared<const std::string>(
            refusal_numbers(ledger, r, label_of(r.tier), self_->clock().now()));
      note.numbers = text;
    }
    totals_.decisions.push_back({r.at, r.tier, r.is_promotion, r.chunks, r.admitted, r.reason,
                                 std::string(r.refuser), note.in_flight_chunks, note.numbers});
  }
  num_published_ = num_added;
}

AdmissionControllerActor::behavior_type admission_controller_actor(
    AdmissionControllerActor::stateful_pointer<AdmissionControllerState> self,
    AdmissionControllerDeps deps) {
  return self->state.make_behavior(std::move(deps));
}

}  // namespace kv_offload
