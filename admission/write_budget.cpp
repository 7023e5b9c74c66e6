#include "kv_offload/admission/write_budget.hpp"

#include "kv_offload/admission/policy_series.hpp"
#include "kv_offload/admission/text_format.hpp"
#include "kv_offload/messages/byte_size.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kv_offload {
namespace {

constexpr const char* kLeft = "kv_offload_write_budget_left_bytes";
constexpr const char* kWritten = "kv_offload_write_budget_written_bytes_total";
constexpr const char* kEver = "kv_offload_write_budget_written_ever_bytes";
constexpr const char* kRefusedJobs = "kv_offload_write_budget_refused_jobs_total";
constexpr const char* kRefusedBytes = "kv_offload_write_budget_refused_bytes_total";
constexpr const char* kWouldJobs = "kv_offload_write_budget_would_refuse_jobs_total";
constexpr const char* kWouldBytes = "kv_offload_write_budget_would_refuse_bytes_total";

}  // namespace

WriteBudget::WriteBudget(const WriteBudgetOptions& options, AdmissionEnvironment environment)
    : options_(options), environment_(std::move(environment)) {
  const Tier full{ByteBucket(options_.bytes_per_day, options_.peak_bytes)};
  for (std::size_t i = 0; i < environment_.tiers.size(); ++i) {
    const bool is_limited =
        options_.tiers.empty() || (i < options_.tiers.size() && options_.tiers[i]);
    tiers_.push_back(is_limited ? std::optional<Tier>(full) : std::nullopt);
  }
}

WriteBudget::Tier* WriteBudget::limited(const JobMetadata& job) {
  if (job.is_promotion || job.tier >= tiers_.size() || !tiers_[job.tier]) return nullptr;
  return &*tiers_[job.tier];
}

RefusalReason WriteBudget::should_admit(const JobMetadata& job, MonotonicTime now) const {
  const Tier* limits = job.is_promotion ? nullptr : tier(job.tier);
  if (options_.mode != GateMode::enforce || limits == nullptr || limits->bucket.has(job.bytes, now))
    return RefusalReason::none;
  return RefusalReason::write_budget;
}

void WriteBudget::on_admitted(const JobMetadata& job, MonotonicTime now) {
  Tier* tier = limited(job);
  if (tier == nullptr) return;
  in_flight_.admit(job.ticket, job.num_chunks, now);
  if (tier->bucket.has(job.bytes, now)) {
    tier->bucket.take(job.bytes, now);
    return;
  }
  // Only a budget that does not enforce comes here; it goes on as if it had refused.
  uncharged_.admit(job.ticket, job.num_chunks, now);
  if (options_.mode == GateMode::observe) count_refusal(*tier, job, false);
}

void WriteBudget::on_refused(const JobMetadata& job, const AdmissionPolicy* refuser,
                             MonotonicTime /*now*/) {
  Tier* tier = limited(job);
  if (tier != nullptr && refuser == this) count_refusal(*tier, job, true);
}

void WriteBudget::count_refusal(Tier& tier, const JobMetadata& job, bool really) {
  (really ? tier.refused_jobs : tier.would_refuse_jobs) += 1;
  (really ? tier.refused_bytes : tier.would_refuse_bytes) += job.bytes;
  tier.last_refused_bytes = job.bytes;
}

void WriteBudget::end(const JobMetadata& job, std::uint64_t returned, MonotonicTime now) {
  const auto ended = in_flight_.end(job.ticket, job.num_chunks);
  if (!ended || uncharged_.end(job.ticket, job.num_chunks) || returned == 0) return;
  tiers_[job.tier]->bucket.give_back(returned, now);
}

void WriteBudget::on_completed(const JobMetadata& job, const CompletedTransfer& result,
                               MonotonicTime now) {
  Tier* tier = limited(job);
  if (tier == nullptr) return;
  // A failed write may have worn the device all the same: it stays charged in full.
  const std::uint64_t written = result.success ? result.transfer_bytes : job.bytes;
  tier->written_bytes += written;
  tier->written_ever += static_cast<double>(written);
  end(job, job.bytes - std::min(job.bytes, written), now);
}

void WriteBudget::on_withdrawn(const JobMetadata& job, MonotonicTime now) {
  if (limited(job) != nullptr) end(job, job.bytes, now);
}

