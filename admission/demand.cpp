#include "kv_offload/admission/demand.hpp"

#include "kv_offload/admission/policy_series.hpp"
#include "kv_offload/admission/text_format.hpp"
#include "kv_offload/messages/byte_size.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kv_offload {
namespace {

constexpr const char* kRate = "kv_offload_demand_rate";
constexpr const char* kOpen = "kv_offload_demand_open";
constexpr const char* kCost = "kv_offload_demand_store_seconds";
constexpr const char* kGain = "kv_offload_demand_hit_seconds";
constexpr const char* kAccount = "kv_offload_demand_account_seconds";
constexpr const char* kOffered = "kv_offload_demand_offered_chunks_total";
constexpr const char* kWanted = "kv_offload_demand_wanted_chunks_total";
constexpr const char* kDeclinedJobs = "kv_offload_demand_declined_jobs_total";
constexpr const char* kDeclinedChunks = "kv_offload_demand_declined_chunks_total";
constexpr const char* kWouldChunks = "kv_offload_demand_would_decline_chunks_total";

constexpr double kDebtS =
    2;  // spent on a rate that promises to pay, until chunks that were served do
constexpr double kSavingsS = 2;
constexpr std::uint64_t kTrialWindows =
    8;  // of a device that computes while the tier is written to
constexpr std::uint64_t kAloneWindows = 4;

}  // namespace

Demand::Demand(const DemandOptions& options, AdmissionEnvironment environment)
    : options_(options),
      environment_(std::move(environment)),
      costs_(environment_.tiers.size(), environment_.compute_tokens_per_s),
      seen_(options.memory_chunks) {
  tiers_.assign(environment_.tiers.size(), Tier());
}

bool Demand::is_judged(const JobMetadata& job) const {
  return !job.is_promotion && job.tier < tiers_.size();
}

double Demand::rate(TierIndex tier) const {
  const Tier& t = tiers_[tier];
  return t.offered > 0 ? t.wanted / t.offered : 1;
}

double Demand::chunk_cost_s(TierIndex tier) const {
  return costs_.written_s_per_byte(tier) * static_cast<double>(chunk_bytes_);
}

double Demand::chunk_gain_s(TierIndex tier) const {
  return costs_.saved_second() * costs_.token_s() *
             static_cast<double>(environment_.tokens_per_chunk) -
         costs_.read_s_per_byte(tier) * static_cast<double>(chunk_bytes_);
}

bool Demand::is_trying(TierIndex tier) const {
  return costs_.knows_speed() && costs_.written_windows(tier) < kTrialWindows;
}

/// One store after the other, with as much time between the first of them: the device is seen with and without.
bool Demand::may_try(TierIndex tier) const {
  for (std::size_t t = 0; t < tiers_.size(); ++t)
    if (tiers_[t].in_flight > 0 && (t == tier || is_trying(static_cast<TierIndex>(t))))
      return false;
  return costs_.alone_windows() >= kAloneWindows ||
         costs_.alone_windows() > costs_.written_windows(tier);
}

bool Demand::is_open(TierIndex tier, std::uint32_t chunks) const {
  const Tier& t = tiers_[tier];
  if (options_.mode == GateMode::off) return true;
  if (is_trying(tier) && !may_try(tier)) return false;
  if (const double cost = chunk_cost_s(tier); cost > 0) {
    const double gain = chunk_gain_s(tier), needed = t.offered > 0 ? t.needed / t.offered : 1;
    const bool pays = gain > 0 && needed * gain >= cost;
    if (t.account_s < std::min(cost * chunks, kSavingsS) - (pays ? kDebtS : 0)) return false;
    if (pays) return true;
  }
  return t.offered_bytes < options_.grace_bytes || rate(tier) >= options_.target;
}

RefusalReason Demand::should_admit(const JobMetadata& job, MonotonicTime /*now*/) const {
  if (options_.mode != GateMode::enforce || !is_judged(job) || is_open(job.tier, job.num_chunks))
    return RefusalReason::none;
  return RefusalReason::demand;
}

/// Everything offered counts, whoever refused it: the rate is one of the workload, not of this gate.
void Demand::offer(const JobMetadata& job) {
  Tier& tier = tiers_[job.tier];
  const double fades = std::exp(-static_cast<double>(job.num_chunks) / options_.horizon_chunks);
  tier.offered = tier.offered * fades + job.num_chunks;
  tier.wanted *= fades;
  tier.needed *= fades;
  if (job.num_chunks > 0) chunk_bytes_ = job.bytes / job.num_chunks;
  tier.offered_bytes += job.bytes;
  tier.offered_chunks += job.num_chunks;
  for (const OffloadKey& key : job.keys) seen_.add(key);
  note_change(tier, job.tier);
}

