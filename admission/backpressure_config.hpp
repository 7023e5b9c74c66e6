#pragma once

#include "kv_offload/admission/admission_policy.hpp"
#include "kv_offload/messages/config_node.hpp"
#include "kv_offload/messages/expected.hpp"

#include <memory>
#include <string>

namespace kv_offload {

/// Reads the policy `cascade_backpressure`. Null after an error, which the reader keeps.
std::unique_ptr<AdmissionPolicy> make_cascade_backpressure(ConfigReader& reader,
                                                           const AdmissionEnvironment& environment);

/// The `backpressure` objects that concern one tier; nullptr where the key is absent.
struct TierBackpressureNodes {
  const ConfigNode* common = nullptr;  ///< top level, for every tier
  const ConfigNode* tier = nullptr;    ///< of the tier itself; its fields win, one by one
  std::string common_path = "backpressure";
  std::string tier_path;  ///< "secondary_tiers[0].backpressure"
};

/// Builds the implicit policy `backpressure[<label>]` of one tier. Holds null where the tier has
/// none: its own key is absent and the common object is absent, null or empty.
Expected<std::unique_ptr<AdmissionPolicy>> make_tier_backpressure(
    const TierBackpressureNodes& nodes, TierIndex tier, const AdmissionEnvironment& environment);

}  // namespace kv_offload
