#include "kv_offload/tiers/extent/extent_metrics.hpp"

#include <utility>

namespace kv_offload {

namespace {

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace

std::vector<MetricDefinition> extent_metric_definitions() {
  const auto define = [](const char* name, MetricKind kind, const char* help) {
    return MetricDefinition{name, kind, help, {"tier"}, {}};
  };
  const MetricKind counter = MetricKind::counter;
  const MetricKind gauge = MetricKind::gauge;
  return {
      define("kv_offload_extent_resident_chunks", gauge, "Chunks that the index knows"),
      define("kv_offload_extent_segments", gauge, "Segments of the file"),
      define("kv_offload_extent_free_segments", gauge, "Segments that hold nothing"),
      define("kv_offload_extent_bad_segments", gauge,
             "Segments set aside until the next start because of an I/O error"),
      define("kv_offload_extent_dead_share", gauge,
             "Share of the slots in filled segments whose chunk is gone, 0 to 1"),
      define("kv_offload_extent_index_bytes", gauge, "Memory of the index with every slot in use"),
      define("kv_offload_extent_stored_bytes_total", counter, "Bytes of chunks stored"),
      define("kv_offload_extent_written_bytes_total", counter,
             "Bytes written to the file: chunks, their records, rewritten chunks"),
      define("kv_offload_extent_write_amplification", gauge,
             "Bytes written to the file per byte stored, since the start; 0 before the first"),
      define("kv_offload_extent_evicted_chunks_total", counter,
             "Chunks dropped with their segment, in chunks"),
      define("kv_offload_extent_evicted_segments_total", counter, "Segments made free"),
      define("kv_offload_extent_rewritten_chunks_total", counter,
             "Chunks that were loaded since they were written, kept by rewriting at eviction"),
      define("kv_offload_extent_rewrites_dropped_total", counter,
             "Chunks that were loaded and were evicted all the same: over the share, no room, or "
             "error"),
  };
}

std::vector<MetricSample> extent_metric_samples(const std::string& label, const ExtentCounters& c,
                                                const ExtentVolume* volume) {
  std::vector<MetricSample> samples;
  const auto add = [&](const char* name, double value) {
    samples.push_back({name, {{"tier", label}}, value});
  };
  const auto number = [](const std::atomic<std::uint64_t>& n) {
    return static_cast<double>(n.load(std::memory_order_relaxed));
  };
  if (volume != nullptr) {
    const auto live = static_cast<double>(volume->index.size());
    add("kv_offload_extent_resident_chunks", live);
    add("kv_offload_extent_segments", static_cast<double>(volume->geometry.num_segments));
    add("kv_offload_extent_free_segments", number(c.free_segments));
    add("kv_offload_extent_bad_segments", number(c.bad_segments));
    add("kv_offload_extent_dead_share", ratio(number(c.dead_slots), number(c.dead_slots) + live));
    add("kv_offload_extent_index_bytes", static_cast<double>(volume->index.bytes()));
  }
  add("kv_offload_extent_stored_bytes_total", number(c.stored_bytes));
  add("kv_offload_extent_written_bytes_total", number(c.written_bytes));
  add("kv_offload_extent_write_amplification",
      ratio(number(c.written_bytes), number(c.stored_bytes)));
  add("kv_offload_extent_evicted_chunks_total", number(c.evicted_chunks));
  add("kv_offload_extent_evicted_segments_total", number(c.evicted_segments));
  add("kv_offload_extent_rewritten_chunks_total", number(c.rewritten_chunks));
  add("kv_offload_extent_rewrites_dropped_total", number(c.rewrites_dropped));
  return samples;
}

}  // namespace kv_offload
