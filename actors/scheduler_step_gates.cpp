#include "kv_offload/actors/scheduler_step_actor.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <limits>

// What the admission gates learn from lookups, and what they forbid:
//
//   a request's first lookup ─GateLookup→ (beside PrimaryProbe) lookup_gated: tiers to leave out
//   its answer ─LookupsAnswered→   ·   allocated ─VerdictsGiven→   ·   stores below the floor ─BelowFloor→
//
// Needs tokens_per_chunk; without it nothing is asked, and only what was wanted is told.
namespace kv_offload {

void SchedulerStepState::ask_gate(LookupOp& op, Request& request) {
  if (deps_.tokens_per_chunk == 0) return;
  const auto prompt_tokens = op.request->request.prompt_tokens;
  for (TierIndex t = 0; t < deps_.tiers.size(); ++t) {
    auto& claim = request.claims[t];
    if (claim.lookup == TierClaim::Lookup::skipped) {
      if (op.skipped.empty()) op.skipped.assign(deps_.tiers.size(), false);
      op.skipped[t] = true;
      continue;
    }
    const bool asked = tier_alive_[t] && op.request->excluded_tier != t &&
                       op.request->request.load_tiers.allows(deps_.traits[t]);
    if (claim.lookup != TierClaim::Lookup::none || !asked) continue;
    claim.lookup = TierClaim::Lookup::issued;
    claim.gated = deps_.gates_lookups && prompt_tokens > 0;
    if (claim.gated) op.gate_tiers.push_back(t);
  }
  if (op.gate_tiers.empty()) return;
  op.awaits_gate = true;
  self_->send(deps_.admission,
              GateLookup{op.op, prompt_tokens, op.options.device_tokens, op.gate_tiers,
                         op.prefix() ? op.keys : nullptr, op.on_device});
}

void SchedulerStepState::lookup_gated(const LookupGated& m) {
  const auto it = lookups_.find(m.op);
  if (it == lookups_.end()) return;
  auto& op = it->second;
  op.awaits_gate = false;
  auto* request = find_request(op.request->handle);
  op.asked_until.assign(deps_.tiers.size(), std::numeric_limits<std::uint32_t>::max());
  for (std::size_t n = 0; n < op.gate_tiers.size() && n < m.asked_until.size(); ++n)
    op.asked_until[op.gate_tiers[n]] = m.asked_until[n];
  for (std::size_t n = 0; n < op.gate_tiers.size() && n < m.skip.size(); ++n) {
    if (!m.skip[n]) continue;
    if (op.skipped.empty()) op.skipped.assign(deps_.tiers.size(), false);
    op.skipped[op.gate_tiers[n]] = true;
    if (request == nullptr) continue;
    auto& claim = request->claims[op.gate_tiers[n]];
    claim.lookup = TierClaim::Lookup::skipped;
    claim.judged = true;  // the gate has counted the skip as the verdict
    request->save_floor = chunk_floor(op.options.device_tokens, deps_.tokens_per_chunk);
  }
  if (op.primary_told) take_primary_answer(op);
}

/// What the lookup found beyond the device, and what it wanted and did not find; nothing if there was none of it,
/// or while a poller has to ask again.
LookupsAnswered::Wanted SchedulerStepState::wanted_of(const LookupOp& op, const LookupAnswer& answer) {
  LookupsAnswered::Wanted wanted;
  if (op.num_tiers == 0 || std::find(op.state.begin(), op.state.end(), LookupOp::Key::retry) != op.state.end()) return {};
  wanted.served.assign(op.num_tiers, 0);
  wanted.prefix = op.prefix();
  if (op.prefix()) {
    wanted.primary = answer.tier_hits[0];
    std::copy(answer.tier_hits.begin() + 1, answer.tier_hits.end(), wanted.served.begin());
    wanted.unserved_from = answer.leading_hits;
    wanted.keys = op.keys;
  } else {
    auto unserved = std::make_shared<KeyList>();
    for (std::size_t i = 0; i < op.size(); ++i) {
      const bool found = LookupOp::resolved_hit(op.state[i]) || LookupOp::on_its_way(op.state[i]);
      if (!found) unserved->push_back((*op.keys)[i]);
      else ++(op.found_in[i] > 0 ? wanted.served[op.found_in[i] - 1U] : wanted.primary);
    }
    wanted.keys = std::move(unserved);
  }
  const bool anything = wanted.unserved_from < wanted.keys->size() || wanted.primary > 0 ||
                        std::any_of(wanted.served.begin(), wanted.served.end(), [](auto n) { return n > 0; });
  return anything ? wanted : LookupsAnswered::Wanted{};
}

/// Tells admission, once per request and tier, how the lookup ended, and keeps what the tier claims.
void SchedulerStepState::note_lookup(const LookupOp& op, Request& request, const LookupAnswer& answer) {
  request.answered_at = self_->clock().now();
  if (op.answered) return;
  LookupsAnswered report;
  if (!request.wants_told) {
    report.wanted = wanted_of(op, answer);
    request.wants_told = report.wanted.keys != nullptr;
  }
  if (deps_.tokens_per_chunk == 0) {
    if (report.wanted.keys) self_->send(deps_.admission, std::move(report));
    return;
  }
  const auto reached = op.reach();
  bool judged = false;
  for (TierIndex t = 0; t < deps_.tiers.size(); ++t) {
    auto& claim = request.claims[t];
    if (claim.lookup != TierClaim::Lookup::issued) continue;
    bool asked = false, unresolved = false, gave_up = false;
    std::uint32_t asked_from = 0, asked_until = 0;
    for (std::uint32_t i = 0; i < reached; ++i) {
      const auto verdict = op.verdict(i, t + 1U);
      if (verdict != LookupOp::kNotAsked && !op.is_on_device(i)) {
        if (asked_until == 0) asked_from = i;
        asked_until = i + 1;
      }
      asked = asked || verdict != LookupOp::kNotAsked || op.found_in[i] == t + 1U;
      gave_up = gave_up || verdict >= LookupOp::kGaveUp;
      unresolved = unresolved || op.state[i] == LookupOp::Key::retry;
    }
    if (unresolved) continue;  // a poller asks again
    std::uint64_t hit_tokens = 0;
    std::uint32_t served = 0, served_until = 0;
    for (std::uint32_t i = 0; i < answer.leading_hits; ++i) {
      if (op.found_in[i] != t + 1U) continue;
      served += op.is_on_device(i) ? 0U : 1U;
      served_until = i + 1;
      const auto begin = op.options.first_token + std::uint64_t{i} * deps_.tokens_per_chunk;
      if (hit_tokens == 0) claim.from_tokens = begin;
      hit_tokens = begin + deps_.tokens_per_chunk;
    }
    claim.lookup = TierClaim::Lookup::answered;
    claim.hit_tokens = hit_tokens;
    report.entries.push_back(
        {t, claim.gated, !gave_up || hit_tokens > 0, op.request->request.prompt_tokens, hit_tokens,
         op.options.device_tokens, asked ? self_->clock().now() - op.started : Duration::zero(),
         op.tier_times[t].probing, served, claim.gated && op.prefix() ? op.keys : nullptr,
         op.on_device, served_until, asked_from, asked_until});
    if (hit_tokens > 0 && hit_tokens <= op.options.device_tokens) {
      claim.judged = judged = true;
      verdicts_[t].add(LoadVerdict::nothing_needed);
    }
  }
  if (!report.entries.empty() || report.wanted.keys) self_->send(deps_.admission, std::move(report));
  if (judged) self_->send(deps_.admission, VerdictsGiven{deps_.domain, verdicts_});
}

/// The one verdict of a request on each tier that claimed something.
void SchedulerStepState::judge_claims(Request& request, std::uint64_t device_tokens) {
  if (deps_.tokens_per_chunk == 0) return;
  bool judged = false;
  for (TierIndex t = 0; t < deps_.tiers.size(); ++t) {
    auto& claim = request.claims[t];
    if (claim.judged || claim.hit_tokens == 0) continue;
    claim.judged = judged = true;
    // What other tiers served before it is not this tier's merit.
    const auto there = std::max(device_tokens, claim.from_tokens);
    verdicts_[t].add(judge_load({claim.hit_tokens, there}, deps_.tokens_per_chunk, deps_.min_load_tokens));
  }
  if (judged) self_->send(deps_.admission, VerdictsGiven{deps_.domain, verdicts_});
}

/// Lookups that were issued and never answered: nothing is learnt, but they are counted.
void SchedulerStepState::end_claims(Request& request) {
  LookupsAnswered report;
  for (TierIndex t = 0; t < request.claims.size(); ++t)
    if (request.claims[t].lookup == TierClaim::Lookup::issued)
      report.entries.push_back({t,
                                request.claims[t].gated,
                                false,
                                request.context->request.prompt_tokens,
                                0,
                                0,
                                {},
                                {},
                                0,
                                nullptr,
                                0,
                                0,
                                0,
                                0});
  if (!report.entries.empty()) self_->send(deps_.admission, std::move(report));
}

/// A store of its prompt tells how far the device has computed it; one that does not say where it begins, that it has
/// computed all.
void SchedulerStepState::note_store(RequestHandle handle, const Request& request, std::size_t keys,
                                    std::optional<std::uint64_t> first_token) {
  const auto prompt = request.context->request.prompt_tokens;
  if (first_token && *first_token >= prompt)
    return compute_meter_.ended(handle, self_->clock().now());
  const auto until =
      first_token ? *first_token + std::uint64_t{keys} * deps_.tokens_per_chunk : prompt;
  auto sample = compute_meter_.stored(handle, prompt - std::min(prompt, until), requests_.size(),
                                      self_->clock().now());
  if (sample) self_->send(deps_.admission, DeviceComputed{std::move(*sample)});
}

/// The leading chunks of the store lie below the floor: they go on to the tiers that were not skipped, as
/// an op of their own, and are refused for the others.
void SchedulerStepState::split_below_floor(CascadeOp& op) {
  auto* request = find_request(op.request);
  const auto below = std::min(op.lease.below_floor, op.lease.chunk_ids.size());
  op.lease.below_floor = 0;
  if (request == nullptr || below == 0) return;
  std::vector<TierIndex> others;
  const bool whole = below == op.lease.chunk_ids.size();
  for (const auto t : op.tiers) {
    if (request->claims[t].lookup != TierClaim::Lookup::skipped) {
      others.push_back(t);
      continue;
    }
    auto& offer = totals_.offers[t];
    offer.cascades_offered.add(below, deps_.chunk_bytes);
    offer.cascades_refused[static_cast<std::size_t>(RefusalReason::save_floor)].add(below, deps_.chunk_bytes);
    offer.cascade_jobs_refused += whole ? 1U : 0U;
    op.outcome.cascades_refused += whole ? 1U : 0U;
    self_->send(deps_.admission, BelowFloor{t, static_cast<std::uint32_t>(below), whole});
  }
  if (others.size() == op.tiers.size()) return;
  KeyIdxList leading(below), rest(op.lease.chunk_ids.size() - below);
  for (std::uint32_t i = 0; i < op.lease.chunk_ids.size(); ++i) (i < below ? leading[i] : rest[i - below]) = i;
  CascadeOp lower;
  lower.request = op.request;
  lower.context = op.context;
  lower.lease = op.lease;
  lower.lease.leave_out(rest);
  lower.tiers = others;
  op.lease.leave_out(leading);
  if (others.empty()) {
    homes_.send(PinCascades{lower.lease.chunk_ids, 0, lower.lease.epoch});
    return;
  }
  ++request->open_stores;
  const auto lower_id = next_op_++;
  self_->send(deps_.admission, AdmitCascades{lower_id, lower.context, lower.lease.keys, lower.tiers, deps_.chunk_bytes});
  cascades_.emplace(lower_id, std::move(lower));
}

}  // namespace kv_offload
