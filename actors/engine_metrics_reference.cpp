#include "kv_offload/actors/engine_config_fields.hpp"
#include "kv_offload/actors/engine_metrics_series.hpp"

#include <algorithm>

// Series that dashboards of the reference know: names, kinds, labels, bounds and moments are fixed.
namespace kv_offload {
namespace {

const std::vector<double> kSyncDelayBounds = {1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3,
                                              .01,  .05,  .1,   .5,   1};
const std::vector<double> kAsyncDelayBounds = {1e-4, 5e-4, 1e-3, 5e-3, .01, .05, .1, .5, 1, 5, 10};
const std::vector<double> kAllocationSizeBounds = {1,    4,    16,    64,    256,
                                                   1024, 4096, 16384, 65536, 262144};

double share(double chunks, const PrimaryTotals& p) {
  return p.num_chunks == 0 ? 0 : chunks / static_cast<double>(p.num_chunks);
}

/// Neither free nor evictable: pinned, held, being written or quarantined.
double usage(const PrimaryTotals& p) {
  const std::uint64_t idle = std::min(p.free + p.evictable, p.num_chunks);
  return share(static_cast<double>(p.num_chunks - idle), p);
}

bool has_store_threshold(const EngineConfig& config) {
  return config.store_threshold >= config_fields::kStoreThresholdMin;
}

double write_usage(const PrimaryTotals& p) {
  return share(static_cast<double>(p.write_pending), p);
}

double read_usage(const PrimaryTotals& p) { return std::max(usage(p) - write_usage(p), 0.0); }

/// Share of the primary tier, by tier.
ReadPoints each_tier_share(std::uint64_t TransferTotals::*chunks) {
  return [read = each_tier(chunks)](const EngineStats& stats) {
    auto points = read(stats);
    for (auto& point : points) point.value = share(point.value, stats.primary);
    return points;
  };
}

std::vector<EngineSeries> cache_series() {
  return {
      gauge("vllm:kv_offload_cpu_cache_usage_perc",
            "share (0 to 1) of the primary tier's chunks that are pinned, held, being written or "
            "quarantined; an idle cache reads 0 even when full, see "
            "kv_offload_primary_resident_chunks",
            {}, one<PrimaryTotals>(usage)),
      gauge("vllm:kv_offload_cpu_cache_write_usage_perc",
            "share (0 to 1) of the primary tier's chunks that are being written by the device or "
            "by promotions",
            {}, one<PrimaryTotals>(write_usage)),
      gauge("vllm:kv_offload_cpu_cache_read_usage_perc",
            "share (0 to 1) of the primary tier's chunks that are kept for reading: the usage "
            "without the part being written",
            {}, one<PrimaryTotals>(read_usage)),
      histogram("vllm:kv_offload_cpu_allocation_size",
                "Size of a reservation in the primary tier, in chunks, granted or not",
                "it is asked for; a promotion asks for each chunk by itself", {},
                kAllocationSizeBounds, one(&PrimaryTotals::allocation_size)),
      only_if(has_store_threshold,
              counter("vllm:kv_offload_stores_skipped_total",
                      "Chunks not stored because they were looked up less often than "
                      "store_threshold",
                      "prepare_store is called", {}, one(&PrimaryTotals::stores_skipped))),
  };
}

std::vector<EngineSeries> lookup_series() {
  const std::string first_resolved =
      "a request's key first resolves as hit or miss in the tier, before the request is allocated";
  return {
      counter("vllm:kv_offload_tiering_chunk_queries_total", "Chunks looked up", first_resolved,
              {"tier"}, each_lookup(&LookupTotals::chunk_queries)),
      counter("vllm:kv_offload_tiering_chunk_hits_total", "Chunks found", first_resolved, {"tier"},
              each_lookup(&LookupTotals::chunk_hits)),
      histogram("vllm:kv_offload_tiering_lookup_sync_delay_seconds",
                "Time that the caller's lookup was busy with one chunk, in seconds", first_resolved,
                {"tier"}, kSyncDelayBounds, each_lookup(&LookupTotals::sync_delay)),
      histogram("vllm:kv_offload_tiering_lookup_async_delay_seconds",
                "Time from the probe of one chunk to the verdict of a secondary tier, in seconds",
                first_resolved, {"tier"}, kAsyncDelayBounds,
                each_lookup(&LookupTotals::async_delay, 1)),
  };
}

std::vector<EngineSeries> transfer_series() {
  const std::string promotion_ends = "a promotion job ends";
  const std::string cascade_ends = "a cascade job ends";
  return {
      counter("vllm:kv_offload_tiering_read_bytes_total",
              "Bytes read from the tier into the primary tier", promotion_ends, {"tier"},
              each_tier(&TransferTotals::read_bytes)),
      counter("vllm:kv_offload_tiering_write_bytes_total",
              "Bytes written from the primary tier to the tier", cascade_ends, {"tier"},
              each_tier(&TransferTotals::write_bytes)),
      counter("vllm:kv_offload_tiering_read_time_total",
              "Time of reading from the tier without queueing, in seconds summed over concurrent "
              "transfers",
              promotion_ends, {"tier"}, each_tier(&TransferTotals::read_time_s)),
      counter("vllm:kv_offload_tiering_write_time_total",
              "Time of writing to the tier without queueing, in seconds summed over concurrent "
              "transfers",
              cascade_ends, {"tier"}, each_tier(&TransferTotals::write_time_s)),
      counter("vllm:kv_offload_tiering_promotion_job_failures_total",
              "Promotion jobs that lost at least one chunk", promotion_ends, {"tier"},
              each_tier(&TransferTotals::promotion_job_failures)),
      counter("vllm:kv_offload_tiering_cascade_job_failures_total",
              "Cascade jobs that lost at least one chunk", cascade_ends, {"tier"},
              each_tier(&TransferTotals::cascade_job_failures)),
      counter("vllm:kv_offload_tiering_promotion_allocation_failures_total",
              "Lookups with a hit in a secondary tier that got no chunk in the primary tier",
              "the lookup's reservation is answered", {},
              one(&SchedulerTotals::promotion_allocation_failures)),
      gauge("vllm:kv_offload_tiering_primary_write_usage_perc",
            "share (0 to 1) of the primary tier's chunks that promotion jobs from the tier write",
            {"tier"}, each_tier_share(&TransferTotals::active_promotion_chunks)),
      gauge("vllm:kv_offload_tiering_primary_read_usage_perc",
            "share (0 to 1) of the primary tier's chunks that cascade jobs to the tier read; a "
            "chunk on its way to two tiers is in both",
            {"tier"}, each_tier_share(&TransferTotals::active_cascade_chunks)),
      gauge("vllm:kv_offload_tiering_active_promotion_jobs",
            "promotion jobs registered and not quiesced", {"tier"},
            each_tier(&TransferTotals::active_promotion_jobs)),
      gauge("vllm:kv_offload_tiering_active_cascade_jobs",
            "cascade jobs registered and not quiesced", {"tier"},
            each_tier(&TransferTotals::active_cascade_jobs)),
      counter("vllm:kv_offload_tiering_cascades_dropped_total",
              "Cascade jobs that admission refused, see kv_offload_refused_chunks_total",
              "the job is refused", {"tier"}, each_tier(&OfferTotals::cascade_jobs_refused)),
      counter("vllm:kv_offload_tiering_promotions_dropped_total",
              "Chunks whose promotion admission refused, see kv_offload_refused_chunks_total",
              "a request's chunk is refused for the first time", {"tier"},
              each_tier(&OfferTotals::promotions_refused_once)),
  };
}

}  // namespace

std::vector<EngineSeries> reference_series() {
  std::vector<EngineSeries> table = cache_series();
  for (auto part : {lookup_series, transfer_series})
    for (auto& row : part()) table.push_back(std::move(row));
  return table;
}

}  // namespace kv_offload
