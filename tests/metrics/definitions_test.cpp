#include "kv_offload/actors/engine_config_admission.hpp"
#include "kv_offload/actors/engine_metrics.hpp"
#include "kv_offload/tests/config/config_lines.hpp"
#include "kv_offload/tests/metrics/exposition.hpp"
#include "kv_offload/tests/metrics/known_stats.hpp"
#include "kv_offload/tests/metrics/tier_with_metrics.hpp"
#include "kv_offload/tests/support/tier_directory.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <set>

namespace kv_offload::test {
namespace {

using Definitions = std::vector<MetricDefinition>;

const MetricDefinition* find(const Definitions& definitions, const std::string& name) {
  const auto it = std::find_if(definitions.begin(), definitions.end(),
                               [&](const MetricDefinition& d) { return d.name == name; });
  return it == definitions.end() ? nullptr : &*it;
}

std::string fs_tier(const TierDirectory& directory) {
  return R"({"type": "fs", "root_dir": ")" + directory.path() + "\"}";
}

TEST_CASE("the reference's series keep their names, kinds, labels and bounds", "[metrics][unit]") {
  struct Row {
    std::string name;
    MetricKind kind;
    bool by_tier;
    std::vector<double> buckets;
  };
  constexpr auto kCounter = MetricKind::counter;
  constexpr auto kGauge = MetricKind::gauge;
  constexpr auto kHistogram = MetricKind::histogram;
  const std::vector<Row> rows = {
      {"cpu_cache_usage_perc", kGauge, false, {}},
      {"cpu_cache_write_usage_perc", kGauge, false, {}},
      {"cpu_cache_read_usage_perc", kGauge, false, {}},
      {"cpu_allocation_size",
       kHistogram,
       false,
       {1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144}},
      {"stores_skipped_total", kCounter, false, {}},
      {"tiering_chunk_queries_total", kCounter, true, {}},
      {"tiering_chunk_hits_total", kCounter, true, {}},
      {"tiering_lookup_sync_delay_seconds",
       kHistogram,
       true,
       {0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1}},
      {"tiering_lookup_async_delay_seconds",
       kHistogram,
       true,
       {0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10}},
      {"tiering_read_bytes_total", kCounter, true, {}},
      {"tiering_write_bytes_total", kCounter, true, {}},
      {"tiering_read_time_total", kCounter, true, {}},
      {"tiering_write_time_total", kCounter, true, {}},
      {"tiering_promotion_job_failures_total", kCounter, true, {}},
      {"tiering_cascade_job_failures_total", kCounter, true, {}},
      {"tiering_promotion_allocation_failures_total", kCounter, false, {}},
      {"tiering_primary_write_usage_perc", kGauge, true, {}},
      {"tiering_primary_read_usage_perc", kGauge, true, {}},
      {"tiering_active_promotion_jobs", kGauge, true, {}},
      {"tiering_active_cascade_jobs", kGauge, true, {}},
      {"tiering_cascades_dropped_total", kCounter, true, {}},
      {"tiering_promotions_dropped_total", kCounter, true, {}},
  };
  const auto definitions =
      metric_definitions(good_config(document(R"("store_threshold": 2)")));
  for (const Row& row : rows) {
    INFO(row.name);
    const auto* d = find(definitions, "vllm:kv_offload_" + row.name);
    REQUIRE(d != nullptr);
    CHECK(d->kind == row.kind);
    CHECK(d->label_names ==
          (row.by_tier ? std::vector<std::string>{"tier"} : std::vector<std::string>{}));
    CHECK(d->buckets == row.buckets);
  }
  const auto is_reference = [](const MetricDefinition& d) { return d.name.starts_with("vllm:"); };
  CHECK(std::count_if(definitions.begin(), definitions.end(), is_reference) ==
        static_cast<std::ptrdiff_t>(rows.size()));
}

TEST_CASE("every help text carries unit, moment and labels", "[metrics][unit]") {
  const std::vector<std::string> units = {
      "chunk", "byte",  "second", "job",    "share",  "request", "event", "1 while", "pin",
      "hold",  "lease", "call",   "lookup", "ticket", "message", "probe", "series",  "change"};
  EngineConfig config = good_config(
      document(R"("tokens_per_chunk": 16, "secondary_tiers": [{"type": "example", "backpressure": {}}],
                  "admission_policy": {"type": "cascade_backpressure"})"));
  config.store_threshold = 2;
  for (const auto& d : metric_definitions(config)) {
    INFO(d.name << ": " << d.help);
    std::string lower = d.help;
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    CHECK(std::any_of(units.begin(), units.end(), [&](const std::string& unit) {
      return lower.find(unit) != std::string::npos;
    }));
    const std::string moment = d.kind == MetricKind::counter ? "counted when "
                               : d.kind == MetricKind::gauge ? "At present: "
                                                             : "observed when ";
    CHECK(d.help.find(moment) != std::string::npos);
    const auto labeled = d.help.find(", labeled by ");
    CHECK((labeled != std::string::npos) == !d.label_names.empty());
    for (const auto& label : d.label_names) CHECK(d.help.find(label, labeled) != std::string::npos);
    CHECK(d.help.back() == '.');
  }
}

TEST_CASE("each name is declared once, ours with our prefix", "[metrics][unit]") {
  std::set<std::string> names;
  for (const auto& d : metric_definitions(EngineConfig{})) {
    INFO(d.name);
    CHECK(names.insert(d.name).second);
    CHECK((d.name.starts_with("vllm:kv_offload_") || d.name.starts_with("kv_offload_")));
    CHECK(d.name.ends_with("_total") == (d.kind == MetricKind::counter));
    CHECK(d.buckets.empty() == (d.kind != MetricKind::histogram));
    CHECK(std::is_sorted(d.buckets.begin(), d.buckets.end()));
  }
}

TEST_CASE("what is declared is on the page and nothing else is", "[metrics][unit]") {
  const auto definitions = metric_definitions(EngineConfig{});
  const auto page = Exposition::parse(render_metrics(known_stats(), definitions));
  CHECK(page.families.size() == definitions.size());
  for (const auto& d : definitions) {
    INFO(d.name);
    REQUIRE(page.families.count(d.name) == 1);
    const auto& family = page.families.at(d.name);
    CHECK(family.type == (d.kind == MetricKind::counter ? "counter"
                          : d.kind == MetricKind::gauge ? "gauge"
                                                        : "histogram"));
    CHECK(family.help == d.help);
    CHECK_FALSE(family.samples.empty());
  }
  CHECK(undeclared_metrics(known_stats(), definitions).empty());
}

TEST_CASE("a policy's series are declared by its configuration", "[metrics][unit]") {
  const TierDirectory directory;
  const std::string active = "vllm:kv_offload_tiering_backpressure_active";
  const auto config = good_config(
      document(R"("secondary_tiers": [)" + fs_tier(directory) + R"(, {"type": "example"}],
         "admission_policy": {"type": "composite", "policies": [
           {"type": "cascade_backpressure"}, {"type": "promotion_concurrency"}]})"));
  const auto definitions = metric_definitions(config);
  REQUIRE(find(definitions, active) != nullptr);
  CHECK(find(definitions, active)->kind == MetricKind::gauge);
  CHECK(find(metric_definitions(good_config(document())), active) == nullptr);

  const auto admission = build_admission(config);
  REQUIRE(admission);
  EngineStats stats = known_stats();
  stats.admission.policy_samples = admission->policy->stats({});
  REQUIRE_FALSE(stats.admission.policy_samples.empty());
  CHECK(undeclared_metrics(stats, definitions).empty());
  const auto page = Exposition::parse(render_metrics(stats, definitions));
  CHECK(page.families.size() == definitions.size());
  CHECK(page.values.at(active + "{tier=\"1:fs\"}") == 0);
  CHECK(page.values.at(active + "{tier=\"2:example\"}") == 0);
  CHECK(page.values.count("vllm:kv_offload_tiering_store_latency_ema{tier=\"1:fs\"}") == 1);
}

TEST_CASE("a tier's series are declared without starting it", "[metrics][unit]") {
  TierWithMetrics::make_known();
  const TierDirectory directory;
  const std::string type = TierWithMetrics::kType;
  const auto config =
      good_config(document(R"("secondary_tiers": [{"type": ")" + type + R"("}, {"type": ")" + type +
                           R"("}, )" + fs_tier(directory) + "]"));
  const auto definitions = metric_definitions(config);
  const auto* d = find(definitions, TierWithMetrics::kSeries);
  REQUIRE(d != nullptr);
  CHECK(d->label_names == std::vector<std::string>{"tier", "side"});
  const auto others =
      metric_definitions(good_config(document(R"("secondary_tiers": [{"type": "example"}])")));
  CHECK(definitions.size() == others.size() + 1);  // two tiers of one type declare it once
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("a configuration that cannot be built still has the engine's series", "[metrics][unit]") {
  EngineConfig config;
  config.secondary_tiers.push_back({});
  config.secondary_tiers.back().type = "no-such-tier";
  config.admission_policy = ConfigNode(ConfigNode::Value(std::string("no policy")));
  CHECK(metric_definitions(config).size() == metric_definitions(EngineConfig{}).size());
}

}  // namespace
}  // namespace kv_offload::test
