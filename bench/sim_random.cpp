#include "kv_offload/bench/sim_random.hpp"

#include "kv_offload/bench/progress.hpp"
#include "kv_offload/bench/sim_draw.hpp"
#include "kv_offload/bench/sim_run.hpp"
#include "kv_offload/bench/sim_scenario.hpp"
#include "kv_offload/bench/simulate_points.hpp"
#include "kv_offload/bench/text_table.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload::bench {
namespace {

constexpr std::size_t kWorst = 5;

struct Drawn {
  SimDraw draw;
  std::vector<SimPoint> points;  ///< each with other requests of the workload
  Json off, adaptive, again;     ///< means over the points
  SimJudgement judgement;
  double throughput = 1, ttft = 1;              ///< adaptive over off
  double again_throughput = 1, again_ttft = 1;  ///< off with other requests of the same workload, over off
  double seconds = 0;                           ///< of real time, all runs
};

constexpr std::size_t kOff = 0;                          // of the scenario's policies
constexpr std::uint64_t kOtherRequests = 1'000'000'007;  // added to the seed of what is run, not of what is drawn

double ratio(const Json& one, const Json& base, const char* figure) {
  const double off = base.value(figure, 0.0), other = one.value(figure, 0.0);
  return off > 0 ? other / off : other > 0 ? 1e9 : 1;
}
/// Whether `again` differs from `off` by as much as this, either way.
bool is_noise(double ratio, double again) { return std::abs(std::log(ratio)) <= std::abs(std::log(again)); }

Expected<SimPoint> run_seed(const SimScenario& scenario, std::uint64_t seed,
                            const std::vector<SimPolicy>& policies) {
  SimPoint point;
  point.seed = seed;
  for (const auto& policy : policies) {
    auto outcome = run_policy(scenario.document, policy, {seed, nullptr, 0});
    if (!outcome) return outcome.error();
    if (outcome->totals.requests == 0) outcome->problems.emplace_back("no request was measured");
    point.runs.push_back(to_json(*outcome));
    // Only the figures are still needed: the statistics of many engines are large.
    outcome->stats = {};
    point.outcomes.push_back(std::move(*outcome));
  }
  return point;
}

Expected<Drawn> run_draw(std::uint64_t seed, std::uint32_t seeds, std::size_t requests_max) {
  Drawn drawn;
  drawn.draw = draw_scenario(seed, requests_max);
  auto scenario = parse_scenario(drawn.draw.document, "random");
  if (!scenario) return scenario.error();
  const auto started = std::chrono::steady_clock::now();
  // `again`: the same workload with other requests. What that moves is what so many runs of each cannot tell.
  std::vector<SimPoint> again;
  for (std::uint32_t n = 0; n < seeds; ++n) {
    auto point = run_seed(*scenario, seed + 2 * n * kOtherRequests, scenario->policies);
    if (!point) return point.error();
    auto other =
        run_seed(*scenario, seed + (2 * n + 1) * kOtherRequests, {scenario->policies[kOff]});
    if (!other) return other.error();
    drawn.points.push_back(std::move(*point));
    again.push_back(std::move(*other));
  }
  drawn.seconds = to_seconds(std::chrono::steady_clock::now() - started);
  drawn.judgement = judge(*scenario, drawn.points).front();
  Json means = means_by_policy(drawn.points);
  drawn.off = std::move(means["off"]);
  drawn.adaptive = std::move(means["adaptive"]);
  drawn.again = std::move(means_by_policy(again)["off"]);
  drawn.throughput = ratio(drawn.adaptive, drawn.off, "throughput_tokens_s");
  drawn.ttft = ratio(drawn.adaptive, drawn.off, "ttft_p99_s");
  drawn.again_throughput = ratio(drawn.again, drawn.off, "throughput_tokens_s");
  drawn.again_ttft = ratio(drawn.again, drawn.off, "ttft_p99_s");
  return drawn;
}

std::string percent(double value) { return (value >= 1 ? "+" : "") + fixed((value - 1) * 100, 1) + " %"; }

void print_worst(std::ostream& out, const std::string& title, std::vector<const Drawn*> drawn,
                 const std::function<double(const Drawn&)>& badness) {
  std::stable_sort(drawn.begin(), drawn.end(), [&](const auto* a, const auto* b) { return badness(*a) > badness(*b); });
  if (drawn.size() > kWorst) drawn.resize(kWorst);
  TextTable table;
  table.row({title, "tokens/s", "again", "ttft p99", "again", "off", "hit share", "slow share", "stalled", "workload", "tiers"});
  for (const auto* d : drawn) {
    const Json& adaptive = d->adaptive;
    table.row({"seed " + std::to_string(d->draw.seed), percent(d->throughput),
               percent(d->again_throughput), percent(d->ttft), percent(d->again_ttft),
               human_us(d->off["ttft_p99_s"].get<double>() * 1e6),
               fixed(adaptive["hit_share"].get<double>(), 3),
               fixed(adaptive["token_share"]["slow"].get<double>(), 3),
               human_us(adaptive["stalled_s"].get<double>() * 1e6), d->draw.workload,
               d->draw.tiers});
  }
  table.print(out);
  out << '\n';
}

Json to_json(const Drawn& drawn) {
  return {{"seed", drawn.draw.seed},
          {"workload", drawn.draw.workload},
          {"tiers", drawn.draw.tiers},
          {"throughput_ratio", drawn.throughput},
          {"ttft_p99_ratio", drawn.ttft},
          {"again_throughput_ratio", drawn.again_throughput},
          {"again_ttft_p99_ratio", drawn.again_ttft},
          {"expect", drawn.judgement.expectations},
          {"runs", {drawn.off, drawn.adaptive}},
          {"again", drawn.again},
          {"scenario", drawn.draw.document}};
}

}  // namespace

