#pragma once

#include "kv_offload/bench/sim_scenario.hpp"
#include "kv_offload/bench/simulate.hpp"

namespace kv_offload::bench {

/// What is simulated without --scenario: a replay of the trace in virtual time, with the engine of --config
/// or of the options and every secondary tier instant, so that hits, refusals and bytes are a replay's.
Expected<SimScenario> default_scenario(const SimulateOptions& options);

/// Options that change a scenario: the recorded profile, and sizes of the engine.
Expected<Ok> lay_options_over(const SimulateOptions& options, SimScenario& scenario);

}  // namespace kv_offload::bench
