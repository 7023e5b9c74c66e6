#pragma once

#include "kv_offload/admission/admission_policy.hpp"
#include "kv_offload/admission/event_rate.hpp"
#include "kv_offload/admission/payoff_estimate.hpp"
#include "kv_offload/admission/share_credit.hpp"

#include <string>
#include <vector>

namespace kv_offload {

struct PayoffOptions {
  GateMode mode = GateMode::enforce;
  double target =
      0.10;             ///< [0, 1]: payoff from which on everything is stored; 0: always everything
  double floor = 0.25;  ///< [0, 1]: least share that is stored, whatever the payoff
  /// (0, 1]: weight of a verdict. 1/16 settles in about forty verdicts; published with the
  /// reference.
  double alpha = 1.0 / 16;
  std::uint32_t warmup = 64;         ///< verdicts before anything is refused; inferred
  std::uint32_t report_every = 256;  ///< verdicts between two log lines
};

/// Slow-tier admission: stores a share of the cascades to a tier that follows how often what the
/// tier claimed was worth a load. Storing less lowers the payoff further; the floor keeps that from
/// running to zero and keeps enough in the tier to notice when it becomes useful.
///
/// One estimate and one credit per tier; promotions pass. One credit decision per cascade offered,
/// whatever its chunks: chunks of one store call go together. Fed by on_verdicts in every mode.
class Payoff final : public AdmissionPolicy {
 public:
  struct Tier {
    explicit Tier(double alpha) : estimate(alpha) {}
    PayoffEstimate estimate;
    ShareCredit credit;
    VerdictCounts verdicts;
    EventRate verdict_rate;
    std::uint64_t saved_jobs = 0, saved_chunks = 0;  ///< admitted, in every mode and in the warm-up
    std::uint64_t declined_jobs = 0, declined_chunks = 0;
    std::uint64_t would_decline_jobs = 0, would_decline_chunks = 0;  ///< mode observe; in saved too
    std::uint64_t log_moments = 0;
  };

  Payoff(const PayoffOptions& options, AdmissionEnvironment environment);

  [[nodiscard]] std::string_view name() const override { return "payoff"; }
  [[nodiscard]] RefusalReason should_admit(const JobMetadata& job,
                                           MonotonicTime now) const override;
  void on_admitted(const JobMetadata& job, MonotonicTime now) override;
  void on_refused(const JobMetadata& job, const AdmissionPolicy* refuser,
                  MonotonicTime now) override;
  void on_completed(const JobMetadata& /*job*/, const CompletedTransfer& /*result*/,
                    MonotonicTime /*now*/) override {}
  void on_withdrawn(const JobMetadata& /*job*/, MonotonicTime /*now*/) override {}
  void reset() override;
  void on_verdicts(TierIndex tier, const VerdictCounts& tally, MonotonicTime now) override;

  [[nodiscard]] std::vector<MetricSample> stats(MonotonicTime now) const override;
  [[nodiscard]] std::vector<MetricDefinition> metric_definitions() const override;
  [[nodiscard]] std::vector<PolicySetting> settings() const override;
  [[nodiscard]] std::vector<GateReport> gate_reports(MonotonicTime now) const override;

  [[nodiscard]] const PayoffOptions& options() const { return options_; }
  [[nodiscard]] const Tier& tier(TierIndex tier) const { return tiers_[tier]; }
  [[nodiscard]] bool is_warm(TierIndex tier) const {
    return tiers_[tier].estimate.samples() >= options_.warmup;
  }
  /// The share that the gate computes now: 1 during warm-up and in mode off.
  [[nodiscard]] double computed_share(TierIndex tier) const;
  /// saved / (saved + declined): 1 while nothing was declined, whatever the payoff.
  [[nodiscard]] double realised_share(TierIndex tier) const;

 private:
  [[nodiscard]] bool is_judged(const JobMetadata& job) const;
  [[nodiscard]] GateReport report_of(TierIndex tier, MonotonicTime now) const;

  PayoffOptions options_;
  AdmissionEnvironment environment_;
  std::vector<Tier> tiers_;  // by TierIndex
};

}  // namespace kv_offload
