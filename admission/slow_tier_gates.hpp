#pragma once

#include "kv_offload/admission/admission_policy.hpp"
#include "kv_offload/admission/lookup_gates.hpp"
#include "kv_offload/admission/payoff.hpp"
#include "kv_offload/admission/verdict_feed.hpp"

#include <memory>
#include <vector>

namespace kv_offload {

/// How an issued lookup of one request in one tier ended.
struct GatedAnswer {
  bool answered = true;             ///< false: given up (deadline, tier down, abort)
  std::uint64_t hit_tokens = 0;     ///< leading tokens that the answer reached to; 0: a miss
  std::uint64_t device_tokens = 0;  ///< as the lookup named them
  Duration took{};                  ///< from the question to the tier until its answer
};

/// The gates that are fed whether or not they are configured: where the policy contains none, ones
/// in mode off stand in, so that an operator can see what a gate would know before turning it on.
/// Lives and is called with the policy.
class SlowTierGates {
 public:
  SlowTierGates(AdmissionPolicy& policy, const AdmissionEnvironment& environment);

  [[nodiscard]] LookupGates& lookups() { return *lookups_; }
  [[nodiscard]] const LookupGates& lookups() const { return *lookups_; }
  /// The first of the policy's; others, if any, are fed as well.
  [[nodiscard]] const Payoff& payoff() const { return *payoff_; }
  /// The stand-ins: not reached through the policy.
  [[nodiscard]] const std::vector<AdmissionPolicy*>& own() const { return own_; }

 private:
  void find_in(AdmissionPolicy& policy);

  std::unique_ptr<Payoff> own_payoff_;
  std::unique_ptr<LookupGates> own_lookups_;
  Payoff* payoff_ = nullptr;
  LookupGates* lookups_ = nullptr;
  std::vector<AdmissionPolicy*> own_;
};

/// Everything a ledger with this policy and environment may emit: the policy's series and those of
/// the stand-ins.
std::vector<MetricDefinition> admission_metric_definitions(AdmissionPolicy& policy,
                                                           const AdmissionEnvironment& environment);

}  // namespace kv_offload
