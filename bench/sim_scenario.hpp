#pragma once

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/bench/report.hpp"
#include "kv_offload/bench/sim_device.hpp"
#include "kv_offload/bench/sim_serving.hpp"
#include "kv_offload/bench/sim_tier.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload::bench {

/// One policy of a comparison: its name in the table, what decides, and what else is different.
struct SimPolicy {
  std::string name;
  bool offload = true;            ///< false: "off"
  std::optional<Json> admission;  ///< engine's admission_policy; unset: as the engine section says
  Json set = Json::object();      ///< JSON pointer into the scenario → value
};

/// An inequality between figures of the runs.
struct SimExpectation {
  std::string name, that;
};

/// A scenario file as it was read; `with` makes the document of one run from it.
struct SimScenario {
  std::string name;
  Json document = Json::object();
  std::vector<SimPolicy> policies;
  std::vector<SimExpectation> expectations;
  std::vector<std::string> grid;  ///< JSON pointers of the parameters that are varied
  std::uint32_t seeds = 1;        ///< unless the command line says otherwise
  bool judge_mean = false;  ///< inequalities are of the means over the seeds, not of each seed

  /// The document with one policy's settings laid over it.
  [[nodiscard]] Expected<Json> with(const SimPolicy& policy) const;
};

/// Everything one run is built from.
struct SimSetup {
  EngineConfig engine;
  std::vector<SimTierModel> tiers;
  SimDeviceModel device;
  bool sequential = false;  ///< one request after the other, as replay
  bool head_most_recent = true;
  std::uint64_t step_tokens = 8192;
  SimOffers offers = SimOffers::computed;
  bool look_up_at_arrival = false;
  double from_s = 0, to_s = 0;
  bool offload = true;
};

/// Reads and checks the file's own sections; errors are one line.
Expected<SimScenario> load_scenario(const std::string& file);
Expected<SimScenario> parse_scenario(Json document, std::string name);
/// A policy named on the command line: the scenario's own of that name, "off", or a registered policy.
Expected<SimPolicy> find_policy(const SimScenario& scenario, const std::string& name);
/// Multiplies the number at `pointer`; whole numbers stay whole.
Expected<Ok> scale(Json& document, const std::string& pointer, double factor);
/// Builds what the document describes. `workload` is left to read_workload.
Expected<SimSetup> build_setup(const Json& document, const SimPolicy& policy);

}  // namespace kv_offload::bench
