#pragma once

#include "kv_offload/admission/admission_policy.hpp"
#include "kv_offload/messages/config_node.hpp"

#include <memory>

namespace kv_offload {

// Factories of the gates. Null after an error, which the reader keeps.

std::unique_ptr<AdmissionPolicy> make_payoff(ConfigReader& reader,
                                             const AdmissionEnvironment& environment);
std::unique_ptr<AdmissionPolicy> make_lookup_gate(ConfigReader& reader,
                                                  const AdmissionEnvironment& environment);
std::unique_ptr<AdmissionPolicy> make_demand(ConfigReader& reader,
                                             const AdmissionEnvironment& environment);
std::unique_ptr<AdmissionPolicy> make_load_worth(ConfigReader& reader,
                                                 const AdmissionEnvironment& environment);
std::unique_ptr<AdmissionPolicy> make_backlog(ConfigReader& reader,
                                              const AdmissionEnvironment& environment);
std::unique_ptr<AdmissionPolicy> make_write_budget(ConfigReader& reader,
                                                   const AdmissionEnvironment& environment);
std::unique_ptr<AdmissionPolicy> make_circuit_breaker(ConfigReader& reader,
                                                      const AdmissionEnvironment& environment);

}  // namespace kv_offload
