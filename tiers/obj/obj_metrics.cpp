#include "kv_offload/tiers/obj/obj_metrics.hpp"

#include <cstddef>

namespace kv_offload {

std::vector<MetricDefinition> obj_metric_definitions() {
  const MetricKind counter = MetricKind::counter;
  const MetricKind gauge = MetricKind::gauge;
  const auto define = [](const char* name, MetricKind kind, const char* help, const char* label = nullptr) {
    MetricDefinition definition{name, kind, help, {"tier"}, {}};
    if (label != nullptr) definition.label_names.emplace_back(label);
    return definition;
  };
  return {
      define("kv_offload_obj_requests_total", counter, "Requests sent to the store, every attempt counted, by operation",
             "operation"),
      define("kv_offload_obj_answers_total", counter,
             "How attempts ended, by outcome: none is a success, breaker_open was not sent", "outcome"),
      define("kv_offload_obj_retries_total", counter, "Attempts after a first one"),
      define("kv_offload_obj_retries_denied_total", counter, "Attempts not made because the retry budget was spent"),
      define("kv_offload_obj_breaker_opened_total", counter, "Times the store was found not to work"),
      define("kv_offload_obj_breaker_open", gauge, "1 while the store is not asked because it failed too often"),
      define("kv_offload_obj_connections_total", counter, "Connections opened"),
      define("kv_offload_obj_in_flight_requests", gauge, "Requests in flight, or waiting for their next attempt"),
      define("kv_offload_obj_cached_verdicts_total", counter, "Probed keys answered without asking the store"),
      define("kv_offload_obj_credentials_renewed_total", counter, "Temporary credentials obtained"),
      define("kv_offload_obj_capacity_bytes", gauge, "Bytes that the objects may take; 0 without a bound"),
      define("kv_offload_obj_known_bytes", gauge, "Bytes of the objects that are known; with a capacity or a manifest"),
      define("kv_offload_obj_known_objects", gauge, "Objects that are known; with a capacity or a manifest"),
      define("kv_offload_obj_listed_objects_total", counter, "Objects seen in listings"),
      define("kv_offload_obj_evicted_chunks_total", counter, "Objects deleted for the capacity"),
      define("kv_offload_obj_evicted_bytes_total", counter, "Bytes of objects deleted for the capacity"),
      define("kv_offload_obj_delete_failures_total", counter, "Objects that the store did not delete"),
      define("kv_offload_obj_waited_stores_total", counter, "Chunks whose store waited for room"),
  };
}

std::vector<MetricSample> obj_metric_samples(const std::string& label, const ObjShared& shared,
                                             const ObjConfig& config) {
  std::vector<MetricSample> samples;
  const auto number = [](const std::atomic<std::uint64_t>& n) {
    return static_cast<double>(n.load(std::memory_order_relaxed));
  };
  const auto add = [&](const char* name, double value) { samples.push_back({name, {{"tier", label}}, value}); };
  const S3Counters& s3 = *shared.s3;
  for (std::size_t i = 0; i < kNumS3Ops; ++i)
    samples.push_back({"kv_offload_obj_requests_total",
                       {{"tier", label}, {"operation", std::string(kS3OpNames[i])}},
                       number(s3.requests[i])});
  for (std::size_t i = 0; i < kNumS3Failures; ++i)
    samples.push_back({"kv_offload_obj_answers_total",
                       {{"tier", label}, {"outcome", std::string(to_string(static_cast<S3Failure>(i)))}},
                       number(s3.failures[i])});
  add("kv_offload_obj_retries_total", number(s3.retries));
  add("kv_offload_obj_retries_denied_total", number(s3.retries_denied));
  add("kv_offload_obj_breaker_opened_total", number(s3.breaker_opened));
  add("kv_offload_obj_breaker_open", s3.breaker_open.load(std::memory_order_relaxed) ? 1 : 0);
  add("kv_offload_obj_connections_total", number(s3.connections));
  add("kv_offload_obj_in_flight_requests", number(s3.in_flight));
  const ObjCounters& c = shared.counters;
  add("kv_offload_obj_cached_verdicts_total", number(c.cached_verdicts));
  add("kv_offload_obj_credentials_renewed_total", number(c.credentials_renewed));
  add("kv_offload_obj_capacity_bytes", static_cast<double>(config.capacity_bytes.value_or(0)));
  add("kv_offload_obj_known_bytes", number(c.known_bytes));
  add("kv_offload_obj_known_objects", number(c.known_objects));
  add("kv_offload_obj_listed_objects_total", number(c.listed_objects));
  add("kv_offload_obj_evicted_chunks_total", number(c.evicted_chunks));
  add("kv_offload_obj_evicted_bytes_total", number(c.evicted_bytes));
  add("kv_offload_obj_delete_failures_total", number(c.delete_failures));
  add("kv_offload_obj_waited_stores_total", number(c.waited_stores));
  return samples;
}

}  // namespace kv_offload
