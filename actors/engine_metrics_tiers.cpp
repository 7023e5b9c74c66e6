#include "kv_offload/actors/engine_metrics_series.hpp"

// What each tier did, in chunks. In every direction:
// offered = refused + dropped + failed + stored or loaded (+ already present) + under way.
namespace kv_offload {
namespace {

constexpr std::size_t kFirstReason = 1;  // 0 is "none"

/// chunk_queries or chunk_hits times what a chunk holds: bytes of a row, tokens.
template <class Size>
ReadPoints lookup_size(std::uint64_t LookupTotals::*chunks, Size EngineStats::*size) {
  return [read = each_lookup(chunks), size](const EngineStats& stats) {
    auto points = read(stats);
    for (auto& point : points) point.value *= static_cast<double>(stats.*size);
    return points;
  };
}

bool knows_tokens(const EngineConfig& config) { return config.tokens_per_chunk > 0; }

std::vector<MetricPoint> forgotten(const EngineStats& stats) {
  std::vector<MetricPoint> points;
  for (std::size_t i = 0; i < stats.tier_labels.size(); ++i)
    points.push_back(
        {{stats.tier_labels[i]},
         static_cast<double>(i == 0 ? stats.scheduler.forgotten_chunks
                                    : totals_of<TierActorTotals>(stats, i - 1).forgotten_chunks),
         nullptr});
  return points;
}

std::vector<MetricPoint> gave_up(const EngineStats& stats) {
  std::vector<MetricPoint> points;
  for (std::size_t i = 0; i < stats.tier_labels.size(); ++i)
    for (std::size_t r = 0; r < kNumGiveUpReasons; ++r)
      points.push_back(
          {{stats.tier_labels[i], std::string(to_string(static_cast<GiveUpReason>(r)))},
           static_cast<double>(at_or_zero(stats.scheduler.lookups, i).gave_up[r]),
           nullptr});
  return points;
}

std::vector<EngineSeries> looked_up_series() {
  const std::string lookup_ends = "the lookup ends";
  const std::string first_resolved =
      "a request's key first resolves in the tier, before the request is allocated";
  return {
      counter("kv_offload_looked_up_chunks_total",
              "Chunks that lookups asked the tier for: hit, missed or gave up", lookup_ends,
              {"tier"}, each_lookup(&LookupTotals::looked_up)),
      counter("kv_offload_hit_chunks_total", "Chunks that the tier had", lookup_ends, {"tier"},
              each_lookup(&LookupTotals::hit)),
      counter("kv_offload_missed_chunks_total", "Chunks that the tier had not", lookup_ends,
              {"tier"}, each_lookup(&LookupTotals::miss)),
      counter("kv_offload_gave_up_chunks_total",
              "Chunks for which the tier gave neither hit nor miss", lookup_ends,
              {"tier", "reason"}, gave_up),
      counter("kv_offload_queried_bytes_total",
              "vllm:kv_offload_tiering_chunk_queries_total in bytes", first_resolved, {"tier"},
              lookup_size(&LookupTotals::chunk_queries, &EngineStats::chunk_bytes)),
      counter("kv_offload_hit_bytes_total", "vllm:kv_offload_tiering_chunk_hits_total in bytes",
              first_resolved, {"tier"},
              lookup_size(&LookupTotals::chunk_hits, &EngineStats::chunk_bytes)),
      only_if(knows_tokens,
              counter("kv_offload_queried_tokens_total",
                      "vllm:kv_offload_tiering_chunk_queries_total in tokens", first_resolved,
                      {"tier"},
                      lookup_size(&LookupTotals::chunk_queries, &EngineStats::tokens_per_chunk))),
      only_if(knows_tokens,
              counter("kv_offload_hit_tokens_total",
                      "vllm:kv_offload_tiering_chunk_hits_total in tokens", first_resolved,
                      {"tier"},
                      lookup_size(&LookupTotals::chunk_hits, &EngineStats::tokens_per_chunk))),
  };
}

std::vector<EngineSeries> offered_series() {
  return {
      counter("kv_offload_offered_chunks_total", "Chunks offered to the tier for transfer",
              "they are offered", {"tier", "direction"},
              each_direction(&OfferTotals::cascades_offered, &OfferTotals::promotions_offered)),
      counter("kv_offload_refused_chunks_total", "Offered chunks that admission said no to",
              "it decides", {"tier", "direction", "reason"},
              each_reason<RefusalReason>(kFirstReason, &OfferTotals::cascades_refused,
                                         &OfferTotals::promotions_refused)),
      counter("kv_offload_dropped_chunks_total",
              "Offered chunks given up under pressure, without an I/O error", "they are given up",
              {"tier", "direction", "reason"},
              each_reason<DropReason>(0, &OfferTotals::cascades_dropped,
                                      &OfferTotals::promotions_dropped)),
      counter("kv_offload_failed_chunks_total", "Chunks of jobs that did not arrive",
              "their job ends", {"tier", "direction", "reason"},
              each_reason<TransferFailure>(kFirstReason, &TransferTotals::store_failed,
                                           &TransferTotals::load_failed)),
      counter("kv_offload_stored_chunks_total", "Chunks written to the tier",
              "their cascade job ends", {"tier"}, each_tier(&TransferTotals::stored)),
      counter("kv_offload_already_present_chunks_total",
              "Chunks of cascade jobs that the tier had, without moving a byte",
              "their cascade job ends", {"tier"}, each_tier(&TransferTotals::already_present)),
      counter("kv_offload_loaded_chunks_total", "Chunks read from the tier and verified",
              "their promotion job ends", {"tier"}, each_tier(&TransferTotals::loaded)),
      gauge("kv_offload_transferring_chunks", "chunks of jobs registered and not quiesced",
            {"tier", "direction"},
            each_direction(&TransferTotals::active_cascade_chunks,
                           &TransferTotals::active_promotion_chunks)),
      gauge("kv_offload_tier_quarantined_chunks",
            "chunks of jobs that ended but whose I/O may still touch the primary tier", {"tier"},
            each_tier(&TransferTotals::quarantined_chunks)),
  };
}

std::vector<EngineSeries> health_series() {
  return {
      gauge("kv_offload_tier_up", "1 while the tier serves, 0 once its I/O thread is gone",
            {"tier"}, each_tier(&TierActorTotals::alive)),
      gauge("kv_offload_tier_disabled", "1 while the tier gets no new transfer jobs", {"tier"},
            each_tier(&TransferTotals::disabled)),
      gauge("kv_offload_tier_queued_jobs", "jobs that the tier accepted and did not start",
            {"tier"}, each_tier(&TierActorTotals::queued_jobs)),
      gauge("kv_offload_tier_running_jobs", "jobs that the tier is transferring", {"tier"},
            each_tier(&TierActorTotals::running_jobs)),
      gauge("kv_offload_tier_open_probes", "probes of the tier without a verdict", {"tier"},
            each_tier(&TierActorTotals::probes_open)),
      counter("kv_offload_probed_chunks_total", "Chunks whose presence the tier looked up itself",
              "the tier answers", {"tier"}, each_tier(&TierActorTotals::probes)),
      counter("kv_offload_corrupt_chunks_total",
              "Chunks read with a wrong digest or length, never served", "they are read", {"tier"},
              each_tier(&TierActorTotals::corrupt_chunks)),
      counter("kv_offload_unverified_chunks_total",
              "Chunks of other writers, served without a digest of ours", "they are read", {"tier"},
              each_tier(&TierActorTotals::unverified_chunks)),
      counter("kv_offload_foreign_chunks_total",
              "Chunks of other writers, refused for want of a digest of ours", "they are met",
              {"tier"}, each_tier(&TierActorTotals::foreign_refused)),
      counter("kv_offload_forgotten_chunks_total",
              "Chunks removed by forget; one in use counts although it goes later",
              "they are forgotten", {"tier"}, forgotten),
      gauge("kv_offload_tier_kept_verdicts",
            "chunks whose presence in the tier is remembered for requests that poll", {"tier"},
            each_tier(&TierActorTotals::verdicts)),
      counter("kv_offload_tier_verdicts_full_total",
              "Chunks that found no room for their verdict, of requests that poll",
              "they are looked up", {"tier"}, each_tier(&TierActorTotals::verdicts_full)),
  };
}

}  // namespace

std::vector<EngineSeries> tier_series() {
  std::vector<EngineSeries> table = looked_up_series();
  for (auto part : {offered_series, health_series})
    for (auto& row : part()) table.push_back(std::move(row));
  return table;
}

}  // namespace kv_offload
