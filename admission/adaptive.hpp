#pragma once

#include "kv_offload/admission/admission_registry.hpp"

#include <memory>

namespace kv_offload {

/// Most seconds from the last slow completion of an overload to the first store that backpressure
/// lets through. Two seconds after the tier has recovered are promised: what it had queued is written first.
inline constexpr double kAdaptiveRecoverySeconds = 0.5;

/// The recommended policy, `{"type": "adaptive"}`: a composite of circuit_breaker, backpressure
/// tuned to recover fast, promotion_concurrency, write_budget (if configured), payoff and
/// lookup_gate (off unless configured). Each takes an object of its own name whose keys override
/// the preset's. Null after an error, which the reader keeps.
std::unique_ptr<AdmissionPolicy> make_adaptive(ConfigReader& reader, const AdmissionBuild& build);

}  // namespace kv_offload
