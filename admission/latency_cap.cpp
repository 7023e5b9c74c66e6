#include "kv_offload/admission/latency_cap.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kv_offload {
namespace {

constexpr double kMib = 1 << 20;

/// Decay from the cap to where refusal is no longer total takes recovery_s. That point is (1 +
/// ramp) times the high mark where stores are throttled, and the low mark where pressure drops all.
double cap_of(const LatencyDetectorOptions& o, double recovery_s) {
  if (o.decay_half_life_s <= 0) return 0;
  const double first_store_at =
      o.response == PressureResponse::throttled ? o.high_water * (1 + o.ramp_factor) : o.low_water;
  const double cap = first_store_at * std::exp2(recovery_s / o.decay_half_life_s);
  return std::max(cap, o.high_water * 2);  // a cap near the mark would hide overload altogether
}

}  // namespace

LatencyCap::LatencyCap(std::unique_ptr<CascadeBackpressure> inner, double recovery_s)
    : inner_(std::move(inner)) {
  for (std::size_t i = 0; i < inner_->num_tiers(); ++i) {
    const LatencyDetector* detector = inner_->detector(static_cast<TierIndex>(i));
    caps_.push_back(detector == nullptr ? 0 : cap_of(detector->options(), recovery_s));
  }
}

void LatencyCap::on_admitted(const JobMetadata& job, MonotonicTime now) {
  if (!job.is_promotion) in_flight_.admit(job.ticket, job.num_chunks, now);
  inner_->on_admitted(job, now);
}

void LatencyCap::on_refused(const JobMetadata& job, const AdmissionPolicy* refuser,
                            MonotonicTime now) {
  inner_->on_refused(job, refuser == this ? inner_.get() : refuser, now);
}

void LatencyCap::on_completed(const JobMetadata& job, const CompletedTransfer& result,
                              MonotonicTime now) {
  CompletedTransfer seen = result;
  const double most = cap(job.tier);
  if (const auto ended =
          job.is_promotion ? std::nullopt : in_flight_.end(job.ticket, job.num_chunks);
      ended && most > 0) {
    const double unit = inner_->signal() == LatencySignal::per_mib
                            ? static_cast<double>(result.transfer_bytes) / kMib
                            : 1.0;
    seen.finished_at = std::min(seen.finished_at, ended->admitted_at + from_seconds(most * unit));
  }
  inner_->on_completed(job, seen, now);
}

void LatencyCap::on_withdrawn(const JobMetadata& job, MonotonicTime now) {
  if (!job.is_promotion) in_flight_.end(job.ticket, job.num_chunks);
  inner_->on_withdrawn(job, now);
}

void LatencyCap::reset() {
  in_flight_.clear();
  inner_->reset();
}

}  // namespace kv_offload