void WriteBudget::reset() {
  in_flight_.clear();
  uncharged_.clear();
  for (auto& tier : tiers_) {
    if (!tier) continue;
    Tier fresh(tier->bucket);
    fresh.written_ever = tier->written_ever;
    *tier = fresh;
  }
}

std::vector<MetricSample> WriteBudget::stats(MonotonicTime now) const {
  std::vector<MetricSample> samples;
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    if (!tiers_[i]) continue;
    const MetricLabels labels = {{"tier", environment_.label_of(i)}};
    const auto add = [&](const char* name, double value) {
      samples.push_back({name, labels, value});
    };
    add(kLeft, tiers_[i]->bucket.tokens(now));
    add(kWritten, static_cast<double>(tiers_[i]->written_bytes));
    add(kEver, tiers_[i]->written_ever);
    add(kRefusedJobs, static_cast<double>(tiers_[i]->refused_jobs));
    add(kRefusedBytes, static_cast<double>(tiers_[i]->refused_bytes));
    add(kWouldJobs, static_cast<double>(tiers_[i]->would_refuse_jobs));
    add(kWouldBytes, static_cast<double>(tiers_[i]->would_refuse_bytes));
  }
  return samples;
}

std::vector<MetricDefinition> WriteBudget::metric_definitions() const {
  const std::vector<std::string> tier = {"tier"};
  const std::string offered = "a cascade is decided";
  return {
      declare_gauge(kLeft, "bytes that the write budget allows at once", tier),
      declare_counter(kWritten, "Bytes of cascades under the write budget, failed ones in full",
                      "the job is quiesced", tier),
      declare_gauge(kEver, "bytes written since the write budget's state began, over restarts",
                    tier),
      declare_counter(kRefusedJobs, "Cascade jobs that the write budget refused", offered, tier),
      declare_counter(kRefusedBytes, "Bytes that the write budget refused", offered, tier),
      declare_counter(kWouldJobs, "Cascade jobs that the observing write budget would have refused",
                      offered, tier),
      declare_counter(kWouldBytes, "Bytes that the observing write budget would have refused",
                      offered, tier),
  };
}

std::int64_t WriteBudget::in_flight_chunks() const {
  // Where a tier is not limited its cascades are not counted either, so the sum says nothing.
  const bool all = std::all_of(tiers_.begin(), tiers_.end(), [](const auto& t) { return !!t; });
  return all ? static_cast<std::int64_t>(in_flight_.chunks()) : -1;
}

std::vector<PolicySetting> WriteBudget::settings() const {
  std::string limited;
  for (std::size_t i = 0; i < tiers_.size(); ++i)
    if (tiers_[i]) limited += (limited.empty() ? "" : ", ") + environment_.label_of(i);
  return {{"mode", std::string(to_string(options_.mode)), ""},
          {"bytes_per_day", format_bytes(options_.bytes_per_day), "per tier"},
          {"peak_bytes", format_bytes(options_.peak_bytes), "per tier"},
          {"tiers", limited, ""}};
}

std::vector<GateReport> WriteBudget::gate_reports(MonotonicTime now) const {
  std::vector<GateReport> reports;
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    if (!tiers_[i]) continue;
    const Tier& tier = *tiers_[i];
    GateReport report{"write_budget", environment_.label_of(i), options_.mode, {}, {}, 0};
    report.text = formatted(
        "%.0f of %.0f bytes left, %.0f bytes/s refill, %.0f bytes written ever, "
        "%llu jobs refused",
        tier.bucket.tokens(now), tier.bucket.peak(), tier.bucket.bytes_per_second(),
        tier.written_ever, count(tier.refused_jobs));
    if (options_.mode == GateMode::observe)
      report.text += formatted(", %llu would be", count(tier.would_refuse_jobs));
    const double wait_s = tier.bucket.seconds_until(tier.last_refused_bytes, now);
    if (options_.mode == GateMode::off) {
      report.status = GateStatus::off;
    } else if (tier.last_refused_bytes == 0 || wait_s <= 0) {
      report.status = GateStatus::nothing_to_refuse;
    } else {
      report.status = GateStatus::refusing;
      report.text +=
          formatted("; the last refused job of %llu bytes ", count(tier.last_refused_bytes));
      report.text += std::isinf(wait_s) ? std::string("never fits the peak: raise peak_bytes")
                                        : formatted("fits in %.3g s", wait_s);
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace kv_offload
