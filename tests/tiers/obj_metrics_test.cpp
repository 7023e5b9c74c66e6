#include "kv_offload/tiers/obj/obj_metrics.hpp"

#include <catch2/catch.hpp>

#include <map>
#include <set>

namespace kv_offload {
namespace {

TEST_CASE("an obj tier shows exactly the series that it declares", "[obj]") {
  ObjShared shared;
  ObjConfig config;
  std::map<std::string, std::vector<std::string>> declared;
  for (const MetricDefinition& definition : obj_metric_definitions()) {
    CHECK(declared.emplace(definition.name, definition.label_names).second);
    CHECK_FALSE(definition.help.empty());
    CHECK(definition.name.starts_with("kv_offload_obj_"));
    CHECK(definition.name.ends_with("_total") == (definition.kind == MetricKind::counter));
  }
  std::set<std::string> shown;
  std::set<std::pair<std::string, std::string>> series;
  for (const MetricSample& sample : obj_metric_samples("3:obj", shared, config)) {
    INFO(sample.name);
    REQUIRE(declared.contains(sample.name));
    shown.insert(sample.name);
    std::vector<std::string> labels;
    for (const auto& [name, value] : sample.labels) labels.push_back(name);
    CHECK(labels == declared.at(sample.name));
    CHECK(sample.labels[0].second == "3:obj");
    CHECK(sample.value == 0);
    CHECK(series.emplace(sample.name, sample.labels.back().second).second);
  }
  CHECK(shown.size() == declared.size());
  // One series per operation and per outcome.
  CHECK(series.size() == declared.size() - 2 + kNumS3Ops + kNumS3Failures);
}

TEST_CASE("each number of an obj tier is shown in its own series", "[obj]") {
  ObjShared shared;
  ObjConfig config;
  config.capacity_bytes = 1;
  S3Counters& s3 = *shared.s3;
  ObjCounters& c = shared.counters;
  double next = 2;
  std::map<std::string, double> expected{{"kv_offload_obj_capacity_bytes", 1}};
  const auto set = [&](std::atomic<std::uint64_t>& n, const char* name) {
    n = static_cast<std::uint64_t>(next);
    expected[name] = next++;
  };
  set(s3.retries, "kv_offload_obj_retries_total");
  set(s3.retries_denied, "kv_offload_obj_retries_denied_total");
  set(s3.breaker_opened, "kv_offload_obj_breaker_opened_total");
  set(s3.connections, "kv_offload_obj_connections_total");
  set(s3.in_flight, "kv_offload_obj_in_flight_requests");
  set(c.cached_verdicts, "kv_offload_obj_cached_verdicts_total");
  set(c.credentials_renewed, "kv_offload_obj_credentials_renewed_total");
  set(c.known_bytes, "kv_offload_obj_known_bytes");
  set(c.known_objects, "kv_offload_obj_known_objects");
  set(c.listed_objects, "kv_offload_obj_listed_objects_total");
  set(c.evicted_chunks, "kv_offload_obj_evicted_chunks_total");
  set(c.evicted_bytes, "kv_offload_obj_evicted_bytes_total");
  set(c.delete_failures, "kv_offload_obj_delete_failures_total");
  set(c.waited_stores, "kv_offload_obj_waited_stores_total");
  s3.breaker_open = true;
  expected["kv_offload_obj_breaker_open"] = 1;
  for (auto& n : s3.requests) n = static_cast<std::uint64_t>(next++);
  for (auto& n : s3.failures) n = static_cast<std::uint64_t>(next++);
  const double first_request = next - static_cast<double>(kNumS3Ops + kNumS3Failures);
  std::size_t requests = 0;
  std::size_t outcomes = 0;
  for (const MetricSample& sample : obj_metric_samples("1:obj", shared, config)) {
    INFO(sample.name);
    if (sample.name == "kv_offload_obj_requests_total") {
      CHECK(sample.labels[1].second == kS3OpNames[requests]);
      CHECK(sample.value == first_request + static_cast<double>(requests++));
    } else if (sample.name == "kv_offload_obj_answers_total") {
      CHECK(sample.labels[1].second == to_string(static_cast<S3Failure>(outcomes)));
      CHECK(sample.value == first_request + static_cast<double>(kNumS3Ops + outcomes++));
    } else {
      REQUIRE(expected.contains(sample.name));
      CHECK(sample.value == expected.at(sample.name));
      expected.erase(sample.name);
    }
  }
  CHECK(expected.empty());
}

}  // namespace
}  // namespace kv_offload
