#include "kv_offload/admission/cascade_backpressure.hpp"

#include <algorithm>
#include <utility>

namespace kv_offload {
namespace {

constexpr double kMib = 1 << 20;

constexpr const char* kActive = "vllm:kv_offload_tiering_backpressure_active";
constexpr const char* kAverage = "vllm:kv_offload_tiering_store_latency_ema";
constexpr const char* kDetectorAverage = "vllm:kv_offload_tiering_backpressure_store_latency_ema";
constexpr const char* kStoresDropped = "vllm:kv_offload_tiering_backpressure_stores_dropped_total";
constexpr const char* kBlocksDropped = "vllm:kv_offload_tiering_backpressure_blocks_dropped_total";

}  // namespace

std::string_view to_string(LatencySignal signal) {
  return signal == LatencySignal::wall_clock ? "wall_clock" : "per_mib";
}

std::string_view unit_of(LatencySignal signal) {
  return signal == LatencySignal::wall_clock ? "seconds" : "seconds per MiB";
}

CascadeBackpressure::CascadeBackpressure(Options options) : options_(std::move(options)) {
  detectors_.reserve(options_.tiers.size());
  for (const auto& tier : options_.tiers) {
    if (tier)
      detectors_.emplace_back(*tier);
    else
      detectors_.emplace_back(std::nullopt);
  }
}

const LatencyDetector* CascadeBackpressure::detector(TierIndex tier) const {
  return tier < detectors_.size() && detectors_[tier] ? &*detectors_[tier] : nullptr;
}

std::string CascadeBackpressure::label_of(TierIndex tier) const {
  return tier < options_.tier_labels.size() ? options_.tier_labels[tier]
                                            : tier_label(tier, "unknown");
}

LatencyDetector* CascadeBackpressure::watched(const JobMetadata& job) {
  if (job.is_promotion || job.tier >= detectors_.size() || !detectors_[job.tier]) return nullptr;
  return &*detectors_[job.tier];
}

RefusalReason CascadeBackpressure::should_admit(const JobMetadata& job, MonotonicTime now) const {
  const LatencyDetector* tier = job.is_promotion ? nullptr : detector(job.tier);
  return tier == nullptr || tier->should_store(now) ? RefusalReason::none
                                                    : RefusalReason::backpressure;
}

void CascadeBackpressure::on_admitted(const JobMetadata& job, MonotonicTime now) {
  LatencyDetector* tier = watched(job);
  if (tier == nullptr) return;
  in_flight_.admit(job.ticket, job.num_chunks, now);
  tier->on_stored(now);
}

void CascadeBackpressure::on_refused(const JobMetadata& job, const AdmissionPolicy* refuser,
                                     MonotonicTime now) {
  LatencyDetector* tier = watched(job);
  if (tier != nullptr && refuser == this) tier->on_dropped(job.num_chunks, now);
}

void CascadeBackpressure::on_completed(const JobMetadata& job, const CompletedTransfer& result,
                                       MonotonicTime now) {
  LatencyDetector* tier = watched(job);
  if (tier == nullptr) return;
  const auto ended = in_flight_.end(job.ticket, job.num_chunks);
  if (!ended || !result.success) return;
  const double seconds = std::max(0.0, to_seconds(result.finished_at - ended->admitted_at));
  if (options_.signal == LatencySignal::wall_clock) {
    tier->add_sample(seconds, now);
  } else if (result.transfer_bytes > 0) {  // all present already: nothing moved, nothing learned
    tier->add_sample(seconds / (static_cast<double>(result.transfer_bytes) / kMib), now);
  }
}

void CascadeBackpressure::on_withdrawn(const JobMetadata& job, MonotonicTime /*now*/) {
  if (watched(job) != nullptr) in_flight_.end(job.ticket, job.num_chunks);
}

void CascadeBackpressure::reset() {
  in_flight_.clear();
  for (auto& tier : detectors_)
    if (tier) tier.emplace(tier->options());
}

std::vector<MetricSample> CascadeBackpressure::stats(MonotonicTime now) const {
  std::vector<MetricSample> samples;
  for (std::size_t i = 0; i < detectors_.size(); ++i) {
    if (!detectors_[i]) continue;
    const LatencyDetector& tier = *detectors_[i];
    const std::string label = label_of(static_cast<TierIndex>(i));
    const auto add = [&](const char* name, double value) {
      samples.push_back({name, {{"tier", label}}, value});
    };
    add(kActive, tier.is_under_pressure(now) ? 1 : 0);
    if (!options_.implicit) add(kAverage, tier.average(now));
    if (options_.signal == LatencySignal::wall_clock) continue;
    add(kDetectorAverage, tier.average(now));
    add(kStoresDropped, static_cast<double>(tier.stores_dropped()));
    add(kBlocksDropped, static_cast<double>(tier.chunks_dropped()));
  }
  return samples;
}

std::vector<MetricDefinition> CascadeBackpressure::metric_definitions() const {
  // Like the engine's own: unit, moment, labels.
  const std::string average = "At present: moving average of the tier's store latency in " +
                              std::string(unit_of(options_.signal)) +
                              ", fed by successful stores, decaying while the tier is pressured, "
                              "labeled by tier.";
  std::vector<MetricDefinition> definitions;
  definitions.push_back({kActive,
                         MetricKind::gauge,
                         "At present: 1 while cascades to the tier are under backpressure, else 0, "
                         "labeled by tier.",
                         {"tier"},
                         {}});
  // Two policies may watch one tier in different units: each average has its own name.
  if (!options_.implicit)
    definitions.push_back({kAverage, MetricKind::gauge, average, {"tier"}, {}});
  if (options_.signal == LatencySignal::wall_clock) return definitions;
  definitions.push_back({kDetectorAverage, MetricKind::gauge, average, {"tier"}, {}});
  definitions.push_back({kStoresDropped,
                         MetricKind::counter,
                         "Cascade jobs that the tier's backpressure refused, counted when it "
                         "decides, labeled by tier.",
                         {"tier"},
                         {}});
  definitions.push_back({kBlocksDropped,
                         MetricKind::counter,
                         "Chunks of cascade jobs that the tier's backpressure refused, counted when "
                         "it decides, labeled by tier.",
                         {"tier"},
                         {}});
  return definitions;
}

std::int64_t CascadeBackpressure::in_flight_chunks() const {
  return static_cast<std::int64_t>(in_flight_.chunks());
}

}  // namespace kv_offload
