#pragma once

#include "kv_offload/admission/admission_policy.hpp"
#include "kv_offload/admission/lookup_gate.hpp"

#include <vector>

namespace kv_offload {

/// The lookup gates of all tiers, in the place of a policy: configured, reset, shown and declared
/// like one. It refuses no job; the ledger finds it inside the policy and asks it about lookups.
class LookupGates final : public AdmissionPolicy {
 public:
  LookupGates(LookupGateOptions options, AdmissionEnvironment environment);

  [[nodiscard]] std::string_view name() const override { return "lookup_gate"; }
  [[nodiscard]] RefusalReason should_admit(const JobMetadata& /*job*/,
                                           MonotonicTime /*now*/) const override {
    return RefusalReason::none;
  }
  void on_admitted(const JobMetadata& /*job*/, MonotonicTime /*now*/) override {}
  void on_refused(const JobMetadata& /*job*/, const AdmissionPolicy* /*refuser*/,
                  MonotonicTime /*now*/) override {}
  void on_completed(const JobMetadata& /*job*/, const CompletedTransfer& /*result*/,
                    MonotonicTime /*now*/) override {}
  void on_withdrawn(const JobMetadata& /*job*/, MonotonicTime /*now*/) override {}
  void reset() override;

  [[nodiscard]] std::vector<MetricSample> stats(MonotonicTime now) const override;
  [[nodiscard]] std::vector<MetricDefinition> metric_definitions() const override;
  [[nodiscard]] std::vector<PolicySetting> settings() const override;
  [[nodiscard]] std::vector<GateReport> gate_reports(MonotonicTime now) const override;

  [[nodiscard]] LookupGate& gate(TierIndex tier) { return gates_[tier]; }
  [[nodiscard]] const LookupGate& gate(TierIndex tier) const { return gates_[tier]; }
  [[nodiscard]] std::size_t num_tiers() const { return gates_.size(); }
  [[nodiscard]] const LookupGateOptions& options() const { return options_; }

 private:
  LookupGateOptions options_;
  AdmissionEnvironment environment_;
  std::vector<LookupGate> gates_;  // by TierIndex
};

}  // namespace kv_offload
