#pragma once

#include "kv_offload/bench/report.hpp"
#include "kv_offload/bench/sim_scenario.hpp"
#include "kv_offload/bench/sim_totals.hpp"
#include "kv_offload/bench/trace.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace kv_offload::bench {

/// What one policy came to in one run.
struct SimOutcome {
  std::string policy;
  SimTotals totals;
  EngineStats stats;              ///< empty where offload was off
  std::vector<TierReport> tiers;  ///< [0] primary; empty where offload was off
  std::vector<PromiseCheck> promises;
  std::vector<std::string> problems;  ///< failed checks that are no promise of the engine
  std::uint64_t row_bytes = 0;
  double backlog_share = 0;  ///< worst tier's most chunks queued or in flight, of the primary tier's slots
  double recovery_s = -1;    ///< worst tier's first store after its faults; -1: never, or no faults
};

struct SimInput {
  std::uint64_t seed = 1;
  const Trace* trace = nullptr;  ///< null: the scenario makes its own requests
  std::size_t requests_max = 0;  ///< of the trace; 0: all
};

/// Runs one policy of a scenario from a cold start. Errors are of the scenario; trouble during the run is
/// in `problems`.
Expected<SimOutcome> run_policy(const Json& document, const SimPolicy& policy,
                                const SimInput& input);

/// One member of `runs`.
Json to_json(const SimOutcome& outcome);
/// Policies by figures.
void print_runs(std::ostream& out, const std::vector<SimOutcome>& outcomes);

}  // namespace kv_offload::bench
