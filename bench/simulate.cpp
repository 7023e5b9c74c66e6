#include "kv_offload/bench/simulate.hpp"

#include "kv_offload/bench/progress.hpp"
#include "kv_offload/bench/report.hpp"
#include "kv_offload/bench/sim_random.hpp"
#include "kv_offload/bench/sim_run.hpp"
#include "kv_offload/bench/sim_scenario.hpp"
#include "kv_offload/bench/simulate_defaults.hpp"
#include "kv_offload/bench/simulate_points.hpp"
#include "kv_offload/bench/synthetic.hpp"
#include "kv_offload/bench/text_table.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <ostream>
#include <sstream>
#include <utility>
#include <vector>

namespace kv_offload::bench {
namespace {

Expected<std::optional<Trace>> load_trace(const SimulateOptions& options) {
  if (options.trace_file) {
    auto trace = read_trace(*options.trace_file, options.requests_max > 0
                                                     ? options.requests_max
                                                     : std::numeric_limits<std::size_t>::max());
    if (!trace) return trace.error();
    return std::optional<Trace>(std::move(*trace));
  }
  if (!options.synthetic) return std::optional<Trace>();
  auto trace = synthetic_trace(*options.synthetic);
  if (!trace) return trace.error();
  return std::optional<Trace>(std::move(*trace));
}

Expected<std::vector<SimPolicy>> choose_policies(const SimulateOptions& options,
                                                 const SimScenario& scenario) {
  std::vector<SimPolicy> policies;
  std::istringstream names(options.policies);
  for (std::string name; std::getline(names, name, ',');) {
    auto policy = find_policy(scenario, name);
    if (!policy) return policy.error();
    policies.push_back(std::move(*policy));
  }
  if (policies.empty()) policies = scenario.policies;
  if (policies.empty()) {
    SimPolicy configured;
    configured.name = "configured";
    policies.push_back(std::move(configured));
  }
  return policies;
}

/// A subset of a scenario's policies cannot be judged by inequalities between all of them.
bool names_all(const SimScenario& scenario, const std::vector<SimPolicy>& policies) {
  return std::all_of(scenario.policies.begin(), scenario.policies.end(), [&](const auto& wanted) {
    return std::any_of(policies.begin(), policies.end(),
                       [&](const auto& policy) { return policy.name == wanted.name; });
  });
}

Expected<Ok> run_point(const SimScenario& scenario, const std::vector<SimPolicy>& policies,
                       const SimInput& input, bool quiet, SimPoint& point) {
  ProgressLine progress(!quiet);
  for (const auto& policy : policies) {
    if (progress.due()) progress.show(describe(point) + ": " + policy.name);
    auto document = scenario.with(policy);
    if (!document) return document.error();
    if (!point.parameter.empty())
      if (auto scaled = scale(*document, point.parameter, point.factor); !scaled)
        return scaled.error();
    auto outcome = run_policy(*document, policy, input);
    if (!outcome) return outcome.error();
    point.runs.push_back(to_json(*outcome));
    point.outcomes.push_back(std::move(*outcome));
    if (interrupted()) break;
  }
  progress.finish();
  return Ok{};
}

Json document_of(const SimulateOptions& options, const SimScenario& scenario,
                 const std::vector<SimPoint>& points, const std::vector<SimJudgement>& judgements,
                 double wall_seconds) {
  Json json = document_head(wall_seconds);
  json["scenario"] = scenario.name;
  json["seed"] = options.seed;
  json["promises"] = to_json(all_promises(points));
  json["runs"] = points.front().runs;
  json["expect"] = judgements.front().expectations;
  Json problems = Json::array();
  for (const auto& point : points)
    for (const auto& line : broken(point)) problems.push_back(line);
  for (const auto& judgement : judgements)
    for (const auto& line : judgement.failed) problems.push_back(line);
  json["problems"] = std::move(problems);
  if (points.size() == 1) return json;
  for (const auto& point : points)
    json["points"].push_back({{"seed", point.seed},
                              {"parameter", point.parameter},
                              {"factor", point.factor},
                              {"runs", point.runs}});
  for (const auto& judgement : judgements)
    json["judgements"].push_back({{"of", judgement.of}, {"expect", judgement.expectations}});
  return json;
}

}  // namespace

int run_simulate(const SimulateOptions& options, std::ostream& out, std::ostream& err) {
  if (options.random > 0) return run_random(options, out, err);
  const auto refuse = [&](const std::string& why) {
    err << "kv-offload-bench: " << why << '\n';
    return static_cast<int>(kUsageError);
  };
  if (auto error = check_writable(options.output.json_file)) return refuse(*error);
  if (auto error = check_writable(options.markdown_file, "--markdown")) return refuse(*error);
  auto scenario =
      options.scenario_file ? load_scenario(*options.scenario_file) : default_scenario(options);
  if (!scenario) return refuse(to_string(scenario.error()));
  if (auto laid = lay_options_over(options, *scenario); !laid)
    return refuse(to_string(laid.error()));
  const auto policies = choose_policies(options, *scenario);
  if (!policies) return refuse(to_string(policies.error()));
  if (!names_all(*scenario, *policies)) scenario->expectations.clear();
  auto trace = load_trace(options);
  if (!trace) return refuse(to_string(trace.error()));
  const auto started = std::chrono::steady_clock::now();
  std::vector<SimPoint> points = points_of(
      *scenario, options.seed, options.seeds.value_or(scenario->seeds), options.grid_percent);
  bool failed = false;
  for (auto& point : points) {
    const SimInput input{point.seed, *trace ? &**trace : nullptr, options.requests_max};
    if (auto ran = run_point(*scenario, *policies, input, options.output.quiet, point); !ran)
      return refuse(to_string(ran.error()));
    if (!options.output.quiet && point.parameter.empty()) {
      out << "simulation of " << scenario->name << ", " << describe(point) << "\n\n";
      print_runs(out, point.outcomes);
      out << '\n';
    }
    for (const auto& line : broken(point)) {
      err << "kv-offload-bench: " << line << '\n';
      failed = true;
    }
    if (interrupted()) break;
  }
  if (interrupted()) scenario->expectations.clear();  // unfinished runs say nothing
  const auto judgements = judge(*scenario, points);
  for (const auto& judgement : judgements) {
    if (!options.output.quiet && (judgements.size() <= 4 || !judgement.failed.empty()))
      print_judgement(out, judgement);
    for (const auto& line : judgement.failed) {
      err << "kv-offload-bench: " << line << '\n';
      failed = true;
    }
  }
  if (options.markdown_file) {
    std::ofstream file(*options.markdown_file, std::ios::app);
    print_markdown(file, *scenario, points, judgements);
    if (!file.flush()) return refuse("--markdown: cannot write " + *options.markdown_file);
  }
  const double wall = to_seconds(std::chrono::steady_clock::now() - started);
  const auto promises = all_promises(points);
  if (!options.output.quiet) {
    print_promises(out, promises);
    out << with_commas(points.size() * policies->size()) << " runs, simulated in " << fixed(wall, 2)
        << " s\n";
  }
  if (auto error = write_json(options.output.json_file,
                              document_of(options, *scenario, points, judgements, wall)))
    return refuse(*error);
  return failed || !all_held(promises) ? kCheckFailed : kHeld;
}

}  // namespace kv_offload::bench
