#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/actors/engine_metrics.hpp"
#include "kv_offload/tests/metrics/exposition.hpp"
#include "kv_offload/tests/metrics/known_stats.hpp"

#include <catch2/catch.hpp>

#include <algorithm>

namespace kv_offload::test {
namespace {

using Definitions = std::vector<MetricDefinition>;
using Lines = std::vector<std::string>;

const std::string kDrops = "test_drops_total";
const std::string kHeat = "test_heat";
const std::string kSizes = "test_sizes";

/// The engine's series and three of a policy or tier.
Definitions with_extra() {
  Definitions all = metric_definitions(EngineConfig{});
  all.push_back({kDrops, MetricKind::counter, "Drops.", {"tier", "why"}, {}});
  all.push_back({kHeat, MetricKind::gauge, "Heat.", {}, {}});
  all.push_back({kSizes, MetricKind::histogram, "Sizes.", {}, {1, 2}});
  return all;
}

EngineStats stats_with(MetricSample sample) {
  EngineStats stats = known_stats();
  stats.admission.policy_samples.push_back(std::move(sample));
  return stats;
}

Lines undeclared(const EngineStats& stats) { return undeclared_metrics(stats, with_extra()); }

TEST_CASE("declared samples of policies and tiers are on the page", "[metrics][unit]") {
  EngineStats stats = stats_with({kDrops, {{"tier", "1:fs"}, {"why", "late"}}, 3});
  stats.admission.policy_samples.push_back({kHeat, {}, -1.5});
  // Labels in another order than declared; a value that has to be escaped.
  stats.tiers[1].samples.push_back({kDrops, {{"why", "\"\\\n"}, {"tier", "2:example"}}, 4});
  const auto page = Exposition::parse(render_metrics(stats, with_extra()));
  CHECK(page.values.at("test_drops_total{tier=\"1:fs\",why=\"late\"}") == 3);
  CHECK(page.values.at("test_drops_total{tier=\"2:example\",why=\"\"\\\n\"}") == 4);
  CHECK(page.values.at("test_heat") == -1.5);
  CHECK(page.values.at("kv_offload_metrics_left_out") == 0);
  CHECK(undeclared(stats).empty());
}

TEST_CASE("a declared series without a sample is a family without samples", "[metrics][unit]") {
  const auto page = Exposition::parse(render_metrics(known_stats(), with_extra()));
  CHECK(page.families.at(kDrops).type == "counter");
  CHECK(page.families.at(kDrops).samples.empty());
}

TEST_CASE("samples that are not as declared are named", "[metrics][unit]") {
  const MetricSample good{kDrops, {{"tier", "1:fs"}, {"why", "late"}}, 3};
  CHECK(undeclared(stats_with(good)).empty());
  CHECK(undeclared(stats_with({"test_unknown", {}, 1})) == Lines{"test_unknown: is not declared"});
  CHECK(undeclared(stats_with({"test_drops", good.labels, 1})) ==
        Lines{"test_drops: is not declared"});
  const Lines labels = {"test_drops_total: has other labels than declared"};
  CHECK(undeclared(stats_with({kDrops, {}, 1})) == labels);
  CHECK(undeclared(stats_with({kDrops, {{"tier", "1:fs"}}, 1})) == labels);
  CHECK(undeclared(stats_with({kDrops, {{"tier", "1:fs"}, {"reason", "late"}}, 1})) == labels);
  CHECK(undeclared(stats_with({kDrops, {{"tier", "1:fs"}, {"tier", "1:fs"}}, 1})) == labels);
  CHECK(undeclared(stats_with({kHeat, {{"tier", "1:fs"}}, 1})) ==
        Lines{"test_heat: has other labels than declared"});
  CHECK(undeclared(stats_with({kSizes, {}, 1})) == Lines{"test_sizes: is declared as a histogram"});
  CHECK(undeclared(stats_with({"kv_offload_active_jobs", {}, 1})) ==
        Lines{"kv_offload_active_jobs: belongs to the engine"});
  EngineStats twice = stats_with(good);
  twice.tiers[0].samples.push_back(good);
  CHECK(undeclared(twice) == Lines{"test_drops_total: appears twice with the same labels"});
}

TEST_CASE("declarations that no scraper would take are named", "[metrics][unit]") {
  const auto after = [](MetricDefinition definition) {
    Definitions all = metric_definitions(EngineConfig{});
    all.push_back(std::move(definition));
    return undeclared_metrics(known_stats(), all);
  };
  constexpr auto kGauge = MetricKind::gauge;
  CHECK(after({"test-heat", kGauge, "Heat.", {}, {}}) == Lines{"test-heat: is no metric name"});
  CHECK(after({kHeat, kGauge, "Heat.", {"a:b"}, {}}) ==
        Lines{"test_heat: label \"a:b\" is no label name"});
  const std::string ending = ": counters, and only they, end in _total";
  CHECK(after({"test_heat_total", kGauge, "Heat.", {}, {}}) == Lines{"test_heat_total" + ending});
  CHECK(after({kHeat, MetricKind::counter, "Heat.", {}, {}}) == Lines{kHeat + ending});
  CHECK(after({"kv_offload_active_jobs", kGauge, "Jobs.", {}, {}}) ==
        Lines{"kv_offload_active_jobs: is declared twice"});
}

TEST_CASE("a series of the engine that is missing in the declarations is named",
          "[metrics][unit]") {
  Definitions some = metric_definitions(EngineConfig{});
  std::erase_if(some, [](const auto& d) { return d.name == "kv_offload_active_jobs"; });
  CHECK(undeclared_metrics(known_stats(), some) ==
        Lines{"kv_offload_active_jobs: is not declared"});
  some.push_back({"kv_offload_active_jobs", MetricKind::gauge, "Jobs.", {"tier"}, {}});
  CHECK(undeclared_metrics(known_stats(), some) ==
        Lines{"kv_offload_active_jobs: is declared otherwise"});
}

TEST_CASE("a histogram with other bounds than declared is named", "[metrics][unit]") {
  EngineStats stats = known_stats();
  stats.primary.allocation_size = Histogram({1, 2});
  CHECK(undeclared(stats) ==
        Lines{"vllm:kv_offload_cpu_allocation_size: has other buckets than declared"});
}

TEST_CASE("a help text of several lines does not break the page", "[metrics][unit]") {
  Definitions all = metric_definitions(EngineConfig{});
  all.push_back({kHeat, MetricKind::gauge, "Heat of\na\\b.", {}, {}});
  const auto page = Exposition::parse(render_metrics(known_stats(), all));
  CHECK(page.families.at(kHeat).help == "Heat of a/b.");
}

#ifdef NDEBUG  // Debug builds stop at an undeclared metric.
TEST_CASE("an undeclared metric is left out of the page, which says so", "[metrics][unit]") {
  EngineStats stats = stats_with({"test_unknown", {}, 1});
  stats.primary.allocation_size = Histogram({1, 2});
  const auto page = Exposition::parse(render_metrics(stats, with_extra()));
  CHECK(page.families.count("test_unknown") == 0);
  CHECK(page.families.at("vllm:kv_offload_cpu_allocation_size").samples.empty());
  CHECK(page.values.at("kv_offload_metrics_left_out") == 2);
  CHECK(page.values.at("kv_offload_active_jobs") == 211);
}
#endif

}  // namespace
}  // namespace kv_offload::test
