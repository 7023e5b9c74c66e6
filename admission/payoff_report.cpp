// What the payoff gate shows: series and the line that says why it refuses or does not.
#include "kv_offload/admission/payoff.hpp"
#include "kv_offload/admission/policy_series.hpp"
#include "kv_offload/admission/text_format.hpp"

#include <cmath>
#include <string>

namespace kv_offload {
namespace {

constexpr const char* kPayoff = "kv_offload_payoff";
constexpr const char* kVerdicts = "kv_offload_payoff_verdicts_total";
constexpr const char* kComputed = "kv_offload_payoff_computed_share";
constexpr const char* kRealised = "kv_offload_payoff_save_share";
constexpr const char* kDeclinedJobs = "kv_offload_payoff_declined_jobs_total";
constexpr const char* kDeclinedChunks = "kv_offload_payoff_declined_chunks_total";
constexpr const char* kSavedJobs = "kv_offload_payoff_saved_jobs_total";
constexpr const char* kSavedChunks = "kv_offload_payoff_saved_chunks_total";
constexpr const char* kWouldJobs = "kv_offload_payoff_would_decline_jobs_total";
constexpr const char* kWouldChunks = "kv_offload_payoff_would_decline_chunks_total";
constexpr const char* kMissing = "kv_offload_payoff_warmup_missing";
constexpr const char* kRate = "kv_offload_payoff_verdicts_per_second";

double as_double(std::uint64_t n) { return static_cast<double>(n); }

std::uint64_t missing_verdicts(std::uint64_t samples, std::uint64_t warmup) {
  return samples < warmup ? warmup - samples : 0;
}

}  // namespace

std::vector<MetricSample> Payoff::stats(MonotonicTime now) const {
  std::vector<MetricSample> samples;
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    const auto index = static_cast<TierIndex>(i);
    const Tier& tier = tiers_[i];
    const std::string label = environment_.label_of(i);
    const auto add = [&](const char* name, double value) {
      samples.push_back({name, {{"tier", label}}, value});
    };
    add(kPayoff, tier.estimate.value());
    for (std::size_t v = 0; v < kNumLoadVerdicts; ++v)
      samples.push_back(
          {kVerdicts,
           {{"tier", label}, {"verdict", std::string(to_string(static_cast<LoadVerdict>(v)))}},
           as_double(tier.verdicts.by_verdict[v])});
    add(kComputed, computed_share(index));
    add(kRealised, realised_share(index));
    add(kSavedJobs, as_double(tier.saved_jobs));
    add(kSavedChunks, as_double(tier.saved_chunks));
    add(kDeclinedJobs, as_double(tier.declined_jobs));
    add(kDeclinedChunks, as_double(tier.declined_chunks));
    add(kWouldJobs, as_double(tier.would_decline_jobs));
    add(kWouldChunks, as_double(tier.would_decline_chunks));
    add(kMissing, as_double(missing_verdicts(tier.estimate.samples(), options_.warmup)));
    add(kRate, tier.verdict_rate.per_second(now));
  }
  return samples;
}

std::vector<MetricDefinition> Payoff::metric_definitions() const {
  const std::vector<std::string> tier = {"tier"};
  const std::string offered = "a cascade is decided";
  return {
      declare_gauge(kPayoff,
                    "moving average share of the tier's claims on requests that were worth a load; "
                    "it dips while a workload ramps up",
                    tier),
      declare_counter(kVerdicts,
                      "Verdicts on what the tier claimed of a request, or on a lookup "
                      "that was skipped",
                      "the request is allocated or its lookup skipped", {"tier", "verdict"}),
      declare_gauge(kComputed, "share of cascade jobs that the payoff gate would admit", tier),
      declare_gauge(kRealised,
                    "share of cascade jobs that the payoff gate did admit; 1 while it declined "
                    "nothing, whatever the payoff",
                    tier),
      declare_counter(kSavedJobs, "Cascade jobs that passed the payoff gate", offered, tier),
      declare_counter(kSavedChunks, "Chunks that passed the payoff gate", offered, tier),
      declare_counter(kDeclinedJobs, "Cascade jobs that the payoff gate declined", offered, tier),
      declare_counter(kDeclinedChunks, "Chunks that the payoff gate declined", offered, tier),
      declare_counter(kWouldJobs, "Cascade jobs that the observing payoff gate would have declined",
                      offered, tier),
      declare_counter(kWouldChunks, "Chunks that the observing payoff gate would have declined",
                      offered, tier),
      declare_gauge(kMissing, "verdicts on lookups that the warm-up still lacks", tier),
      declare_gauge(kRate, "verdicts on lookups per second over about the last minute", tier),
  };
}

GateReport Payoff::report_of(TierIndex index, MonotonicTime now) const {
  const Tier& tier = tiers_[index];
  const std::uint64_t samples = tier.estimate.samples();
  const double rate = tier.verdict_rate.per_second(now);
  GateReport report{"payoff",        environment_.label_of(index), options_.mode, {}, {},
                    tier.log_moments};
  std::string& text = report.text;
  text = formatted(
      "payoff %.5f, target %g, share %.4f computed, %.4f realised, %llu saved, %llu "
      "declined, %llu verdicts (%llu paid)",
      tier.estimate.value(), options_.target, computed_share(index), realised_share(index),
      count(tier.saved_jobs), count(tier.declined_jobs), count(samples),
      count(tier.verdicts.paid()));
  if (rate > 0)
    text += formatted("; at %.3g verdicts/s: alpha settles in %.3g s, warm-up takes %.3g s", rate,
                      std::log(10.0) / options_.alpha / rate, options_.warmup / rate);

  if (options_.mode == GateMode::off) {
    report.status = GateStatus::off;
  } else if (options_.target <= 0 || options_.floor >= 1) {
    report.status = GateStatus::unreachable;
    text += "; the share is always 1 with this target and floor";
  } else if (samples == 0 && tier.saved_jobs > 0 && tier.saved_jobs >= options_.warmup) {
    report.status = GateStatus::unreachable;
    text += formatted("; no verdict came in %llu cascades: the warm-up of %u does not begin",
                      count(tier.saved_jobs), options_.warmup);
  } else if (!is_warm(index)) {
    report.status = GateStatus::warming_up;
    text += formatted("; %llu of %u verdicts of the warm-up are missing",
                      count(missing_verdicts(samples, options_.warmup)), options_.warmup);
  } else if (computed_share(index) >= 1) {
    report.status = GateStatus::nothing_to_refuse;
    text += "; the payoff reaches the target";
  } else {
    report.status = GateStatus::refusing;
    text += formatted("; %.3g of 100 cascades are declined", 100 * (1 - computed_share(index)));
    if (options_.mode == GateMode::observe)
      text += formatted(" were it to enforce (%llu so far)", count(tier.would_decline_jobs));
  }
  return report;
}

std::vector<GateReport> Payoff::gate_reports(MonotonicTime now) const {
  std::vector<GateReport> reports;
  for (std::size_t i = 0; i < tiers_.size(); ++i)
    reports.push_back(report_of(static_cast<TierIndex>(i), now));
  return reports;
}

}  // namespace kv_offload
