#include "kv_offload/admission/admission_ledger.hpp"

#include "kv_offload/admission/composite.hpp"
#include "kv_offload/messages/broken_promise.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace kv_offload {
namespace {

void add(JobCount& count, std::uint64_t jobs, std::uint64_t chunks) {
  count.jobs += jobs;
  count.chunks += chunks;
}

void take(JobCount& count, std::uint64_t jobs, std::uint64_t chunks) {
  assert(count.jobs >= jobs && count.chunks >= chunks);
  count.jobs -= jobs;
  count.chunks -= chunks;
}

}  // namespace

AdmissionLedger::AdmissionLedger(std::unique_ptr<AdmissionPolicy> policy,
                                 std::vector<std::uint32_t> tier_pin_share_chunks,
                                 const AdmissionEnvironment& environment)
    : policy_(std::move(policy)),
      gates_(*policy_, environment),
      tiers_(tier_pin_share_chunks.size()) {
  assert(policy_ != nullptr);
  for (std::size_t i = 0; i < tiers_.size(); ++i) tiers_[i].pin_share = tier_pin_share_chunks[i];
}

AdmissionTotals& AdmissionLedger::totals_of(TierIndex tier, bool is_promotion) {
  TierAdmissionTotals& totals = tiers_[tier].totals;
  return is_promotion ? totals.promotions : totals.cascades;
}

AdmissionLedger::Answer AdmissionLedger::ask(const JobMetadata& job, MonotonicTime now) {
  Tier& tier = tiers_[job.tier];
  // What never reaches the policy must not move its shares: no hook is called for these two.
  // Each direction has the share to itself, or the stores that wait for a slow tier would refuse the loads
  // that go before them. Promotions' slots are counted once more, against the primary tier's own share.
  if (totals_of(job.tier, job.is_promotion).in_flight.chunks + job.num_chunks > tier.pin_share)
    return {RefusalReason::pin_share, to_string(RefusalReason::pin_share)};
  if (tier.disabled) return {RefusalReason::tier_disabled, to_string(RefusalReason::tier_disabled)};

  bool& refused_before = tier.refused_before[job.is_promotion ? 1 : 0];
  const RefusalReason reason = policy_->should_admit(job, now);
  if (reason == RefusalReason::none) {
    if (std::exchange(refused_before, false)) ++pressure_epoch_;
    return {};
  }
  refused_before = true;
  const Answer answer{reason, find_refuser(*policy_, job, now).name()};
  policy_->on_refused(job, policy_.get(), now);
  return answer;
}

void AdmissionLedger::commit(const JobMetadata& job, MonotonicTime now) {
  policy_->on_admitted(job, now);
  for (AdmissionPolicy* own : gates_.own()) own->on_admitted(job, now);
  const auto [it, is_new] = tickets_.try_emplace(
      job.ticket, Ticket{job.tier, job.is_promotion, false, 0, job.bytes / job.num_chunks});
  it->second.chunks += job.num_chunks;
  AdmissionTotals& totals = totals_of(job.tier, job.is_promotion);
  add(totals.admitted, is_new ? 1 : 0, job.num_chunks);
  add(totals.in_flight, is_new ? 1 : 0, job.num_chunks);
}

CascadeDecision AdmissionLedger::decide_cascade(TierIndex tier, std::span<const OffloadKey> keys,
                                                std::uint64_t bytes, const RequestContext* request,
                                                MonotonicTime now) {
  assert(tier < tiers_.size());
  if (keys.empty()) return {};
  const auto num_chunks = static_cast<std::uint32_t>(keys.size());
  const JobMetadata job{next_ticket_, tier, false, num_chunks, bytes, keys, request};
  AdmissionTotals& totals = totals_of(tier, false);
  add(totals.offered, 1, num_chunks);
  const Answer answer = ask(job, now);
  const bool admitted = answer.reason == RefusalReason::none;
  log_.add({now, tier, false, num_chunks, admitted, answer.reason, answer.refuser});
  if (!admitted) {
    add(totals.refused[static_cast<std::size_t>(answer.reason)], 1, num_chunks);
    return {false, 0, answer.reason, answer.refuser};
  }
  commit(job, now);
  return {true, next_ticket_++, RefusalReason::none, {}};
}

