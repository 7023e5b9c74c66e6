#include "kv_offload/tests/metrics/known_values.hpp"

#include <vector>

namespace kv_offload::test {
namespace {

const Values kSingleValues = {
    // 4096 chunks - 1024 free - 2000 evictable = 1072 busy, 304 of them being written.
    {"vllm:kv_offload_cpu_cache_usage_perc", 1072. / 4096},
    {"vllm:kv_offload_cpu_cache_write_usage_perc", 304. / 4096},
    {"vllm:kv_offload_cpu_cache_read_usage_perc", 768. / 4096},
    {"vllm:kv_offload_tiering_promotion_allocation_failures_total", 110},
    {"kv_offload_chunk_bytes", 4096},
    {"kv_offload_primary_chunks", 4096},
    {"kv_offload_primary_resident_chunks", 3003},
    {"kv_offload_primary_free_chunks", 1024},
    {"kv_offload_primary_evictable_chunks", 2000},
    {"kv_offload_primary_writing_chunks", 304},
    {"kv_offload_primary_pinned_chunks", 305},
    {"kv_offload_primary_held_chunks", 306},
    {"kv_offload_primary_quarantined_chunks", 307},
    {"kv_offload_primary_open_pins", 308},
    {"kv_offload_primary_open_holds", 309},
    {"kv_offload_primary_abandoned_pins", 310},
    {"kv_offload_primary_waiters", 311},
    {"kv_offload_primary_claims", 312},
    {"kv_offload_primary_evicted_chunks_total", 313},
    {"kv_offload_primary_refused_holds_total", 314},
    {"kv_offload_events_dropped_total", 315},
    {"kv_offload_primary_promoted_chunks_total", 316},
    {"kv_offload_primary_promoted_evicted_unread_chunks_total", 317},
    {"kv_offload_primary_expired_unread_holds_total", 318},
    {"kv_offload_primary_reused_in_use_chunks_total", 319},
    {"kv_offload_primary_identity_violated", 1},
    {"kv_offload_requests_started_total", 103},
    {"kv_offload_requests_ended_total", 104},
    {"kv_offload_live_requests", 105},
    {"kv_offload_open_calls", 106},
    {"kv_offload_open_leases", 107},
    {"kv_offload_allocation_failures_total", 109},
    {"kv_offload_device_stored_chunks_total", 111},
    {"kv_offload_device_loaded_chunks_total", 112},
    {"kv_offload_capped_store_chunks_total", 113},
    {"kv_offload_capped_load_chunks_total", 114},
    {"kv_offload_pending_promotion_chunks", 115},
    {"kv_offload_parked_cascade_chunks", 116},
    {"kv_offload_external_requests_total", 117},
    {"kv_offload_expired_external_calls_total", 118},
    {"kv_offload_forgotten_chunks_total{tier=\"0:primary\"}", 119},
    {"kv_offload_transfer_param_faults_total{part=\"not_an_object\"}", 120},
    {"kv_offload_transfer_param_faults_total{part=\"kv_load_tiers\"}", 121},
    {"kv_offload_transfer_param_faults_total{part=\"max_offload_tokens\"}", 122},
    {"kv_offload_transfer_param_faults_total{part=\"max_load_tokens\"}", 123},
    {"vllm:kv_offload_stores_skipped_total", 321},
    {"kv_offload_reuse_tracked_chunks", 322},
    {"kv_offload_jobs_numbered_total", 108},
    {"kv_offload_jobs_registered_total", 203},
    {"kv_offload_job_outcomes_total", 204},
    {"kv_offload_jobs_quiesced_total", 205},
    {"kv_offload_jobs_abandoned_total", 206},
    {"kv_offload_job_deadlines_total", 207},
    {"kv_offload_untimely_job_results_total{kind=\"late\"}", 208},
    {"kv_offload_untimely_job_results_total{kind=\"unknown\"}", 209},
    {"kv_offload_untimely_job_results_total{kind=\"stale\"}", 210},
    {"kv_offload_active_jobs", 211},
    {"kv_offload_admission_pressure_changes_total", 403},
    {"kv_offload_admission_stale_chunks_total", 404},
    {"kv_offload_admission_open_tickets", 405},
    {"kv_offload_admission_balance_violated", 1},
    {"kv_offload_actor_messages_total{actor=\"scheduler_step\"}", 101},
    {"kv_offload_actor_messages_total{actor=\"job_tracker\"}", 201},
    {"kv_offload_actor_messages_total{actor=\"primary_tier\"}", 301},
    {"kv_offload_actor_messages_total{actor=\"admission_controller\"}", 401},
    {"kv_offload_actor_messages_total{actor=\"engine_supervisor\"}", 501},
    {"kv_offload_actor_messages_total{actor=\"engine_metrics\"}", 601},
    {"kv_offload_actor_messages_total{actor=\"secondary_tier[1:fs]\"}", 1100},
    {"kv_offload_actor_messages_total{actor=\"secondary_tier[2:example]\"}", 2100},
    {"kv_offload_actor_foreign_executions_total{actor=\"scheduler_step\"}", 102},
    {"kv_offload_actor_foreign_executions_total{actor=\"job_tracker\"}", 202},
    {"kv_offload_actor_foreign_executions_total{actor=\"primary_tier\"}", 302},
    {"kv_offload_actor_foreign_executions_total{actor=\"admission_controller\"}", 402},
    {"kv_offload_actor_foreign_executions_total{actor=\"engine_supervisor\"}", 502},
    {"kv_offload_actor_foreign_executions_total{actor=\"engine_metrics\"}", 602},
    {"kv_offload_actor_foreign_executions_total{actor=\"secondary_tier[1:fs]\"}", 1101},
    {"kv_offload_actor_foreign_executions_total{actor=\"secondary_tier[2:example]\"}", 2101},
    {"kv_offload_domain_requests_started_total{domain=\"0\"}", 701},
    {"kv_offload_domain_requests_started_total{domain=\"1\"}", 801},
    {"kv_offload_domain_resident_chunks{domain=\"0\"}", 702},
    {"kv_offload_domain_resident_chunks{domain=\"1\"}", 802},
    {"kv_offload_domain_memory_planned_bytes{domain=\"0\"}", 705},
    {"kv_offload_domain_memory_planned_bytes{domain=\"1\"}", 805},
    {"kv_offload_domain_memory_near_bytes{domain=\"0\"}", 706},
    {"kv_offload_domain_memory_near_bytes{domain=\"1\"}", 806},
    {"kv_offload_domain_memory_elsewhere_bytes{domain=\"0\"}", 707},
    {"kv_offload_domain_memory_elsewhere_bytes{domain=\"1\"}", 807},
    {"kv_offload_domain_remote_chunks_total{domain=\"0\",direction=\"store\"}", 703},
    {"kv_offload_domain_remote_chunks_total{domain=\"1\",direction=\"store\"}", 803},
    {"kv_offload_domain_remote_chunks_total{domain=\"0\",direction=\"load\"}", 704},
    {"kv_offload_domain_remote_chunks_total{domain=\"1\",direction=\"load\"}", 804},
    {"kv_offload_tier_up{tier=\"1:fs\"}", 0},
    {"kv_offload_tier_up{tier=\"2:example\"}", 1},
    {"kv_offload_tier_disabled{tier=\"1:fs\"}", 0},
    {"kv_offload_tier_disabled{tier=\"2:example\"}", 1},
    {"vllm:kv_offload_tiering_primary_write_usage_perc{tier=\"1:fs\"}", 1078. / 4096},
    {"vllm:kv_offload_tiering_primary_write_usage_perc{tier=\"2:example\"}", 2078. / 4096},
    {"vllm:kv_offload_tiering_primary_read_usage_perc{tier=\"1:fs\"}", 1079. / 4096},
    {"vllm:kv_offload_tiering_primary_read_usage_perc{tier=\"2:example\"}", 2079. / 4096},
    {"kv_offload_metrics_left_out", 0},
};

struct PerTier {
  std::string name, more_labels;
  double above_base;
};

/// Labels {tier}, or {tier, direction}; base 1000 for 1:fs, 2000 for 2:example.
const std::vector<PerTier> kTierValues = {
    {"vllm:kv_offload_tiering_read_bytes_total", "", 70},
    {"vllm:kv_offload_tiering_write_bytes_total", "", 71},
    {"vllm:kv_offload_tiering_read_time_total", "", 72.5},
    {"vllm:kv_offload_tiering_write_time_total", "", 73.25},
    {"vllm:kv_offload_tiering_promotion_job_failures_total", "", 74},
    {"vllm:kv_offload_tiering_cascade_job_failures_total", "", 75},
    {"vllm:kv_offload_tiering_active_promotion_jobs", "", 76},
    {"vllm:kv_offload_tiering_active_cascade_jobs", "", 77},
    {"vllm:kv_offload_tiering_cascades_dropped_total", "", 2},
    {"vllm:kv_offload_tiering_promotions_dropped_total", "", 3},
    {"kv_offload_offered_chunks_total", ",direction=\"cascade\"", 1},
    {"kv_offload_offered_chunks_total", ",direction=\"promotion\"", 4},
    {"kv_offload_stored_chunks_total", "", 5},
    {"kv_offload_already_present_chunks_total", "", 6},
    {"kv_offload_loaded_chunks_total", "", 7},
    {"kv_offload_transferring_chunks", ",direction=\"promotion\"", 78},
    {"kv_offload_transferring_chunks", ",direction=\"cascade\"", 79},
    {"kv_offload_tier_quarantined_chunks", "", 80},
    {"kv_offload_tier_queued_jobs", "", 102},
    {"kv_offload_tier_running_jobs", "", 103},
    {"kv_offload_tier_open_probes", "", 104},
    {"kv_offload_unverified_chunks_total", "", 105},
    {"kv_offload_corrupt_chunks_total", "", 106},
    {"kv_offload_foreign_chunks_total", "", 107},
    {"kv_offload_probed_chunks_total", "", 108},
    {"kv_offload_tier_kept_verdicts", "", 109},
    {"kv_offload_tier_verdicts_full_total", "", 110},
    {"kv_offload_forgotten_chunks_total", "", 111},
    {"kv_offload_admission_offered_chunks_total", "", 81},
    {"kv_offload_admission_admitted_chunks_total", "", 82},
    {"kv_offload_admission_completed_chunks_total", "", 83},
    {"kv_offload_admission_withdrawn_chunks_total", "", 84},
    {"kv_offload_admission_erased_chunks_total", "", 85},
    {"kv_offload_admission_inflight_chunks", "", 86},
};

const std::vector<std::string> kRefusals = {
    "backpressure", "promotion_concurrency", "pin_share", "tier_disabled",   "payoff", "save_floor",
    "lookup_gate",  "write_budget",          "custom",    "circuit_breaker", "demand", "load_worth",
    "backlog"};
const std::vector<std::string> kFailures = {"io_error", "not_found", "corrupt",
                                            "foreign",  "no_space",  "cancelled",
                                            "deadline", "lane_dead", "stale_slot"};
const std::vector<std::string> kDrops = {"no_space", "hold_lost", "joined",  "jobs_full",
                                         "reset",    "shutdown",  "evicted", "deadline", "sibling"};
const std::vector<std::string> kGiveUps = {"deadline", "probes_full", "tier_down",
                                           "error",    "aborted",     "reset"};

void expect_reasons(Values& expected, const std::string& series,
                    const std::vector<std::string>& reasons, double first) {
  for (const auto& reason : reasons) expected[series + ",reason=\"" + reason + "\"}"] = first++;
}

void expect_tier(Values& expected, const std::string& label, double base) {
  const std::string tier = "{tier=\"" + label + "\"";
  for (const PerTier& row : kTierValues)
    expected[row.name + tier + row.more_labels + "}"] = base + row.above_base;
  const auto directed = [&](const std::string& name, const std::string& direction) {
    return name + tier + ",direction=\"" + direction + "\"";
  };
  const std::string refused = "kv_offload_refused_chunks_total";
  const std::string dropped = "kv_offload_dropped_chunks_total";
  const std::string failed = "kv_offload_failed_chunks_total";
  expect_reasons(expected, directed(refused, "cascade"), kRefusals, base + 11);
  expect_reasons(expected, directed(dropped, "cascade"), kDrops, base + 20);
  expect_reasons(expected, directed(refused, "promotion"), kRefusals, base + 31);
  expect_reasons(expected, directed(dropped, "promotion"), kDrops, base + 40);
  expect_reasons(expected, directed(failed, "cascade"), kFailures, base + 51);
  expect_reasons(expected, directed(failed, "promotion"), kFailures, base + 61);
  expect_reasons(expected, "kv_offload_admission_refused_chunks_total" + tier, kRefusals,
                 base + 91);
}

/// `step`, 2·step, 3·step, … samples fell into the buckets one after the other.
void expect_histogram(Values& expected, const std::string& name, const std::string& labels,
                      const std::vector<std::string>& bounds, double step, double sum) {
  double in_bucket = 0, count = 0;
  const std::string comma = labels.empty() ? "" : ",";
  for (const auto& bound : bounds) {
    in_bucket += step;
    count += in_bucket;
    expected[name + "_bucket{" + labels + comma + "le=\"" + bound + "\"}"] = count;
  }
  const std::string braced = labels.empty() ? "" : "{" + labels + "}";
  expected[name + "_count" + braced] = count;
  expected[name + "_sum" + braced] = sum;
}

/// Base 10000 for 0:primary, 20000 for 1:fs, 30000 for 2:example.
void expect_lookups(Values& expected, const std::string& label, double base) {
  const std::string tier = "tier=\"" + label + "\"";
  const auto put = [&](const std::string& name, double value) {
    expected[name + "{" + tier + "}"] = value;
  };
  put("kv_offload_looked_up_chunks_total", base + 1);
  put("kv_offload_hit_chunks_total", base + 2);
  put("kv_offload_missed_chunks_total", base + 3);
  put("vllm:kv_offload_tiering_chunk_queries_total", base + 4);
  put("vllm:kv_offload_tiering_chunk_hits_total", base + 5);
  put("kv_offload_queried_bytes_total", (base + 4) * 4096);
  put("kv_offload_hit_bytes_total", (base + 5) * 4096);
  put("kv_offload_queried_tokens_total", (base + 4) * 16);
  put("kv_offload_hit_tokens_total", (base + 5) * 16);
  expect_reasons(expected, "kv_offload_gave_up_chunks_total{" + tier, kGiveUps, base + 10);
  expect_histogram(expected, "vllm:kv_offload_tiering_lookup_sync_delay_seconds", tier,
                   {"1e-05", "5e-05", "0.0001", "0.0005", "0.001", "0.005", "0.01", "0.05", "0.1",
                    "0.5", "1", "+Inf"},
                   1, base + .25);
  if (label == "0:primary") return;  // it answers at once: nothing to wait for
  expect_histogram(
      expected, "vllm:kv_offload_tiering_lookup_async_delay_seconds", tier,
      {"0.0001", "0.0005", "0.001", "0.005", "0.01", "0.05", "0.1", "0.5", "1", "5", "10", "+Inf"},
      2, base + .5);
}

void expect_workers(Values& expected) {
  for (const auto& [direction, base] :
       {std::pair<std::string, double>{"store", 130}, {"load", 150}}) {
    const std::string labelled = "{direction=\"" + direction + "\"}";
    expected["kv_offload_worker_copies_started_total" + labelled] = base + 1;
    expected["kv_offload_worker_copies_failed_total" + labelled] = base + 3;
    expected["kv_offload_worker_open_copies" + labelled] = base + 4;
    expected["vllm:kv_offload_" + direction + "_bytes_total"] = base + 5;
    expected["vllm:kv_offload_" + direction + "_time_total"] = base + 6.5;
    expect_histogram(expected, "vllm:kv_offload_" + direction + "_size", "",
                     {"1000000", "5000000", "10000000", "20000000", "40000000", "60000000",
                      "80000000", "100000000", "150000000", "200000000", "+Inf"},
                     4, base + 7);
  }
  expected["kv_offload_worker_late_copies_total"] = 711;
  expected["kv_offload_worker_strange_frames_total"] = 712;
  for (int rank = 0; rank < 2; ++rank) {
    const std::string labelled = "{rank=\"" + std::to_string(rank) + "\"}";
    const double base = 720 + 10 * rank;
    expected["kv_offload_worker_joined" + labelled] = rank;
    expected["kv_offload_worker_joins_total" + labelled] = base + 1;
    expected["kv_offload_worker_deaths_total" + labelled] = base + 2;
    expected["kv_offload_worker_failed_jobs_total" + labelled] = base + 5;
    expected["kv_offload_worker_region_bytes" + labelled] = base + 6;
    expected["kv_offload_worker_registered_bytes" + labelled] = base + 7;
  }
}

}  // namespace

Values expected_values() {
  Values expected = kSingleValues;
  expect_tier(expected, "1:fs", 1000);
  expect_tier(expected, "2:example", 2000);
  expect_lookups(expected, "0:primary", 10'000);
  expect_lookups(expected, "1:fs", 20'000);
  expect_lookups(expected, "2:example", 30'000);
  expect_histogram(
      expected, "vllm:kv_offload_cpu_allocation_size", "",
      {"1", "4", "16", "64", "256", "1024", "4096", "16384", "65536", "262144", "+Inf"}, 3, 320);
  expect_workers(expected);
  return expected;
}

}  // namespace kv_offload::test
