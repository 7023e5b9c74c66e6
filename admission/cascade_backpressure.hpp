#pragma once

#include "kv_offload/admission/admission_policy.hpp"
#include "kv_offload/admission/in_flight_tickets.hpp"
#include "kv_offload/admission/latency_detector.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv_offload {

/// What a tier's store latency is measured in.
enum class LatencySignal : std::uint8_t {
  wall_clock,  ///< seconds from admission to the end of the I/O
  per_mib,     ///< the same, divided by the MiB really moved
};
std::string_view to_string(LatencySignal signal);
/// Unit of the signal, of its water marks and of its gauges.
std::string_view unit_of(LatencySignal signal);

/// Refuses cascades to tiers whose stores have become slow; promotions pass. One LatencyDetector per
/// tier. Two uses: `cascade_backpressure`, written by the operator as a policy, watches every tier;
/// `backpressure[<tier>]`, which follows from a tier's own configuration, watches that tier.
///
/// Fed by successful cascades only: failures say nothing about speed. A job's time of admission is
/// kept by ticket and leaves with its completion, withdrawal or reset.
class CascadeBackpressure final : public AdmissionPolicy {
 public:
  struct Options {
    std::string name = "cascade_backpressure";
    LatencySignal signal = LatencySignal::wall_clock;
    bool implicit = false;  ///< follows from a tier's `backpressure`, not written as a policy
    /// By TierIndex; a tier without is never refused. Tiers beyond the end neither.
    std::vector<std::optional<LatencyDetectorOptions>> tiers;
    std::vector<std::string> tier_labels;  ///< by TierIndex, for metrics
  };
  explicit CascadeBackpressure(Options options);

  [[nodiscard]] std::string_view name() const override { return options_.name; }
  [[nodiscard]] RefusalReason should_admit(const JobMetadata& job,
                                           MonotonicTime now) const override;
  void on_admitted(const JobMetadata& job, MonotonicTime now) override;
  void on_refused(const JobMetadata& job, const AdmissionPolicy* refuser,
                  MonotonicTime now) override;
  void on_completed(const JobMetadata& job, const CompletedTransfer& result,
                    MonotonicTime now) override;
  void on_withdrawn(const JobMetadata& job, MonotonicTime now) override;
  void reset() override;

  [[nodiscard]] std::vector<MetricSample> stats(MonotonicTime now) const override;
  [[nodiscard]] std::vector<MetricDefinition> metric_definitions() const override;
  [[nodiscard]] std::int64_t in_flight_chunks() const override;

  [[nodiscard]] LatencySignal signal() const { return options_.signal; }
  [[nodiscard]] bool is_implicit() const { return options_.implicit; }
  [[nodiscard]] std::size_t num_tiers() const { return detectors_.size(); }
  /// Metric label of a tier ("1:fs").
  [[nodiscard]] std::string label_of(TierIndex tier) const;
  /// nullptr: the tier is not watched.
  [[nodiscard]] const LatencyDetector* detector(TierIndex tier) const;
  /// Cascades whose time of admission is remembered; 0 at every idle point.
  [[nodiscard]] std::size_t submit_times() const { return in_flight_.size(); }

 private:
  LatencyDetector* watched(const JobMetadata& job);

  Options options_;
  std::vector<std::optional<LatencyDetector>> detectors_;  // by TierIndex
  InFlightTickets in_flight_;
};

}  // namespace kv_offload
