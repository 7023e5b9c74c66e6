#include "kv_offload/tests/metrics/driven_workloads.hpp"

#include "kv_offload/tests/metrics/driven_engine.hpp"

namespace kv_offload::test {
namespace {

using Definitions = std::vector<MetricDefinition>;

// -- there and back ------------------------------------------------------------------------------

/// Four chunks go to the tier and, after a reset, come back; a second request finds them in memory
/// and loads them.
Exposition there_and_back(Definitions& definitions) {
  DrivenEngine engine(64, R"("secondary_tiers": [{$0}])");
  const auto keys = keys_named('a', 6);
  const auto writer = engine.request("writer");
  engine.lookup(writer, first_of(keys, 4));  // four misses, twice: in memory and in the tier
  engine.store(writer, first_of(keys, 4));
  engine.finish(writer);
  engine.wait(engine->reset());
  const auto reader = engine.request("reader");
  engine.lookup(reader, keys);  // four hits in the tier, two misses
  engine.lookup(reader, keys);  // asked again: nothing resolves for the first time
  engine.finish(reader);
  const auto other = engine.request("other");
  engine.lookup(other, first_of(keys, 4));  // four hits in memory
  engine.wait(engine->complete_load(engine.prepare_load(other, first_of(keys, 4))));
  engine.wait(engine->allocated(other, 0));
  engine.lookup(other, keys_named('b', 3));  // allocated: its lookups count no more
  engine.finish(other);
  return engine.page(definitions);
}

const std::vector<Known> kThereAndBack = {
    {kTiering + "chunk_queries_total" + kP, 4 + 6 + 4},
    {kTiering + "chunk_hits_total" + kP, 4},
    {kTiering + "chunk_queries_total" + kT1, 4 + 6},
    {kTiering + "chunk_hits_total" + kT1, 4},
    {kTiering + "lookup_sync_delay_seconds_count" + kP, 14},
    {kTiering + "lookup_sync_delay_seconds_count" + kT1, 10},
    {kTiering + "lookup_async_delay_seconds_count" + kT1, 10},
    {kTiering + "lookup_async_delay_seconds_bucket" + kIn1 + "le=\"10\"}", 10},
    {kTiering + "write_bytes_total" + kT1, 4 * 4096},
    {kTiering + "read_bytes_total" + kT1, 4 * 4096},
    {kTiering + "write_time_total" + kT1, TierScript::kIoSeconds},
    {kTiering + "read_time_total" + kT1, TierScript::kIoSeconds},
    {kTiering + "promotion_job_failures_total" + kT1, 0},
    {kTiering + "cascade_job_failures_total" + kT1, 0},
    // One reservation of four by the store, four of one by the promotions.
    {kVllm + "cpu_allocation_size_count", 5},
    {kVllm + "cpu_allocation_size_sum", 8},
    {kVllm + "cpu_allocation_size_bucket{le=\"1\"}", 4},
    {kVllm + "cpu_allocation_size_bucket{le=\"4\"}", 5},
    {"kv_offload_queried_bytes_total" + kT1, 10 * 4096},
    {"kv_offload_hit_bytes_total" + kT1, 4 * 4096},
    {"kv_offload_queried_tokens_total" + kT1, 10 * 16},
    {"kv_offload_hit_tokens_total" + kT1, 4 * 16},
    {"kv_offload_chunk_bytes", 4096},
    {"kv_offload_primary_chunks", 64},
    {"kv_offload_primary_resident_chunks", 4},
    {"kv_offload_primary_free_chunks", 60},
    {"kv_offload_primary_evictable_chunks", 4},
    {"kv_offload_primary_promoted_chunks_total", 4},
    {"kv_offload_requests_started_total", 3},
    {"kv_offload_requests_ended_total", 3},
    {"kv_offload_device_stored_chunks_total", 4},
    {"kv_offload_device_loaded_chunks_total", 4},
    {"kv_offload_jobs_numbered_total", 2},
    {"kv_offload_jobs_registered_total", 2},
    {"kv_offload_job_outcomes_total", 2},
    {"kv_offload_jobs_quiesced_total", 2},
    {"kv_offload_offered_chunks_total" + kIn1 + "direction=\"cascade\"}", 4},
    {"kv_offload_offered_chunks_total" + kIn1 + "direction=\"promotion\"}", 4},
    {"kv_offload_stored_chunks_total" + kT1, 4},
    {"kv_offload_loaded_chunks_total" + kT1, 4},
    {"kv_offload_admission_offered_chunks_total" + kT1, 8},
    {"kv_offload_admission_admitted_chunks_total" + kT1, 8},
    {"kv_offload_admission_completed_chunks_total" + kT1, 8},
    {"kv_offload_looked_up_chunks_total" + kT1, 4 + 6, Known::at_least},
    {"kv_offload_hit_chunks_total" + kT1, 4},
    {"kv_offload_missed_chunks_total" + kT1, 4 + 2, Known::at_least},
    {"kv_offload_admission_pressure_changes_total", 1, Known::at_least},
    {"kv_offload_actor_messages_total{actor=\"scheduler_step\"}", 12, Known::at_least},
    {"kv_offload_tier_up" + kT1, 1},
    {"kv_offload_tier_disabled" + kT1, 0},
    // What stays 0 in every engine; that it would show is a matter of the page's own test.
    {"kv_offload_primary_reused_in_use_chunks_total", 0},
    {"kv_offload_primary_identity_violated", 0},
    {"kv_offload_admission_balance_violated", 0},
    {"kv_offload_metrics_left_out", 0},
    {"kv_offload_actor_foreign_executions_total{actor=\"scheduler_step\"}", 0},
};

// -- under way -----------------------------------------------------------------------------------

/// A cascade of three chunks and a promotion of two are open, one chunk is leased for a store and two
/// for a load.
Exposition under_way(Definitions& definitions) {
  DrivenEngine engine(64, R"("secondary_tiers": [{$0}])");
  const auto request = engine.request("r");
  engine.store(request, keys_named('l', 2));
  const auto load = engine.prepare_load(request, keys_named('l', 2));
  engine.tiers[0]->holds = true;
  engine.tiers[0]->hold_keys(keys_named('p', 2));
  engine.tiers[0]->stats.queued_jobs = 2;
  engine.tiers[0]->stats.running_jobs = 3;
  engine.store(request, keys_named('c', 3), false);
  const auto plan = engine.prepare_store(request, keys_named('w', 1));
  const auto holder = engine.request("holder");
  engine.lookup(holder, keys_named('l', 1));
  const auto open = engine.request("open");
  auto lookup = engine->lookup(open, keys_named('p', 2));
  engine.until([](const EngineStats& s) { return s.tracker.jobs_active == 2; });
  auto joiner = engine->lookup(engine.request("joiner"), keys_named('p', 1));
  engine.until([](const EngineStats& s) { return s.primary.waiters > 0; });
  const auto page = engine.page(definitions);
  engine.tiers[0]->release();
  engine.wait(std::move(lookup));
  engine.wait(std::move(joiner));
  engine.wait(engine->complete_load(load));
  engine.wait(engine->complete_store(plan.lease));
  return page;
}

const std::vector<Known> kUnderWay = {
    {kTiering + "active_cascade_jobs" + kT1, 1},
    {kTiering + "active_promotion_jobs" + kT1, 1},
    {kTiering + "primary_read_usage_perc" + kT1, 3. / 64},
    {kTiering + "primary_write_usage_perc" + kT1, 2. / 64},
    // Two leased and three cascading are read, two and one are written.
    {kVllm + "cpu_cache_usage_perc", 8. / 64},
    {kVllm + "cpu_cache_write_usage_perc", 3. / 64},
    {kVllm + "cpu_cache_read_usage_perc", 5. / 64},
    {"kv_offload_primary_writing_chunks", 3},
    {"kv_offload_primary_pinned_chunks", 5},
    {"kv_offload_primary_open_pins", 5},
    {"kv_offload_primary_claims", 2},
    {"kv_offload_transferring_chunks" + kIn1 + "direction=\"cascade\"}", 3},
    {"kv_offload_transferring_chunks" + kIn1 + "direction=\"promotion\"}", 2},
    {"kv_offload_active_jobs", 2},
    {"kv_offload_primary_waiters", 3},  // for two chunks, and for one of them again
    {"kv_offload_open_calls", 2},
    {"kv_offload_open_leases", 2},
    {"kv_offload_live_requests", 4},
    {"kv_offload_primary_held_chunks", 1},
    {"kv_offload_primary_open_holds", 1},
    {"kv_offload_admission_inflight_chunks" + kT1, 5},
    {"kv_offload_admission_open_tickets", 2},
    {"kv_offload_tier_queued_jobs" + kT1, 2},
    {"kv_offload_tier_running_jobs" + kT1, 3},
};

// -- failures ------------------------------------------------------------------------------------

/// A store of two chunks fails, a load of three does not find them; the tier counted what it met.
Exposition failures(Definitions& definitions) {
  DrivenEngine engine(64, R"("secondary_tiers": [{$0}])");
  TierScript& tier = *engine.tiers[0];
  tier.hold_keys(keys_named('p', 3));
  tier.stats.corrupt_chunks = 3;
  tier.stats.unverified_chunks = 4;
  tier.stats.foreign_refused = 5;
  tier.stats.probes = 6;
  const auto request = engine.request("r");
  tier.fails = TransferFailure::io_error;
  engine.store(request, keys_named('c', 2));
  tier.fails = TransferFailure::not_found;
  engine.lookup(request, keys_named('p', 3));
  JobResult bogus;  // of no job: what a tier with a bug may say
  bogus.job_id = JobId{0, 4711};
  tier.environment().sink->job_outcome(bogus);
  engine.until([](const EngineStats& s) { return s.tracker.unknown_results > 0; });
  return engine.page(definitions);
}

const std::vector<Known> kFailures = {
    {kTiering + "cascade_job_failures_total" + kT1, 1},
    {kTiering + "promotion_job_failures_total" + kT1, 1},
    {kTiering + "write_bytes_total" + kT1, 0},
    {kTiering + "read_bytes_total" + kT1, 0},
    {"kv_offload_failed_chunks_total" + kIn1 + "direction=\"cascade\",reason=\"io_error\"}", 2},
    {"kv_offload_failed_chunks_total" + kIn1 + "direction=\"promotion\",reason=\"not_found\"}", 3},
    {"kv_offload_corrupt_chunks_total" + kT1, 3},
    {"kv_offload_unverified_chunks_total" + kT1, 4},
    {"kv_offload_foreign_chunks_total" + kT1, 5},
    {"kv_offload_probed_chunks_total" + kT1, 6},
    {"kv_offload_untimely_job_results_total{kind=\"unknown\"}", 1},
};

// -- refused -------------------------------------------------------------------------------------

/// One tier may pin nothing; from the other, one chunk may be promoted at a time.
Exposition refused(Definitions& definitions) {
  DrivenEngine engine(64, R"("secondary_tiers": [{$0, "pin_share": 0}, {$1, "pin_share": 0.4}],
      "admission_policy": {"type": "promotion_concurrency", "max_inflight_promotions": 1})");
  engine.tiers[1]->hold_keys(keys_named('p', 2));
  const auto request = engine.request("r");
  engine.store(request, keys_named('c', 3));
  engine.lookup(request, keys_named('p', 2));
  return engine.page(definitions);
}

const std::vector<Known> kRefused = {
    {kTiering + "cascades_dropped_total" + kT1, 1},
    {kTiering + "cascades_dropped_total{tier=\"2:test-driven\"}", 0},
    {kTiering + "promotions_dropped_total" + kT1, 0},
    {kTiering + "promotions_dropped_total{tier=\"2:test-driven\"}", 1},
    {"kv_offload_refused_chunks_total" + kIn1 + "direction=\"cascade\",reason=\"pin_share\"}", 3},
    {"kv_offload_refused_chunks_total{tier=\"2:test-driven\",direction=\"promotion\",reason="
     "\"promotion_concurrency\"}",
     1},
    {"kv_offload_admission_refused_chunks_total" + kIn1 + "reason=\"pin_share\"}", 3},
};

// -- backpressure --------------------------------------------------------------------------------

/// A store of four chunks claims to have taken one second; the next, of three, is refused. A chunk is
/// 1/256 MiB: four in one second are 64 s/MiB.
Exposition backpressure(Definitions& definitions) {
  DrivenEngine engine(64, R"("admission_policy": {"type": "cascade_backpressure",
      "warmup_completions": 1, "high_water_s": 100, "low_water_s": 99}, "secondary_tiers": [{$0,
      "backpressure": {"warmup_completions": 0, "alpha": 1, "decay_half_life_s": -1,
                       "policy": {"type": "drop"}}}])");
  engine.tiers[0]->latency_s = 1.0;
  const auto request = engine.request("r");
  engine.store(request, keys_named('a', 4));
  engine.until([](const EngineStats& s) { return s.tracker.jobs_active == 0; });
  engine.store(request, keys_named('b', 3));
  return engine.page(definitions);
}

const std::vector<Known> kBackpressure = {
    {kTiering + "backpressure_active" + kT1, 1},
    {kTiering + "backpressure_stores_dropped_total" + kT1, 1},
    {kTiering + "backpressure_blocks_dropped_total" + kT1, 3},
    {kTiering + "backpressure_store_latency_ema" + kT1, 64, .25},
    {kTiering + "store_latency_ema" + kT1, .3, .25},  // from 0, weight .3
    {kTiering + "cascades_dropped_total" + kT1, 1},
    {"kv_offload_refused_chunks_total" + kIn1 + "direction=\"cascade\",reason=\"backpressure\"}",
     3},
};

// -- twice ---------------------------------------------------------------------------------------

/// Three chunks are stored, forgotten in memory, and stored again: the tier has them.
Exposition twice(Definitions& definitions) {
  DrivenEngine engine(64, R"("secondary_tiers": [{$0}])");
  const auto request = engine.request("r");
  engine.store(request, keys_named('a', 3));
  engine.wait(engine->reset());
  engine.store(request, keys_named('a', 3));
  return engine.page(definitions);
}

const std::vector<Known> kTwice = {
    {"kv_offload_stored_chunks_total" + kT1, 3},
    {"kv_offload_already_present_chunks_total" + kT1, 3},
    {kTiering + "write_bytes_total" + kT1, 3 * 4096},
};

/// A reset does not wait longer than its deadline for a cascade of three chunks, which ends after it.
Exposition outlived(Definitions& definitions) {
  DrivenEngine engine(64, R"("secondary_tiers": [{$0}], "deadlines": {"drain_ms": 50})");
  engine.tiers[0]->holds = true;
  const auto request = engine.request("r");
  engine.store(request, keys_named('c', 3), false);
  engine.until([](const EngineStats& s) { return s.tracker.jobs_active == 1; });
  (void)engine->reset().get();
  engine.tiers[0]->release();
  engine.until([](const EngineStats& s) { return s.tracker.jobs_active == 0; });
  return engine.page(definitions);
}

const std::vector<Known> kOutlived = {
    {"kv_offload_untimely_job_results_total{kind=\"stale\"}", 1},
    {"kv_offload_admission_erased_chunks_total" + kT1, 3},
    {"kv_offload_admission_stale_chunks_total", 3},
};

// -- too late, and never -------------------------------------------------------------------------

/// A load of two chunks is given up by its deadline; its result comes afterwards.
Exposition too_late(Definitions& definitions) {
  DrivenEngine engine(64, R"("secondary_tiers": [{$0}], "deadlines": {"load_ms": 100})");
  engine.tiers[0]->hold_keys(keys_named('p', 2));
  engine.tiers[0]->holds = true;
  engine.lookup(engine.request("r"), keys_named('p', 2));
  engine.tiers[0]->release();
  engine.until([](const EngineStats& s) { return s.tracker.late_results > 0; });
  return engine.page(definitions);
}

const std::vector<Known> kTooLate = {
    {"kv_offload_job_deadlines_total", 1},
    {"kv_offload_untimely_job_results_total{kind=\"late\"}", 1},
    {"kv_offload_failed_chunks_total" + kIn1 + "direction=\"promotion\",reason=\"deadline\"}", 2},
    {"kv_offload_tier_quarantined_chunks" + kT1, 0},
};

/// As before, while the I/O may still touch the slots.
Exposition quarantined(Definitions& definitions) {
  DrivenEngine engine(64, R"("secondary_tiers": [{$0}], "deadlines": {"load_ms": 100})");
  engine.tiers[0]->hold_keys(keys_named('p', 2));
  engine.tiers[0]->holds = true;
  engine.lookup(engine.request("r"), keys_named('p', 2));
  const auto page = engine.page(definitions);
  engine.tiers[0]->release();
  return page;
}

const std::vector<Known> kQuarantined = {
    {"kv_offload_tier_quarantined_chunks" + kT1, 2},
    {"kv_offload_primary_quarantined_chunks", 2},
};

/// The lane dies under a cascade of three chunks; what is offered and asked afterwards is turned away.
Exposition lane_died(Definitions& definitions) {
  DrivenEngine engine(64, R"("secondary_tiers": [{$0}])");
  engine.tiers[0]->holds = true;
  const auto request = engine.request("r");
  engine.store(request, keys_named('c', 3), false);
  engine.until([](const EngineStats& s) { return s.tracker.jobs_active > 0; });
  engine.tiers[0]->environment().sink->lane_died("told to");
  engine.until([](const EngineStats& s) { return s.tracker.abandoned > 0; });
  engine.lookup(request, keys_named('x', 2));
  return engine.page(definitions);
}

const std::vector<Known> kLaneDied = {
    {"kv_offload_jobs_abandoned_total", 1},
    {"kv_offload_tier_up" + kT1, 0},
    {"kv_offload_tier_disabled" + kT1, 1},
    {"kv_offload_primary_abandoned_pins", 3},
    {"kv_offload_gave_up_chunks_total" + kIn1 + "reason=\"tier_down\"}", 2},
};

}  // namespace

std::vector<Workload> transfer_workloads() {
  return {
      {"there and back", there_and_back, kThereAndBack},
      {"under way", under_way, kUnderWay},
      {"failures", failures, kFailures},
      {"refused", refused, kRefused},
      {"backpressure", backpressure, kBackpressure},
      {"twice", twice, kTwice},
      {"outlived", outlived, kOutlived},
      {"too late", too_late, kTooLate},
      {"quarantined", quarantined, kQuarantined},
      {"lane died", lane_died, kLaneDied},
  };
}

}  // namespace kv_offload::test
