#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/actors/engine_metrics.hpp"
#include "kv_offload/tests/metrics/exposition.hpp"
#include "kv_offload/tests/metrics/known_stats.hpp"
#include "kv_offload/tests/metrics/known_values.hpp"

#include <catch2/catch.hpp>

namespace kv_offload::test {
namespace {

const std::vector<MetricDefinition>& engine_definitions() {
  static const auto kDefinitions = metric_definitions(config_with_everything());
  return kDefinitions;
}

Exposition page_of(const EngineStats& stats) {
  return Exposition::parse(render_metrics(stats, engine_definitions()));
}

TEST_CASE("every series shows the number that was counted", "[metrics][unit]") {
  const auto page = page_of(known_stats());
  const auto expected = expected_values();
  for (const auto& [id, value] : expected) {
    INFO(id);
    REQUIRE(page.values.count(id) == 1);
    CHECK(page.values.at(id) == value);
  }
  for (const auto& [id, value] : page.values) {
    INFO(id << " is on the page, but nobody expects it");
    CHECK(expected.count(id) == 1);
  }
}

TEST_CASE("before anything is published every series is there with all its labels, at 0",
          "[metrics][unit]") {
  const auto page = page_of(unpublished_stats());
  const auto expected = expected_values();
  CHECK(page.values.size() == expected.size());
  for (const auto& [id, value] : page.values) {
    INFO(id);
    CHECK(expected.count(id) == 1);
    const bool is_up = id.starts_with("kv_offload_tier_up");
    CHECK(value == (is_up ? 1 : id == "kv_offload_chunk_bytes" ? 4096 : 0));
  }
}

TEST_CASE("series without a meaning in a configuration are neither declared nor shown",
          "[metrics][unit]") {
  const auto definitions = metric_definitions(EngineConfig{});
  const auto page = Exposition::parse(render_metrics(known_stats(), definitions));
  for (const char* name :
       {"vllm:kv_offload_stores_skipped_total", "kv_offload_reuse_tracked_chunks",
        "kv_offload_queried_tokens_total", "kv_offload_hit_tokens_total"}) {
    INFO(name);
    CHECK(page_of(known_stats()).families.count(name) == 1);
    CHECK(page.families.count(name) == 0);
  }
  CHECK(page.values.at("kv_offload_metrics_left_out") == 0);
  EngineConfig below;
  below.store_threshold = 1;
  CHECK(metric_definitions(below).size() == definitions.size());
}

TEST_CASE("an engine without secondary tiers shows the same families", "[metrics][unit]") {
  EngineStats stats;
  stats.tier_labels = {"0:primary"};
  const auto page = page_of(stats);
  CHECK(page.families.size() == page_of(known_stats()).families.size());
  for (const auto& [id, value] : page.values) {
    INFO(id);
    CHECK(value == 0);
    CHECK(id.find("1:fs") == std::string::npos);
  }
  CHECK(page_of(EngineStats{}).families.size() == page.families.size());
}

TEST_CASE("usage shares follow the reference's formula", "[metrics][unit]") {
  struct Row {
    std::uint64_t num_chunks, free, evictable, write_pending;
    double usage, write, read;
  };
  const auto row = GENERATE(Row{0, 0, 0, 0, 0, 0, 0},         // no chunks at all
                            Row{8, 8, 0, 0, 0, 0, 0},         // empty
                            Row{8, 0, 8, 0, 0, 0, 0},         // full and idle
                            Row{8, 2, 2, 1, .5, .125, .375},  // three read, one written
                            Row{8, 4, 0, 4, .5, .5, 0},       // only writing
                            Row{8, 6, 1, 2, .125, .25, 0},    // a write nobody keeps: never below 0
                            Row{8, 8, 8, 0, 0, 0, 0});        // more idle than there are
  EngineStats stats = unpublished_stats();
  stats.primary.num_chunks = row.num_chunks;
  stats.primary.free = row.free;
  stats.primary.evictable = row.evictable;
  stats.primary.write_pending = row.write_pending;
  stats.tracker.tiers.resize(2);
  stats.tracker.tiers[1].active_cascade_chunks = 2;
  const auto page = page_of(stats);
  CHECK(page.values.at("vllm:kv_offload_cpu_cache_usage_perc") == row.usage);
  CHECK(page.values.at("vllm:kv_offload_cpu_cache_write_usage_perc") == row.write);
  CHECK(page.values.at("vllm:kv_offload_cpu_cache_read_usage_perc") == row.read);
  CHECK(page.values.at("vllm:kv_offload_tiering_primary_read_usage_perc{tier=\"2:example\"}") ==
        (row.num_chunks == 0 ? 0 : .25));
}

TEST_CASE("consistent numbers violate nothing", "[metrics][unit]") {
  EngineStats stats = known_stats();
  stats.primary.identity_violation.clear();
  stats.admission.balance_violation.clear();
  const auto page = page_of(stats);
  CHECK(page.values.at("kv_offload_primary_identity_violated") == 0);
  CHECK(page.values.at("kv_offload_admission_balance_violated") == 0);
}

TEST_CASE("large counts keep their digits", "[metrics][unit]") {
  EngineStats stats = known_stats();
  stats.tracker.tiers[0].read_bytes = 1'234'567'890'123'456;  // 1.2 PB
  CHECK(render_metrics(stats, engine_definitions())
            .find("read_bytes_total{tier=\"1:fs\"} 1234567890123456\n") != std::string::npos);
}

}  // namespace
}  // namespace kv_offload::test
