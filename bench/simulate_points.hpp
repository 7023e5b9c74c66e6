#pragma once

#include "kv_offload/bench/report.hpp"
#include "kv_offload/bench/sim_run.hpp"
#include "kv_offload/bench/sim_scenario.hpp"

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace kv_offload::bench {

/// One place of the parameter grid with one seed, and what every policy came to there.
struct SimPoint {
  std::uint64_t seed = 1;
  std::string parameter;  ///< JSON pointer; empty: as the scenario says
  double factor = 1;
  std::vector<SimOutcome> outcomes;
  Json runs = Json::array();
};

/// A scenario's inequalities, judged at one point or on the means of one place over its seeds.
struct SimJudgement {
  std::string of;  ///< "seed 1", "mean of 5 seeds, /device/hbm_chunks x 0.80"
  Json expectations = Json::array();
  std::vector<std::string> failed;  ///< one line each
};

/// Each seed as the scenario says, then with each parameter of its grid `percent` lower and higher.
std::vector<SimPoint> points_of(const SimScenario& scenario, std::uint64_t seed,
                                std::uint32_t seeds, double percent);
std::string describe(const SimPoint& point);
/// Promises and other checks of the runs that failed, one line each.
std::vector<std::string> broken(const SimPoint& point);
/// At least one, the first of the first point.
std::vector<SimJudgement> judge(const SimScenario& scenario, const std::vector<SimPoint>& points);
/// The figures of each policy, means over the points.
Json means_by_policy(const std::vector<SimPoint>& points);
/// Promises of all points and policies together; the first that broke one says why.
std::vector<PromiseCheck> all_promises(const std::vector<SimPoint>& points);
/// A Markdown table, means over the points that vary nothing: one row per policy, then what was expected of them.
void print_markdown(std::ostream& out, const SimScenario& scenario, const std::vector<SimPoint>& points,
                    const std::vector<SimJudgement>& judgements);
void print_judgement(std::ostream& out, const SimJudgement& judgement);

}  // namespace kv_offload::bench
