#include "kv_offload/admission/backlog.hpp"

#include "kv_offload/admission/policy_series.hpp"
#include "kv_offload/admission/text_format.hpp"

#include <algorithm>
#include <utility>

namespace kv_offload {
namespace {

constexpr double kMib = 1 << 20;
constexpr std::uint64_t kFirstBytes = std::uint64_t{1} << 30U;
constexpr const char* kQueued = "kv_offload_backlog_seconds";
constexpr const char* kRate = "kv_offload_backlog_bytes_per_second";
constexpr const char* kRefusedJobs = "kv_offload_backlog_refused_jobs_total";
constexpr const char* kRefusedChunks = "kv_offload_backlog_refused_chunks_total";
constexpr const char* kWouldChunks = "kv_offload_backlog_would_refuse_chunks_total";

}  // namespace

Backlog::Backlog(const BacklogOptions& options, AdmissionEnvironment environment)
    : options_(options),
      environment_(std::move(environment)),
      tiers_(environment_.tiers.size(), Tier(options.half_life_s)) {}

double Backlog::rate(TierIndex tier, MonotonicTime now) const {
  return tiers_[tier].writing.rate(now);
}

double Backlog::queued_s(TierIndex tier, std::uint64_t bytes, MonotonicTime now) const {
  const Tier& t = tiers_[tier];
  if (const double rate = t.writing.rate(now); rate > 0)
    return static_cast<double>(t.queued_bytes + bytes) / rate;
  // Nothing has ended yet: it takes at least as long as it has taken.
  return t.queued_bytes > 0 ? t.writing.busy_s(now) : 0;
}

bool Backlog::is_full(const JobMetadata& job, MonotonicTime now) const {
  const Tier& tier = tiers_[job.tier];
  if (tier.writing.under_way() == 0) return false;
  // Of a tier that has ended nothing yet anything may be believed: it gets little.
  if (!tier.has_ended && tier.queued_bytes + job.bytes > kFirstBytes) return true;
  return queued_s(job.tier, job.bytes, now) > options_.max_queued_s;
}

RefusalReason Backlog::should_admit(const JobMetadata& job, MonotonicTime now) const {
  const bool refuses = options_.mode == GateMode::enforce && is_judged(job) && is_full(job, now);
  return refuses ? RefusalReason::backlog : RefusalReason::none;
}

void Backlog::on_admitted(const JobMetadata& job, MonotonicTime now) {
  if (!is_judged(job)) return;
  const bool full = options_.mode == GateMode::observe && is_full(job, now);
  Tier& tier = tiers_[job.tier];
  tier.writing.begin(job.num_chunks, now);
  if (full) tier.would_refuse_chunks += job.num_chunks;
  tier.queued_bytes += job.bytes;
}

void Backlog::on_refused(const JobMetadata& job, const AdmissionPolicy* refuser,
                         MonotonicTime /*now*/) {
  if (!is_judged(job) || refuser != this) return;
  ++tiers_[job.tier].refused_jobs;
  tiers_[job.tier].refused_chunks += job.num_chunks;
}

void Backlog::end(const JobMetadata& job, bool counts, MonotonicTime now) {
  if (!is_judged(job)) return;
  Tier& tier = tiers_[job.tier];
  tier.writing.end(job.num_chunks, counts ? job.bytes : 0, now);
  tier.queued_bytes -= std::min(tier.queued_bytes, job.bytes);
  tier.has_ended = tier.has_ended || counts;
}

/// A job that failed has left the queue all the same.
void Backlog::on_completed(const JobMetadata& job, const CompletedTransfer& /*result*/,
                           MonotonicTime now) {
  end(job, true, now);
}

void Backlog::on_withdrawn(const JobMetadata& job, MonotonicTime now) { end(job, false, now); }

void Backlog::reset() { tiers_.assign(tiers_.size(), Tier(options_.half_life_s)); }

std::int64_t Backlog::in_flight_chunks() const {
  std::int64_t chunks = 0;
  for (const Tier& tier : tiers_) chunks += static_cast<std::int64_t>(tier.writing.under_way());
  return chunks;
}

// -- what it shows ----------------------------------------------------------------------------------------

std::vector<PolicySetting> Backlog::settings() const {
  return {{"mode", std::string(to_string(options_.mode)), ""},
          {"max_queued_s", formatted("%g", options_.max_queued_s), "s"},
          {"half_life_s", formatted("%g", options_.half_life_s), "s of writing"}};
}

std::vector<MetricSample> Backlog::stats(MonotonicTime now) const {
  std::vector<MetricSample> samples;
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    const auto index = static_cast<TierIndex>(i);
    const auto add = [&](const char* name, double value) {
      samples.push_back({name, {{"tier", environment_.label_of(i)}}, value});
    };
    add(kQueued, queued_s(index, 0, now));
    add(kRate, rate(index, now));
    add(kRefusedJobs, static_cast<double>(tiers_[i].refused_jobs));
    add(kRefusedChunks, static_cast<double>(tiers_[i].refused_chunks));
    add(kWouldChunks, static_cast<double>(tiers_[i].would_refuse_chunks));
  }
  return samples;
}

std::vector<MetricDefinition> Backlog::metric_definitions() const {
  const std::vector<std::string> tier = {"tier"};
  return {
      declare_gauge(kQueued, "seconds until the tier has written what is queued for it", tier),
      declare_gauge(kRate, "bytes per second that the tier ended stores at while it had any", tier),
      declare_counter(kRefusedJobs, "Cascade jobs that the backlog gate refused", "it decides",
                      tier),
      declare_counter(kRefusedChunks, "Chunks of cascade jobs that the backlog gate refused",
                      "it decides", tier),
      declare_counter(kWouldChunks, "Chunks that the observing backlog gate would have refused",
                      "it decides", tier)};
}

std::vector<GateReport> Backlog::gate_reports(MonotonicTime now) const {
  std::vector<GateReport> reports;
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    const auto index = static_cast<TierIndex>(i);
    const Tier& tier = tiers_[i];
    GateReport report{
        "backlog", environment_.label_of(i), options_.mode, GateStatus::nothing_to_refuse, {}, 0};
    const double queued = queued_s(index, 0, now);
    report.text = formatted("%llu chunks queued, %.3g s at %.4g MiB/s; at most %g s; %llu refused",
                            count(tier.writing.under_way()), queued, rate(index, now) / kMib,
                            options_.max_queued_s, count(tier.refused_chunks));
    if (options_.mode == GateMode::off)
      report.status = GateStatus::off;
    else if (!tier.has_ended)
      report.status = GateStatus::warming_up;
    else if (queued > options_.max_queued_s)
      report.status = GateStatus::refusing;
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace kv_offload
