#pragma once

#include "kv_offload/admission/admission_policy.hpp"
#include "kv_offload/admission/device_costs.hpp"
#include "kv_offload/admission/recent_keys.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace kv_offload {

struct DemandOptions {
  GateMode mode = GateMode::enforce;
  /// [0, 1]: chunks asked for per chunk offered, below which nothing is stored. Where storing a chunk costs as
  /// much as on the published system (.06 of computing it, loading .46), .11 would break even; where storing is
  /// nearly free, every hit counts.
  double target = 0.02;
  /// Bytes offered to a tier before anything is refused: a fresh workload of conversations looks like one
  /// without reuse until second turns come, on a public trace after 70 GB of a 70B model's KV.
  std::uint64_t grace_bytes = std::uint64_t{64} << 30U;
  std::uint32_t horizon_chunks = 8192;   ///< offered chunks over which the rate fades: a dozen long prompts
  std::uint32_t memory_chunks = 262144;  ///< offered keys that are remembered, 4 bytes each
  /// Of the device's busy time, what stores may take from it before they have proven to pay, the grace included. A
  /// twentieth of what promise 9 allows: bursts of them show at the p99 before they show in the throughput.
  double spend_share = 0.001;
};

/// Stores to a tier only while what is offered to it is asked for again, beyond what the device still has: of the
/// tier, or of the primary tier, whose hits of today are the tier's of tomorrow. It remembers the keys of everything
/// that was offered, stored or not, so its estimate does not depend on what it admitted: storing less does
/// not lower it, and a tier that was shut is opened by the first requests that would have used it. That is
/// what `payoff` cannot see: a workload without any reuse claims nothing, and gives no verdict.
///
/// Where writing to the tier shows in the device's speed (DeviceCosts), the target is what that costs over what a
/// chunk found there saves, and counts only what no request found in the primary tier. An account per tier, in seconds
/// of the device, bounds what is spent on hopes: stores draw on it, chunks that the tier served and the spend share fill it.
///
/// One rate per tier; promotions pass. Fed by on_demand in every mode.
class Demand final : public AdmissionPolicy {
 public:
  struct Tier {
    double offered = 0, wanted = 0;       ///< chunks, fading over horizon_chunks offered ones
    double needed = 0;                    ///< the same, without those found in the primary tier
    double account_s = 0;                 ///< seconds of the device that stores may still take
    std::uint64_t in_flight = 0;          ///< chunks of stores
    std::uint64_t offered_bytes = 0;      ///< ever; until grace_bytes nothing is refused
    std::uint64_t offered_chunks = 0, wanted_chunks = 0;
    std::uint64_t declined_jobs = 0, declined_chunks = 0;
    std::uint64_t would_decline_chunks = 0;  ///< mode observe
    std::uint64_t log_moments = 0;
    bool open = true;  ///< as last counted, for the log
  };

  Demand(const DemandOptions& options, AdmissionEnvironment environment);

  [[nodiscard]] std::string_view name() const override { return "demand"; }
  [[nodiscard]] RefusalReason should_admit(const JobMetadata& job, MonotonicTime now) const override;
  void on_admitted(const JobMetadata& job, MonotonicTime now) override;
  void on_refused(const JobMetadata& job, const AdmissionPolicy* refuser, MonotonicTime now) override;
  void on_completed(const JobMetadata& job, const CompletedTransfer& result,
                    MonotonicTime now) override;
  void on_withdrawn(const JobMetadata& job, MonotonicTime now) override;
  void on_demand(const LookupDemand& demand, MonotonicTime now) override;
  void on_computed(const ComputeSample& sample, MonotonicTime now) override;
  [[nodiscard]] bool weighs_device() const override { return options_.mode != GateMode::off; }
  void reset() override;

  [[nodiscard]] std::vector<MetricSample> stats(MonotonicTime now) const override;
  [[nodiscard]] std::vector<MetricDefinition> metric_definitions() const override;
  [[nodiscard]] std::vector<PolicySetting> settings() const override;
  [[nodiscard]] std::vector<GateReport> gate_reports(MonotonicTime now) const override;

  [[nodiscard]] const DemandOptions& options() const { return options_; }
  [[nodiscard]] const Tier& tier(TierIndex tier) const { return tiers_[tier]; }
  /// Chunks asked for per chunk offered, over about the last horizon_chunks; 1 before the first offer.
  [[nodiscard]] double rate(TierIndex tier) const;
  /// Seconds of the device: what writing a chunk takes, and what finding one in the tier saves; 0 while it does not show.
  [[nodiscard]] double chunk_cost_s(TierIndex tier) const;
  [[nodiscard]] double chunk_gain_s(TierIndex tier) const;
  [[nodiscard]] const DeviceCosts& costs() const { return costs_; }
  /// Whether the next cascade to the tier would pass an enforcing gate.
  [[nodiscard]] bool is_open(TierIndex tier, std::uint32_t chunks = 1) const;

 private:
  [[nodiscard]] bool is_judged(const JobMetadata& job) const;
  void offer(const JobMetadata& job);
  void end(const JobMetadata& job);
  /// Nothing is known yet of what a store costs the device, but it would be seen.
  [[nodiscard]] bool is_trying(TierIndex tier) const;
  [[nodiscard]] bool may_try(TierIndex tier) const;
  void note_change(Tier& tier, TierIndex index);
  [[nodiscard]] GateReport report_of(TierIndex tier) const;

  DemandOptions options_;
  AdmissionEnvironment environment_;
  DeviceCosts costs_;
  std::uint64_t chunk_bytes_ = 0;  // of the last job
  RecentKeys seen_;
  std::vector<Tier> tiers_;  // by TierIndex
};

}  // namespace kv_offload