void Demand::on_admitted(const JobMetadata& job, MonotonicTime /*now*/) {
  if (!is_judged(job)) return;
  Tier& tier = tiers_[job.tier];
  if (!is_open(job.tier, job.num_chunks)) tier.would_decline_chunks += job.num_chunks;
  // At once: by the time the device shows it a dozen more would have passed.
  tier.in_flight += job.num_chunks;
  tier.account_s = std::max(-2 * kDebtS, tier.account_s - chunk_cost_s(job.tier) * job.num_chunks);
  offer(job);
}

void Demand::on_refused(const JobMetadata& job, const AdmissionPolicy* refuser, MonotonicTime /*now*/) {
  if (!is_judged(job)) return;
  Tier& tier = tiers_[job.tier];
  if (refuser == this) {
    ++tier.declined_jobs;
    tier.declined_chunks += job.num_chunks;
  }
  offer(job);
}

void Demand::end(const JobMetadata& job) {
  if (!is_judged(job)) return;
  Tier& tier = tiers_[job.tier];
  tier.in_flight -= std::min<std::uint64_t>(tier.in_flight, job.num_chunks);
}

void Demand::on_completed(const JobMetadata& job, const CompletedTransfer& /*result*/,
                          MonotonicTime /*now*/) {
  end(job);
}

void Demand::on_withdrawn(const JobMetadata& job, MonotonicTime /*now*/) { end(job); }

void Demand::on_demand(const LookupDemand& demand, MonotonicTime /*now*/) {
  // What nobody had counts if it was offered; a prefix as far as it was offered without a gap.
  std::uint64_t missed = 0;
  for (const OffloadKey& key : demand.unserved) {
    const bool offered = seen_.contains(key);
    if (!offered && demand.prefix) break;
    missed += offered ? 1U : 0U;
  }
  for (std::size_t t = 0; t < tiers_.size(); ++t) {
    const std::uint64_t served = t < demand.served.size() ? demand.served[t] : 0;
    const std::uint64_t wanted = demand.primary + served + missed;
    tiers_[t].wanted += static_cast<double>(wanted);
    tiers_[t].wanted_chunks += wanted;
    tiers_[t].needed += static_cast<double>(served + missed);
    const double saved =
        static_cast<double>(served) * std::max(0.0, chunk_gain_s(static_cast<TierIndex>(t)));
    tiers_[t].account_s = std::min(kSavingsS, tiers_[t].account_s + saved);
    note_change(tiers_[t], static_cast<TierIndex>(t));
  }
}

void Demand::on_computed(const ComputeSample& sample, MonotonicTime now) {
  costs_.add(sample, now);
  for (std::size_t t = 0; t < tiers_.size(); ++t) {
    tiers_[t].account_s =
        std::min(kSavingsS, tiers_[t].account_s + options_.spend_share * to_seconds(sample.busy));
    note_change(tiers_[t], static_cast<TierIndex>(t));
  }
}

void Demand::note_change(Tier& tier, TierIndex index) {
  const bool open = is_open(index);
  if (open != std::exchange(tier.open, open)) ++tier.log_moments;
}

void Demand::reset() {
  tiers_.assign(tiers_.size(), Tier());
  seen_.clear();
  costs_ = DeviceCosts(tiers_.size(), environment_.compute_tokens_per_s);
  chunk_bytes_ = 0;
}

// -- what it shows ----------------------------------------------------------------------------------------

std::vector<PolicySetting> Demand::settings() const {
  return {{"mode", std::string(to_string(options_.mode)), ""},
          {"target", formatted("%g", options_.target), "chunks asked for per chunk offered"},
          {"grace_bytes", format_bytes(options_.grace_bytes), ""},
          {"horizon_chunks", std::to_string(options_.horizon_chunks), "chunks"},
          {"memory_chunks", std::to_string(options_.memory_chunks), "chunks"},
          {"spend_share", formatted("%g", options_.spend_share), "of the device's busy time"}};
}