int run_random(const SimulateOptions& options, std::ostream& out, std::ostream& err) {
  const auto refuse = [&](const std::string& why) {
    err << "kv-offload-bench: " << why << '\n';
    return static_cast<int>(kUsageError);
  };
  if (auto error = check_writable(options.output.json_file)) return refuse(*error);
  std::vector<Drawn> all;
  std::vector<std::string> problems;
  std::size_t broken_bounds = 0, beyond_noise = 0;
  double wall = 0, slowest = 0;
  ProgressLine progress(!options.output.quiet);
  for (std::uint32_t n = 0; n < options.random && !interrupted(); ++n) {
    auto drawn = run_draw(options.seed + n, options.seeds.value_or(1), options.requests_max);
    if (!drawn) return refuse("seed " + std::to_string(options.seed + n) + ": " + to_string(drawn.error()));
    broken_bounds += drawn->judgement.failed.empty() ? 0 : 1;
    const bool slower = drawn->throughput < 0.98 && !is_noise(drawn->throughput, drawn->again_throughput);
    const bool later = drawn->ttft > 1.05 && !is_noise(drawn->ttft, drawn->again_ttft);
    beyond_noise += slower || later ? 1 : 0;
    wall += drawn->seconds;
    slowest = std::max(slowest, drawn->seconds);
    for (const auto& point : drawn->points)
      for (auto& line : broken(point)) problems.push_back(std::move(line));
    for (const auto& line : drawn->judgement.failed)
      problems.push_back(drawn->points.size() == 1
                             ? line
                             : "seed " + std::to_string(drawn->draw.seed) + ": " + line);
    if (progress.due())
      progress.show(std::to_string(n + 1) + " of " + std::to_string(options.random) +
                    " scenarios, " + std::to_string(broken_bounds) + " beyond a bound");
    all.push_back(std::move(*drawn));
  }
  progress.finish();
  std::vector<SimPoint> points;
  std::vector<const Drawn*> pointers;
  for (const auto& drawn : all) {
    points.insert(points.end(), drawn.points.begin(), drawn.points.end());
    pointers.push_back(&drawn);
  }
  const auto promises = all_promises(points);
  if (!options.output.quiet) {
    print_worst(out, "worst tokens/s", pointers, [](const Drawn& d) { return -d.throughput; });
    print_worst(out, "worst ttft p99", pointers, [](const Drawn& d) { return d.ttft; });
    print_promises(out, promises);
    out << all.size() << " scenarios, " << broken_bounds << " beyond a bound (" << beyond_noise
        << " by more than `again` moves), simulated in " << fixed(wall, 1)
        << " s, the slowest in " << fixed(slowest, 1) << " s\n";
  }
  for (const auto& line : problems) err << "kv-offload-bench: " << line << '\n';
  Json json = document_head(wall);
  json["scenario"] = "random";
  json["seed"] = options.seed;
  json["promises"] = bench::to_json(promises);
  json["broken_bounds"] = broken_bounds;
  json["beyond_noise"] = beyond_noise;
  json["problems"] = problems;
  json["scenarios"] = Json::array();
  for (const auto& drawn : all) json["scenarios"].push_back(to_json(drawn));
  if (auto error = write_json(options.output.json_file, json)) return refuse(*error);
  return problems.empty() && all_held(promises) ? kHeld : kCheckFailed;
}

}  // namespace kv_offload::bench
