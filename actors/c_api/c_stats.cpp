// The engine's counters as one JSON object. A document grows without a new ABI.
#include "kv_offload/actors/c_api/c_api_entry.hpp"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <cstring>
#include <numeric>

using namespace kv_offload;
using namespace kv_offload::c_api;

namespace {

using Json = nlohmann::ordered_json;

/// Amounts by reason; reasons that never were are left out.
template <class Reason, std::size_t N>
Json by_reason(const std::array<Amount, N>& amounts) {
  auto object = Json::object();
  for (std::size_t i = 0; i < N; ++i)
    if (amounts[i].chunks > 0) object[std::string(to_string(static_cast<Reason>(i)))] = amounts[i].chunks;
  return object;
}

template <std::size_t N>
std::uint64_t sum(const std::array<std::uint64_t, N>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

Json lookups_of(const LookupTotals& totals) {
  return Json{{"looked_up", totals.looked_up}, {"hit", totals.hit}, {"miss", totals.miss}, {"gave_up", sum(totals.gave_up)}};
}

Json tier_of(const EngineStats& stats, std::size_t t) {
  const auto& moved = stats.tracker.tiers[t];
  const auto& offers = stats.scheduler.offers[t];
  Json tier{{"lookups", lookups_of(stats.scheduler.lookups[t + 1])},
            {"stored_chunks", moved.stored.chunks},
            {"already_present_chunks", moved.already_present.chunks},
            {"store_failed_chunks", by_reason<TransferFailure>(moved.store_failed)},
            {"loaded_chunks", moved.loaded.chunks},
            {"load_failed_chunks", by_reason<TransferFailure>(moved.load_failed)},
            {"read_bytes", moved.read_bytes},
            {"write_bytes", moved.write_bytes},
            {"offered_chunks", offers.cascades_offered.chunks},
            {"refused_chunks", by_reason<RefusalReason>(offers.cascades_refused)},
            {"dropped_chunks", by_reason<DropReason>(offers.cascades_dropped)},
            {"disabled", moved.disabled}};
  if (t < stats.tiers.size()) {
    tier["corrupt_chunks"] = stats.tiers[t].corrupt_chunks;
    tier["unverified_chunks"] = stats.tiers[t].unverified_chunks;
  }
  return tier;
}

Json copies_of(const CopyTotals& copies) {
  return {{"started", copies.started}, {"succeeded", copies.succeeded}, {"failed", copies.failed}, {"open", copies.open},
          {"bytes", copies.bytes},     {"seconds", copies.time_s}};
}

Json workers_of(const SchedulerTotals& scheduler) {
  Json ranks = Json::array();
  for (const auto& rank : scheduler.workers.ranks)
    ranks.push_back({{"joined", rank.joined},
                     {"pid", rank.pid},
                     {"joins", rank.joins},
                     {"deaths", rank.deaths},
                     {"stored_bytes", rank.stored_bytes},
                     {"loaded_bytes", rank.loaded_bytes},
                     {"failed_jobs", rank.failed_jobs},
                     {"region_bytes", rank.region_bytes},
                     {"registered_bytes", rank.registered_bytes}});
  return {{"stores", copies_of(scheduler.store_copies)},
          {"loads", copies_of(scheduler.load_copies)},
          {"late", scheduler.workers.deadlines},
          {"ranks", std::move(ranks)}};
}

Json document(const EngineStats& stats) {
  Json tiers = Json::object();
  for (std::size_t t = 0; t < stats.tracker.tiers.size(); ++t) tiers[stats.tier_labels.at(t + 1)] = tier_of(stats, t);
  const auto& p = stats.primary;
  return Json{{"requests", {{"started", stats.scheduler.requests_started}, {"live", stats.scheduler.requests_live}}},
              {"calls_open", stats.scheduler.calls_open},
              {"leases_open", stats.scheduler.leases_open},
              {"jobs_active", stats.tracker.jobs_active},
              {"primary",
               {{"chunks", p.num_chunks},
                {"row_bytes", stats.chunk_bytes},
                {"resident", p.resident},
                {"free", p.free},
                {"pinned", p.pinned},
                {"held", p.held},
                {"quarantined", p.quarantined},
                {"evictions", p.evictions},
                {"stored_chunks", stats.scheduler.device_stored_chunks},
                {"loaded_chunks", stats.scheduler.device_loaded_chunks},
                {"no_space", stats.scheduler.allocation_failures},
                {"lookups", lookups_of(stats.scheduler.lookups.at(0))}}},
              {"workers", workers_of(stats.scheduler)},
              {"tiers", std::move(tiers)}};
}

}  // namespace

int kvo_stats_json(kvo_engine* engine, char** text) {
  return enter(engine, Waits::yes, [&](OffloadEngine& e) {
    if (text == nullptr) return not_allowed("text", "NULL", "where to put it");
    *text = nullptr;
    const auto stats = e.stats().get();
    if (!stats) return code_of(stats);
    const auto json = document(*stats).dump();
    *text = static_cast<char*>(std::malloc(json.size() + 1));
    if (*text == nullptr) return fail(KVO_OUT_OF_MEMORY, "out of memory");
    std::memcpy(*text, json.c_str(), json.size() + 1);
    return static_cast<int>(KVO_OK);
  });
}

void kvo_free_text(char* text) { std::free(text); }
