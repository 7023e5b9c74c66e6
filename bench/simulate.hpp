#pragma once

#include "kv_offload/bench/options.hpp"

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

namespace kv_offload::bench {

struct SimulateOptions {
  EngineOptions engine;
  std::optional<std::string> markdown_file;  ///< the table is appended to it
  OutputOptions output;
  std::optional<std::string> trace_file;
  std::optional<std::string> synthetic;  ///< instead of a trace file
  std::optional<std::string> scenario_file;
  std::optional<std::string> profile_file;  ///< recorded operations of the tiers
  std::string policies;  ///< comma-separated; empty: the scenario's, or always_admit
  std::uint64_t seed = 1;
  std::optional<std::uint32_t> seeds;  ///< so many, from `seed` on; unset: as the scenario says
  double grid_percent = 0;  ///< vary the scenario's grid parameters by this much, one at a time
  std::size_t requests_max = 0;  ///< of the trace, or of each drawn scenario; 0: all
  std::uint32_t random = 0;      ///< draw so many scenarios instead, one per seed from `seed` on
  bool head_most_recent = true;
};

/// Runs policies side by side in virtual time and checks the scenario's inequalities. Answers the exit
/// status.
int run_simulate(const SimulateOptions& options, std::ostream& out, std::ostream& err);

}  // namespace kv_offload::bench
