#include "kv_offload/admission/slow_tier_gates.hpp"

#include "kv_offload/admission/composite.hpp"

#include <utility>

namespace kv_offload {

SlowTierGates::SlowTierGates(AdmissionPolicy& policy, const AdmissionEnvironment& environment) {
  find_in(policy);
  if (payoff_ == nullptr) {
    PayoffOptions off;
    off.mode = GateMode::off;
    own_payoff_ = std::make_unique<Payoff>(off, environment);
    payoff_ = own_payoff_.get();
    own_.push_back(payoff_);
  }
  if (lookups_ == nullptr) {
    LookupGateOptions off;
    off.mode = GateMode::off;
    own_lookups_ = std::make_unique<LookupGates>(off, environment);
    lookups_ = own_lookups_.get();
    own_.push_back(lookups_);
  }
}

void SlowTierGates::find_in(AdmissionPolicy& policy) {
  if (auto* composite = dynamic_cast<Composite*>(&policy)) {
    for (const auto& member : composite->members()) find_in(*member);
  } else if (auto* payoff = dynamic_cast<Payoff*>(&policy)) {
    if (payoff_ == nullptr) payoff_ = payoff;
  } else if (auto* lookups = dynamic_cast<LookupGates*>(&policy)) {
    if (lookups_ == nullptr) lookups_ = lookups;
  }
}

std::vector<MetricDefinition> admission_metric_definitions(
    AdmissionPolicy& policy, const AdmissionEnvironment& environment) {
  std::vector<MetricDefinition> all = policy.metric_definitions();
  const SlowTierGates gates(policy, environment);
  for (const AdmissionPolicy* own : gates.own())
    for (auto& definition : own->metric_definitions()) all.push_back(std::move(definition));
  return all;
}

}  // namespace kv_offload
