#include "kv_offload/actors/engine_config_fields.hpp"
#include "kv_offload/actors/engine_metrics_series.hpp"

// What is in the primary tier and who keeps it there. The gauges overlap: a resident chunk can be
// pinned and held at once. chunks = free + resident + quarantined.
namespace kv_offload {
namespace {

bool has_store_threshold(const EngineConfig& config) {
  return config.store_threshold >= config_fields::kStoreThresholdMin;
}

bool is_violated(const PrimaryTotals& p) { return !p.identity_violation.empty(); }

std::vector<MetricPoint> chunk_bytes(const EngineStats& stats) {
  return {{{}, static_cast<double>(stats.chunk_bytes), nullptr}};
}

std::vector<EngineSeries> residency_series() {
  return {
      gauge("kv_offload_chunk_bytes", "bytes of one chunk's row in the primary tier, with padding",
            {}, chunk_bytes),
      gauge("kv_offload_primary_chunks", "chunks that fit into the primary tier", {},
            one(&PrimaryTotals::num_chunks)),
      gauge("kv_offload_primary_resident_chunks",
            "chunks with a key in the primary tier, those being written included", {},
            one(&PrimaryTotals::resident)),
      gauge("kv_offload_primary_free_chunks", "chunks of the primary tier without a key", {},
            one(&PrimaryTotals::free)),
      gauge("kv_offload_primary_evictable_chunks", "chunks that nothing keeps from eviction", {},
            one(&PrimaryTotals::evictable)),
      gauge("kv_offload_primary_writing_chunks",
            "chunks being written by the device or by promotions", {},
            one(&PrimaryTotals::write_pending)),
      gauge("kv_offload_primary_pinned_chunks", "chunks pinned by jobs or leases, each once", {},
            one(&PrimaryTotals::pinned)),
      gauge("kv_offload_primary_held_chunks", "chunks held for requests, each once", {},
            one(&PrimaryTotals::held)),
      gauge("kv_offload_primary_quarantined_chunks",
            "chunks without a key that late I/O may still touch", {},
            one(&PrimaryTotals::quarantined)),
      gauge("kv_offload_primary_open_pins", "pins, several on a chunk counted each", {},
            one(&PrimaryTotals::pins_open)),
      gauge("kv_offload_primary_open_holds", "holds, several on a chunk counted each", {},
            one(&PrimaryTotals::holds_open)),
      gauge("kv_offload_primary_abandoned_pins",
            "pins of jobs whose I/O thread is gone, kept until the engine ends", {},
            one(&PrimaryTotals::pins_abandoned)),
      gauge("kv_offload_primary_waiters", "waits of requests for chunks being written, several for one chunk counted each", {},
            one(&PrimaryTotals::waiters)),
      gauge("kv_offload_primary_claims", "chunks whose promotion is claimed or under way", {},
            one(&PrimaryTotals::claims)),
      only_if(has_store_threshold,
              gauge("kv_offload_reuse_tracked_chunks",
                    "chunks whose lookups are counted for store_threshold, in the tier or not", {},
                    one(&PrimaryTotals::reuse_tracked))),
  };
}

}  // namespace

std::vector<EngineSeries> primary_series() {
  std::vector<EngineSeries> table = residency_series();
  const auto add = [&](EngineSeries row) { table.push_back(std::move(row)); };
  add(counter("kv_offload_primary_evicted_chunks_total", "Chunks evicted from the primary tier",
              "they are evicted", {}, one(&PrimaryTotals::evictions)));
  add(counter("kv_offload_primary_refused_holds_total",
              "Holds refused because the share of held chunks was used up; the hit is reported",
              "the hold is asked for", {}, one(&PrimaryTotals::holds_refused)));
  add(counter("kv_offload_primary_promoted_chunks_total",
              "Chunks that landed in the primary tier from another tier", "they land", {},
              one(&PrimaryTotals::promoted)));
  add(counter("kv_offload_primary_promoted_evicted_unread_chunks_total",
              "Promoted chunks evicted before anyone read them (thrash)", "they are evicted", {},
              one(&PrimaryTotals::promoted_evicted_unread)));
  add(counter("kv_offload_primary_expired_unread_holds_total",
              "Holds on promoted chunks that nobody read in time", "the hold expires", {},
              one(&PrimaryTotals::pins_expired_unread)));
  add(counter("kv_offload_primary_reused_in_use_chunks_total",
              "Chunks found in use although they were to be handed out (stays 0)",
              "they are handed out", {}, one(&PrimaryTotals::reused_in_use)));
  add(gauge("kv_offload_primary_identity_violated",
            "1 while a recount of the primary tier's chunks disagrees with its counters, else 0; "
            "stays 0",
            {}, one<PrimaryTotals>(is_violated)));
  add(counter("kv_offload_events_dropped_total",
              "Stored and removed events lost because nobody took them", "the queue overflows", {},
              one(&PrimaryTotals::events_dropped)));
  return table;
}

}  // namespace kv_offload
