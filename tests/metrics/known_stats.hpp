#pragma once

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/messages/engine_stats.hpp"

namespace kv_offload::test {

/// A configuration whose engine shows every series that an engine can show.
inline EngineConfig config_with_everything() {
  EngineConfig config;
  config.tokens_per_chunk = 16;
  config.store_threshold = 2;
  config.workers = WorkersConfig{2, "@known", {}, std::chrono::seconds(1)};
  return config;
}

/// Labels known, nothing published yet: what a page is made of right after the start.
inline EngineStats unpublished_stats() {
  EngineStats stats;
  stats.tier_labels = {"0:primary", "1:fs", "2:example"};
  stats.chunk_bytes = 4096;
  stats.tokens_per_chunk = 16;
  stats.worker_ranks = 2;
  stats.domains.resize(2);
  return stats;
}

template <std::size_t N>
void fill(std::array<Amount, N>& amounts, std::uint64_t first) {
  for (std::size_t i = 0; i < N; ++i) amounts[i].chunks = first + i;
}

inline void fill_lookups(LookupTotals& l, std::uint64_t base) {
  l.looked_up = base + 1;
  l.hit = base + 2;
  l.miss = base + 3;
  l.chunk_queries = base + 4;
  l.chunk_hits = base + 5;
  for (std::size_t r = 0; r < kNumGiveUpReasons; ++r) l.gave_up[r] = base + 10 + r;
  l.sync_delay = Histogram({1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, .01, .05, .1, .5, 1});
  l.async_delay = Histogram({1e-4, 5e-4, 1e-3, 5e-3, .01, .05, .1, .5, 1, 5, 10});
  for (std::size_t i = 0; i < 12; ++i) {
    l.sync_delay.counts[i] = i + 1;
    l.async_delay.counts[i] = 2 * (i + 1);
  }
  l.sync_delay.sum = static_cast<double>(base) + .25;
  l.async_delay.sum = static_cast<double>(base) + .5;
}

inline void fill_offers(OfferTotals& o, std::uint64_t base) {
  o.cascades_offered.chunks = base + 1;
  o.cascade_jobs_refused = base + 2;
  o.promotions_refused_once = base + 3;
  o.promotions_offered.chunks = base + 4;
  fill(o.cascades_refused, base + 10);
  fill(o.cascades_dropped, base + 20);
  fill(o.promotions_refused, base + 30);
  fill(o.promotions_dropped, base + 40);
}

inline void fill_transfers(TransferTotals& t, std::uint64_t base) {
  t.stored.chunks = base + 5;
  t.already_present.chunks = base + 6;
  t.loaded.chunks = base + 7;
  fill(t.store_failed, base + 50);
  fill(t.load_failed, base + 60);
  t.read_bytes = base + 70;
  t.write_bytes = base + 71;
  t.read_time_s = static_cast<double>(base) + 72.5;
  t.write_time_s = static_cast<double>(base) + 73.25;
  t.promotion_job_failures = base + 74;
  t.cascade_job_failures = base + 75;
  t.active_promotion_jobs = base + 76;
  t.active_cascade_jobs = base + 77;
  t.active_promotion_chunks = base + 78;
  t.active_cascade_chunks = base + 79;
  t.quarantined_chunks = base + 80;
}

inline void fill_admission(AdmissionTierTotals& a, std::uint64_t base) {
  a.offered = base + 81;
  a.admitted = base + 82;
  a.completed = base + 83;
  a.withdrawn = base + 84;
  a.erased = base + 85;
  a.in_flight = base + 86;
  for (std::size_t r = 0; r < kNumRefusalReasons; ++r) a.refused[r] = base + 90 + r;
}

inline void fill_tier(TierActorTotals& t, std::uint64_t base) {
  t.actor = {base + 100, base + 101};
  t.queued_jobs = base + 102;
  t.running_jobs = base + 103;
  t.probes_open = base + 104;
  t.unverified_chunks = base + 105;
  t.corrupt_chunks = base + 106;
  t.foreign_refused = base + 107;
  t.probes = base + 108;
  t.verdicts = base + 109;
  t.verdicts_full = base + 110;
  t.forgotten_chunks = base + 111;
}

inline void fill_primary(PrimaryTotals& p) {
  p.actor = {301, 302};
  p.num_chunks = 4096;
  p.free = 1024;
  p.evictable = 2000;
  p.resident = 3003;
  p.write_pending = 304;
  p.pinned = 305;
  p.held = 306;
  p.quarantined = 307;
  p.pins_open = 308;
  p.holds_open = 309;
  p.pins_abandoned = 310;
  p.waiters = 311;
  p.claims = 312;
  p.evictions = 313;
  p.holds_refused = 314;
  p.events_dropped = 315;
  p.promoted = 316;
  p.promoted_evicted_unread = 317;
  p.pins_expired_unread = 318;
  p.reused_in_use = 319;
  p.stores_skipped = 321;
  p.reuse_tracked = 322;
  p.identity_violation = "free: 1024, recounted 1023";
  p.allocation_size = Histogram({1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144});
  for (std::size_t i = 0; i < 11; ++i) p.allocation_size.counts[i] = 3 * (i + 1);
  p.allocation_size.sum = 320;
}

inline void fill_copies(CopyTotals& c, std::uint64_t base) {
  c.started = base + 1;
  c.succeeded = base + 2;
  c.failed = base + 3;
  c.open = base + 4;
  c.bytes = base + 5;
  c.time_s = static_cast<double>(base) + 6.5;
  c.size = Histogram({1e6, 5e6, 1e7, 2e7, 4e7, 6e7, 8e7, 1e8, 1.5e8, 2e8});
  for (std::size_t i = 0; i < 11; ++i) c.size.counts[i] = 4 * (i + 1);
  c.size.sum = static_cast<double>(base) + 7;
}

inline void fill_workers(WorkerHubStats& w) {
  w.deadlines = 711;
  w.strange_frames = 712;
  w.ranks.resize(2);
  for (std::uint64_t r = 0; r < 2; ++r) {
    auto& rank = w.ranks[r];
    const std::uint64_t base = 720 + 10 * r;
    rank.joined = r == 1;
    rank.joins = base + 1;
    rank.deaths = base + 2;
    rank.stored_bytes = base + 3;
    rank.loaded_bytes = base + 4;
    rank.failed_jobs = base + 5;
    rank.region_bytes = base + 6;
    rank.registered_bytes = base + 7;
  }
}

/// Every number of an engine with two secondary tiers, each different from all others of its kind.
inline EngineStats known_stats() {
  EngineStats stats = unpublished_stats();
  SchedulerTotals& s = stats.scheduler;
  s.actor = {101, 102};
  s.requests_started = 103;
  s.requests_ended = 104;
  s.requests_live = 105;
  s.calls_open = 106;
  s.leases_open = 107;
  s.jobs_numbered = 108;
  s.allocation_failures = 109;
  s.promotion_allocation_failures = 110;
  s.device_stored_chunks = 111;
  s.device_loaded_chunks = 112;
  s.stores_capped_chunks = 113;
  s.loads_capped_chunks = 114;
  s.promotions_pending = 115;
  s.cascades_parked = 116;
  s.external_requests = 117;
  s.external_expired = 118;
  s.forgotten_chunks = 119;
  s.transfer_param_faults = {120, 121, 122, 123};
  fill_copies(s.store_copies, 130);
  fill_copies(s.load_copies, 150);
  fill_workers(s.workers);
  TrackerTotals& t = stats.tracker;
  t.actor = {201, 202};
  t.jobs_registered = 203;
  t.outcomes = 204;
  t.quiesced = 205;
  t.abandoned = 206;
  t.deadline_outcomes = 207;
  t.late_results = 208;
  t.unknown_results = 209;
  t.stale_results = 210;
  t.jobs_active = 211;
  AdmissionActorTotals& a = stats.admission;
  a.actor = {401, 402};
  a.pressure_epoch = 403;
  a.stale_tickets = 404;
  a.tickets_open = 405;
  a.balance_violation = "tier 1:fs: admitted 5, accounted for 4";
  stats.domains[0] = {{}, {}, 701, 702, 703, 704, {705, 706, 707}};
  stats.domains[1] = {{}, {}, 801, 802, 803, 804, {805, 806, 807}};
  stats.supervisor = {501, 502};
  stats.metrics = {601, 602};
  fill_primary(stats.primary);
  s.lookups.resize(3);
  for (std::size_t i = 0; i < 3; ++i) fill_lookups(s.lookups[i], 10'000 * (i + 1));
  s.offers.resize(2);
  t.tiers.resize(2);
  a.tiers.resize(2);
  stats.tiers.resize(2);
  for (std::size_t tier = 0; tier < 2; ++tier) {
    const std::uint64_t base = 1000 * (tier + 1);
    fill_offers(s.offers[tier], base);
    fill_transfers(t.tiers[tier], base);
    fill_admission(a.tiers[tier], base);
    fill_tier(stats.tiers[tier], base);
  }
  t.tiers[1].disabled = true;
  stats.tiers[0].alive = false;
  return stats;
}

}  // namespace kv_offload::test
