#pragma once

#include "kv_offload/admission/cascade_backpressure.hpp"
#include "kv_offload/admission/in_flight_tickets.hpp"

#include <memory>
#include <vector>

namespace kv_offload {

/// Backpressure whose memory of an overload is bounded: no sample counts for more than a multiple
/// of the high mark, chosen so that the average has decayed to where the first store passes within
/// `recovery_s`. Without it one stall of a minute would keep a tier closed for many half-lives
/// after the stall is over. Everything else is the wrapped policy's.
class LatencyCap final : public AdmissionPolicy {
 public:
  LatencyCap(std::unique_ptr<CascadeBackpressure> inner, double recovery_s);

  [[nodiscard]] std::string_view name() const override { return inner_->name(); }
  [[nodiscard]] RefusalReason should_admit(const JobMetadata& job,
                                           MonotonicTime now) const override {
    return inner_->should_admit(job, now);
  }
  void on_admitted(const JobMetadata& job, MonotonicTime now) override;
  void on_refused(const JobMetadata& job, const AdmissionPolicy* refuser,
                  MonotonicTime now) override;
  void on_completed(const JobMetadata& job, const CompletedTransfer& result,
                    MonotonicTime now) override;
  void on_withdrawn(const JobMetadata& job, MonotonicTime now) override;
  void reset() override;

  [[nodiscard]] std::vector<MetricSample> stats(MonotonicTime now) const override {
    return inner_->stats(now);
  }
  [[nodiscard]] std::vector<MetricDefinition> metric_definitions() const override {
    return inner_->metric_definitions();
  }
  [[nodiscard]] std::int64_t in_flight_chunks() const override {
    return inner_->in_flight_chunks();
  }
  [[nodiscard]] std::vector<PolicySetting> settings() const override { return inner_->settings(); }

  [[nodiscard]] const CascadeBackpressure& inner() const { return *inner_; }
  /// Most that a sample counts for, in the unit of the signal; 0: the tier is not watched or never
  /// decays.
  [[nodiscard]] double cap(TierIndex tier) const { return tier < caps_.size() ? caps_[tier] : 0; }

 private:
  std::unique_ptr<CascadeBackpressure> inner_;
  std::vector<double> caps_;  // by TierIndex
  InFlightTickets in_flight_;
};

}  // namespace kv_offload
