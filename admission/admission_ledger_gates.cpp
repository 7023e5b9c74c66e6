// The ledger's part that decides no jobs: lookups, verdicts, reports, and what survives a restart.
#include "kv_offload/admission/admission_ledger.hpp"
#include "kv_offload/admission/composite.hpp"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

namespace kv_offload {
namespace {

constexpr std::string_view kStateHeader = "kv_offload admission 1\n";

}  // namespace

LookupDecision AdmissionLedger::decide_lookup(TierIndex tier, std::uint64_t prompt_tokens,
                                              std::uint64_t device_tokens, MonotonicTime now) {
  if (tier >= gates_.lookups().num_tiers()) return LookupDecision::look_up;
  LookupGate& gate = gates_.lookups().gate(tier);
  const LookupDecision decision = gate.decide(prompt_tokens, device_tokens);
  if (decision != LookupDecision::skip) {
    gate.on_issued(prompt_tokens, device_tokens, now);
    return decision;
  }
  gate.on_skipped(prompt_tokens, device_tokens, now);
  // The verdict is owed: the skip proves it, and payoff must not rise because lookups were skipped.
  VerdictCounts tally;
  tally.add(LoadVerdict::lookup_skipped);
  count_verdicts(tier, tally, now);
  return decision;
}

void AdmissionLedger::count_lookup(TierIndex tier, std::uint64_t prompt_tokens,
                                   std::uint64_t device_tokens, MonotonicTime now) {
  if (tier >= gates_.lookups().num_tiers()) return;
  gates_.lookups().gate(tier).on_issued(prompt_tokens, device_tokens, now);
}

void AdmissionLedger::answer_lookup(TierIndex tier, const GatedAnswer& answer) {
  if (tier >= gates_.lookups().num_tiers()) return;
  LookupGate& gate = gates_.lookups().gate(tier);
  if (answer.answered)
    gate.on_answer(answer.hit_tokens, answer.device_tokens, answer.took);
  else
    gate.on_no_answer(answer.took);
}

void AdmissionLedger::observe_verdicts(DomainId sender, TierIndex tier, const VerdictCounts& total,
                                       MonotonicTime now) {
  count_verdicts(tier, verdicts_.take(sender, tier, total), now);
}

void AdmissionLedger::count_verdicts(TierIndex tier, const VerdictCounts& tally,
                                     MonotonicTime now) {
  if (tally.samples() == 0) return;
  policy_->on_verdicts(tier, tally, now);
  for (AdmissionPolicy* own : gates_.own()) own->on_verdicts(tier, tally, now);
}

void AdmissionLedger::refuse_below_floor(TierIndex tier, std::uint32_t num_chunks,
                                         bool is_whole_job, MonotonicTime now) {
  assert(tier < tiers_.size());
  if (num_chunks == 0) return;
  constexpr RefusalReason kReason = RefusalReason::save_floor;
  AdmissionTotals& totals = totals_of(tier, false);
  const std::uint64_t jobs = is_whole_job ? 1 : 0;
  for (JobCount* count : {&totals.offered, &totals.refused[static_cast<std::size_t>(kReason)]}) {
    count->jobs += jobs;
    count->chunks += num_chunks;
  }
  log_.add({now, tier, false, num_chunks, false, kReason, to_string(kReason)});
}

void AdmissionLedger::overdue(AdmissionTicket ticket, std::uint32_t num_chunks, MonotonicTime now) {
  const auto it = tickets_.find(ticket);
  if (it == tickets_.end()) return;  // it ended, or was erased by a reset
  JobMetadata job;
  job.ticket = ticket;
  job.tier = it->second.tier;
  job.is_promotion = it->second.is_promotion;
  job.num_chunks = std::min(num_chunks, it->second.chunks);
  job.bytes = it->second.chunk_bytes * job.num_chunks;
  if (job.num_chunks > 0) policy_->on_overdue(job, now);
}

std::vector<MetricSample> AdmissionLedger::all_samples(MonotonicTime now) const {
  std::vector<MetricSample> samples = policy_->stats(now);
  for (const AdmissionPolicy* own : gates_.own()) merge_samples(samples, own->stats(now));
  return samples;
}

std::vector<GateReport> AdmissionLedger::gate_reports(MonotonicTime now) const {
  std::vector<GateReport> reports = policy_->gate_reports(now);
  for (const AdmissionPolicy* own : gates_.own())
    for (GateReport& report : own->gate_reports(now)) reports.push_back(std::move(report));
  return reports;
}

std::vector<GateReport> AdmissionLedger::due_reports(MonotonicTime now) {
  std::vector<GateReport> due = gate_reports(now);
  std::erase_if(due, [&](const GateReport& report) {
    std::uint64_t& seen = reported_[{report.gate, report.tier}];
    return std::exchange(seen, report.log_moments) == report.log_moments;
  });
  return due;
}

std::string AdmissionLedger::saved_state(MonotonicTime now, std::int64_t unix_ms) const {
  const std::string state = policy_->saved_state(now, unix_ms);
  return state.empty() ? state : std::string(kStateHeader) + state;
}

Expected<Ok> AdmissionLedger::restore_state(std::string_view text, MonotonicTime now,
                                            std::int64_t unix_ms) {
  if (text.empty()) return Ok{};
  if (text.starts_with(kStateHeader))
    return policy_->restore_state(text.substr(kStateHeader.size()), now, unix_ms);
  const auto restored = policy_->restore_state("damaged", now, unix_ms);
  if (!restored) return restored;
  return {OffloadErrc::invalid_argument,
          "admission: the saved state is damaged or of another version"};
}

}  // namespace kv_offload
