#pragma once

#include "kv_offload/admission/admission_policy.hpp"
#include "kv_offload/admission/admission_registry.hpp"

#include <memory>
#include <string>
#include <vector>

namespace kv_offload {

/// The parts of an engine's configuration that decide its admission. Nodes are nullptr where their
/// key is absent.
struct AdmissionConfig {
  const ConfigNode* policy = nullptr;                ///< `admission_policy`
  const ConfigNode* backpressure = nullptr;          ///< top-level `backpressure`
  std::vector<const ConfigNode*> tier_backpressure;  ///< `secondary_tiers[i].backpressure`
};

struct AdmissionSetup {
  std::unique_ptr<AdmissionPolicy> policy;
  std::vector<std::string> warnings;  ///< possible but harmful settings, one line each
};

/// Builds the engine's whole policy: the configured one, followed by one implicit
/// `backpressure[<tier>]` for every tier that resolves to one. Errors are one line with path, value
/// and allowed range.
Expected<AdmissionSetup> set_up_admission(const AdmissionConfig& config,
                                          const AdmissionEnvironment& environment,
                                          const AdmissionRegistry& registry = admission_policies());

}  // namespace kv_offload