std::vector<MetricSample> Demand::stats(MonotonicTime /*now*/) const {
  std::vector<MetricSample> samples;
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    const auto index = static_cast<TierIndex>(i);
    const Tier& tier = tiers_[i];
    const auto add = [&](const char* name, double value) {
      samples.push_back({name, {{"tier", environment_.label_of(i)}}, value});
    };
    add(kRate, rate(index));
    add(kOpen, is_open(index) ? 1 : 0);
    add(kCost, chunk_cost_s(index));
    add(kGain, chunk_gain_s(index));
    add(kAccount, tier.account_s);
    add(kOffered, static_cast<double>(tier.offered_chunks));
    add(kWanted, static_cast<double>(tier.wanted_chunks));
    add(kDeclinedJobs, static_cast<double>(tier.declined_jobs));
    add(kDeclinedChunks, static_cast<double>(tier.declined_chunks));
    add(kWouldChunks, static_cast<double>(tier.would_decline_chunks));
  }
  return samples;
}

std::vector<MetricDefinition> Demand::metric_definitions() const {
  const std::vector<std::string> tier = {"tier"};
  return {
      declare_gauge(
          kRate, "chunks that requests asked of the tier per chunk offered to it, recently", tier),
      declare_gauge(kOpen, "1 while the demand gate lets cascades pass, else 0", tier),
      declare_gauge(
          kCost,
          "seconds of the device that writing a chunk to the tier takes, 0 while it does not show",
          tier),
      declare_gauge(kGain, "seconds of the device that a chunk found in the tier saves", tier),
      declare_gauge(kAccount,
                    "seconds of the device that stores may take before they have proven to pay",
                    tier),
      declare_counter(kOffered, "Chunks offered to the tier, stored or not", "a cascade is decided",
                      tier),
      declare_counter(
          kWanted,
          "Chunks that requests found in the tier or the primary tier, or would have found had "
          "everything been stored",
          "a request's first lookup is answered", tier),
      declare_counter(kDeclinedJobs, "Cascade jobs that the demand gate declined", "one is decided",
                      tier),
      declare_counter(kDeclinedChunks, "Chunks that the demand gate declined",
                      "a cascade is decided", tier),
      declare_counter(kWouldChunks, "Chunks that the observing demand gate would have declined",
                      "a cascade is decided", tier),
  };
}

GateReport Demand::report_of(TierIndex index) const {
  const Tier& tier = tiers_[index];
  GateReport report{"demand", environment_.label_of(index), options_.mode, {}, {}, tier.log_moments};
  std::string& text = report.text;
  text = formatted("%.4f chunks asked for per chunk offered lately, target %g; %llu offered, %llu asked for, "
                   "%llu declined",
                   rate(index), options_.target, count(tier.offered_chunks), count(tier.wanted_chunks),
                   count(tier.declined_chunks));
  const double cost = chunk_cost_s(index);
  constexpr double kMs = 1e3;
  if (cost > 0)
    text += formatted(
        "; a store takes the device %.3g ms, a hit saves it %.3g ms, %.4f per chunk offered were "
        "not in the "
        "primary tier, account %.3g s",
        cost * kMs, chunk_gain_s(index) * kMs, tier.offered > 0 ? tier.needed / tier.offered : 1,
        tier.account_s);
  if (options_.mode == GateMode::off) {
    report.status = GateStatus::off;
  } else if (cost > 0 && options_.target > 0) {
    report.status = is_open(index) ? GateStatus::nothing_to_refuse : GateStatus::refusing;
    text += is_open(index) ? "; storing pays, or may be tried"
                           : "; storing costs the device more than hits save";
  } else if (options_.target <= 0) {
    report.status = GateStatus::unreachable;
    text += "; a target of 0 refuses nothing";
  } else if (tier.offered_bytes < options_.grace_bytes) {
    report.status = GateStatus::warming_up;
    constexpr double kGiB = 1 << 30;
    text += formatted("; %.3g of the grace of %.3g GiB are left",
                      static_cast<double>(options_.grace_bytes - tier.offered_bytes) / kGiB,
                      static_cast<double>(options_.grace_bytes) / kGiB);
  } else if (is_open(index)) {
    report.status = GateStatus::nothing_to_refuse;
    text += "; the rate reaches the target";
  } else {
    report.status = GateStatus::refusing;
    text += options_.mode == GateMode::observe
                ? formatted("; were it to enforce, cascades would be declined (%llu chunks so far)",
                            count(tier.would_decline_chunks))
                : std::string("; cascades are declined until requests ask for more of what was offered");
  }
  return report;
}

std::vector<GateReport> Demand::gate_reports(MonotonicTime /*now*/) const {
  std::vector<GateReport> reports;
  for (std::size_t i = 0; i < tiers_.size(); ++i) reports.push_back(report_of(static_cast<TierIndex>(i)));
  return reports;
}

}  // namespace kv_offload
