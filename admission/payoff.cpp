#include "kv_offload/admission/payoff.hpp"

#include "kv_offload/admission/text_format.hpp"

#include <utility>

namespace kv_offload {

Payoff::Payoff(const PayoffOptions& options, AdmissionEnvironment environment)
    : options_(options), environment_(std::move(environment)) {
  tiers_.assign(environment_.tiers.size(), Tier(options_.alpha));
}

bool Payoff::is_judged(const JobMetadata& job) const {
  return !job.is_promotion && job.tier < tiers_.size();
}

double Payoff::computed_share(TierIndex tier) const {
  if (options_.mode == GateMode::off || !is_warm(tier)) return 1;
  return payoff_share(tiers_[tier].estimate.value(), options_.target, options_.floor);
}

double Payoff::realised_share(TierIndex tier) const {
  const Tier& t = tiers_[tier];
  const std::uint64_t all = t.saved_jobs + t.declined_jobs;
  return all == 0 ? 1 : static_cast<double>(t.saved_jobs) / static_cast<double>(all);
}

RefusalReason Payoff::should_admit(const JobMetadata& job, MonotonicTime /*now*/) const {
  if (options_.mode != GateMode::enforce || !is_judged(job) || !is_warm(job.tier))
    return RefusalReason::none;
  return tiers_[job.tier].credit.admits(computed_share(job.tier)) ? RefusalReason::none
                                                                  : RefusalReason::payoff;
}

void Payoff::on_admitted(const JobMetadata& job, MonotonicTime /*now*/) {
  if (!is_judged(job)) return;
  Tier& tier = tiers_[job.tier];
  ++tier.saved_jobs;
  tier.saved_chunks += job.num_chunks;
  if (options_.mode == GateMode::off || !is_warm(job.tier)) return;
  const double share = computed_share(job.tier);
  if (tier.credit.admits(share)) {
    tier.credit.admitted(share);
    return;
  }
  // Only an observing gate comes here: it goes on as if it had declined.
  tier.credit.refused(share);
  ++tier.would_decline_jobs;
  tier.would_decline_chunks += job.num_chunks;
}

void Payoff::on_refused(const JobMetadata& job, const AdmissionPolicy* refuser,
                        MonotonicTime /*now*/) {
  if (refuser != this || !is_judged(job)) return;
  Tier& tier = tiers_[job.tier];
  tier.credit.refused(computed_share(job.tier));
  ++tier.declined_jobs;
  tier.declined_chunks += job.num_chunks;
}

void Payoff::on_verdicts(TierIndex tier, const VerdictCounts& tally, MonotonicTime now) {
  const std::uint64_t samples = tally.samples();
  if (tier >= tiers_.size() || samples == 0) return;
  Tier& t = tiers_[tier];
  t.estimate.fold(samples, tally.paid());
  for (std::size_t i = 0; i < kNumLoadVerdicts; ++i)
    t.verdicts.by_verdict[i] += tally.by_verdict[i];
  t.verdict_rate.add(samples, now);
  // Did the count of verdicts cross a multiple of the cadence?
  if (t.estimate.samples() % options_.report_every < samples) ++t.log_moments;
}

void Payoff::reset() { tiers_.assign(tiers_.size(), Tier(options_.alpha)); }

std::vector<PolicySetting> Payoff::settings() const {
  return {{"mode", std::string(to_string(options_.mode)), ""},
          {"target", formatted("%g", options_.target), ""},
          {"floor", formatted("%g", options_.floor), ""},
          {"alpha", formatted("%g", options_.alpha), ""},
          {"warmup", std::to_string(options_.warmup), "verdicts"},
          {"report_every", std::to_string(options_.report_every), "verdicts"}};
}

}  // namespace kv_offload