PromotionDecision AdmissionLedger::decide_promotions(std::span<const PromotionCandidate> candidates,
                                                     std::uint64_t chunk_bytes,
                                                     const RequestContext* request,
                                                     MonotonicTime now) {
  PromotionDecision decision;
  for (const PromotionCandidate& candidate : candidates) ++tiers_[candidate.tier].batch_left;
  for (const PromotionCandidate& candidate : candidates) {
    assert(candidate.tier < tiers_.size());
    Tier& tier = tiers_[candidate.tier];
    const bool is_first = tier.batch_ticket == 0;
    const JobMetadata job{is_first ? next_ticket_ : tier.batch_ticket,
                          candidate.tier,
                          true,
                          1,
                          chunk_bytes,
                          {&candidate.key, 1},
                          request,
                          tier.batch_left--};
    add(tier.totals.promotions.offered, is_first ? 1 : 0, 1);
    const Answer answer = ask(job, now);
    if (answer.reason != RefusalReason::none) {
      add(tier.totals.promotions.refused[static_cast<std::size_t>(answer.reason)], is_first ? 1 : 0,
          1);
      decision.reason = answer.reason;
      decision.refuser = answer.refuser;
      break;
    }
    commit(job, now);
    if (is_first) tier.batch_ticket = next_ticket_++;
    ++tier.batch_chunks;
    if (decision.tickets.empty()) decision.tickets.reserve(candidates.size());
    decision.tickets.push_back(job.ticket);
  }
  for (const PromotionCandidate& candidate : candidates) tiers_[candidate.tier].batch_left = 0;
  const std::size_t admitted = decision.num_admitted();
  for (std::size_t i = 0; i < admitted; ++i) log_batch(candidates[i].tier, now);
  if (admitted < candidates.size())
    log_.add({now, candidates[admitted].tier, true, 1, false, decision.reason, decision.refuser});
  return decision;
}

void AdmissionLedger::log_batch(TierIndex tier, MonotonicTime now) {
  Tier& batch = tiers_[tier];
  if (batch.batch_chunks == 0) return;  // one line per tier and batch, or a batch fills the log
  log_.add({now, tier, true, batch.batch_chunks, true, RefusalReason::none, {}});
  batch.batch_chunks = 0;
  batch.batch_ticket = 0;
}

JobMetadata AdmissionLedger::end_chunks(AdmissionTicket ticket, std::uint32_t num_chunks,
                                        bool completed) {
  JobMetadata job;
  const auto it = tickets_.find(ticket);
  job.num_chunks = it == tickets_.end() ? 0 : std::min(num_chunks, it->second.chunks);
  stale_chunks_ += num_chunks - job.num_chunks;
  if (job.num_chunks == 0) return job;

  Ticket& entry = it->second;
  job.ticket = ticket;
  job.tier = entry.tier;
  job.is_promotion = entry.is_promotion;
  job.bytes = entry.chunk_bytes * job.num_chunks;
  entry.chunks -= job.num_chunks;
  entry.any_completed = entry.any_completed || completed;

  AdmissionTotals& totals = totals_of(entry.tier, entry.is_promotion);
  const bool is_last = entry.chunks == 0;
  (completed ? totals.completed : totals.withdrawn).chunks += job.num_chunks;
  if (is_last) (entry.any_completed ? totals.completed : totals.withdrawn).jobs += 1;
  take(totals.in_flight, is_last ? 1 : 0, job.num_chunks);
  if (is_last) tickets_.erase(it);
  ++pressure_epoch_;
  return job;
}

void AdmissionLedger::withdraw(AdmissionTicket ticket, std::uint32_t num_chunks,
                               MonotonicTime now) {
  const JobMetadata job = end_chunks(ticket, num_chunks, false);
  if (job.num_chunks > 0) policy_->on_withdrawn(job, now);
}

void AdmissionLedger::complete(AdmissionTicket ticket, std::uint32_t num_chunks,
                               const CompletedTransfer& result, MonotonicTime now) {
  if (promise_broken(3)) return;
  const JobMetadata job = end_chunks(ticket, num_chunks, true);
  if (job.num_chunks > 0) policy_->on_completed(job, result, now);
}

void AdmissionLedger::reset() {
  // Gauges of the old state must not outlive it: only counters are carried over.
  for (MetricSample& sample : all_samples({}))
    if (sample.name.ends_with("_total")) merge_samples(counters_before_reset_, {std::move(sample)});
  for (auto& [gate, moments] : reported_) moments = 0;
  policy_->reset();
  for (AdmissionPolicy* own : gates_.own()) own->reset();
  tickets_.clear();
  for (Tier& tier : tiers_) {
    for (AdmissionTotals* totals : {&tier.totals.cascades, &tier.totals.promotions}) {
      add(totals->erased, totals->in_flight.jobs, totals->in_flight.chunks);
      totals->in_flight = {};
    }
    tier.refused_before[0] = tier.refused_before[1] = false;
  }
  ++pressure_epoch_;
}

void AdmissionLedger::disable_tier(TierIndex tier, bool disabled) {
  assert(tier < tiers_.size());
  if (tiers_[tier].disabled && !disabled) ++pressure_epoch_;
  tiers_[tier].disabled = disabled;
}

std::vector<MetricSample> AdmissionLedger::stats(MonotonicTime now) const {
  std::vector<MetricSample> samples = all_samples(now);
  merge_samples(samples, counters_before_reset_);
  return samples;
}

}  // namespace kv_offload
