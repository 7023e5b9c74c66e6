#include "kv_offload/bench/simulate_points.hpp"

#include "kv_offload/bench/sim_expression.hpp"
#include "kv_offload/bench/text_table.hpp"

#include <algorithm>
#include <map>
#include <ostream>
#include <utility>

namespace kv_offload::bench {
namespace {

std::string place(const SimPoint& point) {
  return point.parameter.empty() ? "" : ", " + point.parameter + " x " + fixed(point.factor, 2);
}

Json by_policy(const Json& runs) {
  Json named = Json::object();
  for (const auto& run : runs) named[run["policy"].get<std::string>()] = run;
  return named;
}

/// Adds every number of `more`, divided by `count`, to the same member of `sum`; words are those of the first.
void add_part(Json& sum, const Json& more, double count) {
  if (more.is_object()) {
    if (sum.is_null()) sum = Json::object();
    for (const auto& [key, value] : more.items()) add_part(sum[key], value, count);
  } else if (more.is_number()) {
    sum = (sum.is_number() ? sum.get<double>() : 0.0) + more.get<double>() / count;
  } else if (sum.is_null()) {
    sum = more;
  }
}

SimJudgement judge(const SimScenario& scenario, std::string of, const Json& runs) {
  SimJudgement judgement;
  judgement.of = std::move(of);
  for (const auto& expectation : scenario.expectations) {
    const auto verdict = evaluate(expectation.that, runs);
    if (!verdict) {
      judgement.failed.push_back(judgement.of + ": " + verdict.error().detail);
      continue;
    }
    judgement.expectations.push_back({{"name", expectation.name},
                                      {"that", expectation.that},
                                      {"left", verdict->left},
                                      {"right", verdict->right},
                                      {"held", verdict->held}});
    if (!verdict->held)
      judgement.failed.push_back(judgement.of + ": " + expectation.name + ": " + expectation.that +
                                 " (" + fixed(verdict->left, 4) + " against " +
                                 fixed(verdict->right, 4) + ")");
  }
  return judgement;
}

}  // namespace

std::vector<SimPoint> points_of(const SimScenario& scenario, std::uint64_t seed,
                                std::uint32_t seeds, double percent) {
  std::vector<SimPoint> points;
  for (std::uint32_t s = 0; s < seeds; ++s) {
    SimPoint point;
    point.seed = seed + s;
    points.push_back(point);
    if (percent <= 0) continue;
    for (const auto& parameter : scenario.grid) {
      for (const double sign : {-1.0, 1.0}) {
        point.parameter = parameter;
        point.factor = 1 + sign * percent / 100;
        points.push_back(point);
      }
    }
  }
  return points;
}

std::string describe(const SimPoint& point) {
  return "seed " + std::to_string(point.seed) + place(point);
}

std::vector<std::string> broken(const SimPoint& point) {
  std::vector<std::string> lines;
  for (const auto& outcome : point.outcomes) {
    const std::string where = describe(point) + ", " + outcome.policy + ": ";
    for (const auto& problem : outcome.problems) lines.push_back(where + problem);
    for (const auto& promise : outcome.promises)
      if (!promise.held)
        lines.push_back(where + "promise " + std::to_string(promise.number) +
                        " is broken: " + promise.why);
  }
  return lines;
}

std::vector<SimJudgement> judge(const SimScenario& scenario, const std::vector<SimPoint>& points) {
  std::vector<SimJudgement> judgements;
  if (!scenario.judge_mean) {
    for (const auto& point : points)
      judgements.push_back(judge(scenario, describe(point), by_policy(point.runs)));
    return judgements;
  }
  std::vector<std::string> places;  // in the order of the points
  std::map<std::string, std::vector<const SimPoint*>> seeds;
  for (const auto& point : points) {
    auto& of_place = seeds[place(point)];
    if (of_place.empty()) places.push_back(place(point));
    of_place.push_back(&point);
  }
  for (const auto& name : places) {
    Json means = Json::object();
    const auto count = static_cast<double>(seeds[name].size());
    for (const auto* point : seeds[name]) add_part(means, by_policy(point->runs), count);
    const auto& of = seeds[name];
    judgements.push_back(judge(scenario,
                               of.size() == 1
                                   ? describe(*of.front())
                                   : "mean of " + std::to_string(of.size()) + " seeds" + name,
                               means));
  }
  return judgements;
}

Json means_by_policy(const std::vector<SimPoint>& points) {
  Json means = Json::object();
  for (const auto& point : points)
    add_part(means, by_policy(point.runs), static_cast<double>(points.size()));
  return means;
}

std::vector<PromiseCheck> all_promises(const std::vector<SimPoint>& points) {
  std::vector<PromiseCheck> all;
  for (const auto& point : points) {
    for (const auto& outcome : point.outcomes) {
      for (const auto& promise : outcome.promises) {
        auto it = std::find_if(all.begin(), all.end(),
                               [&](const auto& known) { return known.number == promise.number; });
        if (it == all.end()) it = all.insert(all.end(), {promise.number, promise.name, true, ""});
        if (promise.held || !it->held) continue;
        it->held = false;
        it->why = describe(point) + ", " + outcome.policy + ": " + promise.why;
      }
    }
  }
  return all;
}

void print_markdown(std::ostream& out, const SimScenario& scenario, const std::vector<SimPoint>& points,
                    const std::vector<SimJudgement>& judgements) {
  Json means = Json::object();
  const auto seeds = std::count_if(points.begin(), points.end(), [](const auto& p) { return p.parameter.empty(); });
  for (const auto& point : points)
    if (point.parameter.empty()) add_part(means, by_policy(point.runs), static_cast<double>(seeds));
  const std::string name = scenario.name.substr(scenario.name.rfind('/') + 1);
  out << "**" << name.substr(0, name.rfind(".json")) << "**, mean of " << seeds << (seeds == 1 ? " seed" : " seeds")
      << "\n\n| policy | tokens/s | | TTFT p50 | p99 | hits | read | written | lost unread | refused |\n"
      << "|---|---|---|---|---|---|---|---|---|---|\n";
  double base = 0;
  for (const auto& run : points.front().runs) {
    const auto policy = run["policy"].get<std::string>();
    const Json& m = means[policy];
    const auto of = [&](const char* figure) { return m[figure].get<double>(); };
    if (base == 0) base = of("throughput_tokens_s");
    const double change = base > 0 ? of("throughput_tokens_s") / base - 1 : 0;
    out << "| " << policy << " | " << with_commas(static_cast<std::uint64_t>(of("throughput_tokens_s"))) << " | "
        << (change >= 0 ? "+" : "") << fixed(change * 100, 1) << " % | " << fixed(of("ttft_p50_s"), 2) << " s | "
        << fixed(of("ttft_p99_s"), 2) << " s | " << fixed(of("hit_share"), 4) << " | " << human_bytes(of("read_bytes"))
        << " | " << human_bytes(of("written_bytes")) << " | "
        << with_commas(static_cast<std::uint64_t>(of("thrash_chunks"))) << " | "
        << with_commas(static_cast<std::uint64_t>(of("refused_chunks"))) << " |\n";
  }
  out << '\n';
  if (judgements.size() == 1)
    for (const auto& e : judgements.front().expectations)
      out << "- " << (e["held"].get<bool>() ? "held" : "**not held**") << ": " << e["name"].get<std::string>() << " ("
          << fixed(e["left"].get<double>(), 4) << " against " << fixed(e["right"].get<double>(), 4) << ")\n";
  out << '\n';
}

void print_judgement(std::ostream& out, const SimJudgement& judgement) {
  if (judgement.expectations.empty()) return;
  out << judgement.of << '\n';
  for (const auto& expectation : judgement.expectations)
    out << (expectation["held"].get<bool>() ? "held    " : "FAILED  ")
        << expectation["name"].get<std::string>() << ": " << expectation["that"].get<std::string>()
        << " (" << fixed(expectation["left"].get<double>(), 4) << ", "
        << fixed(expectation["right"].get<double>(), 4) << ")\n";
  out << '\n';
}

}  // namespace kv_offload::bench
