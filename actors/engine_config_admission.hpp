#pragma once

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/admission/admission_setup.hpp"

namespace kv_offload {

/// What admission may know of the configured tiers before any of them exists.
AdmissionEnvironment admission_environment(const EngineConfig& config);

/// Builds the configured admission policy without an engine, to check and to describe it.
Expected<AdmissionSetup> build_admission(const EngineConfig& config);

}  // namespace kv_offload
