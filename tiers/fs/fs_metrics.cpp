#include "kv_offload/tiers/fs/fs_metrics.hpp"

namespace kv_offload {

std::vector<MetricDefinition> fs_metric_definitions() {
  const auto define = [](const char* name, MetricKind kind, const char* help) {
    return MetricDefinition{name, kind, help, {"tier"}, {}};
  };
  const MetricKind counter = MetricKind::counter;
  const MetricKind gauge = MetricKind::gauge;
  return {
      define("kv_offload_fs_capacity_bytes", gauge, "Bytes that the chunk files may take"),
      define("kv_offload_fs_allocated_bytes", gauge,
             "Bytes of the chunk files that are known, as the disk counts them"),
      define("kv_offload_fs_resident_chunks", gauge, "Chunk files that are known"),
      define("kv_offload_fs_leaving_files", gauge, "Files being removed, or waiting for it"),
      define("kv_offload_fs_evicted_chunks_total", counter, "Chunk files removed for the capacity"),
      define("kv_offload_fs_evicted_bytes_total", counter,
             "Bytes of files removed for the capacity, quarantined ones included"),
      define("kv_offload_fs_adopted_chunks_total", counter,
             "Chunk files met that were not known: of other engines, or of a run that crashed"),
      define("kv_offload_fs_vanished_chunks_total", counter,
             "Chunk files that were known and are gone without an eviction"),
      define("kv_offload_fs_unlink_failures_total", counter,
             "Files that could not be removed; they stay, and count until the next start"),
      define("kv_offload_fs_waited_stores_total", counter, "Stores that waited for room"),
      define("kv_offload_fs_walk_progress", gauge,
             "Share of the directories looked at since the start, 0 to 1; 1 without a walk"),
  };
}

std::vector<MetricSample> fs_metric_samples(const std::string& label, const FsCapacityCounters& c,
                                            std::uint64_t capacity_bytes) {
  std::vector<MetricSample> samples;
  const auto add = [&](const char* name, double value) {
    samples.push_back({name, {{"tier", label}}, value});
  };
  const auto number = [](const std::atomic<std::uint64_t>& n) {
    return static_cast<double>(n.load(std::memory_order_relaxed));
  };
  add("kv_offload_fs_capacity_bytes", static_cast<double>(capacity_bytes));
  add("kv_offload_fs_allocated_bytes", number(c.allocated_bytes));
  add("kv_offload_fs_resident_chunks", number(c.chunks));
  add("kv_offload_fs_leaving_files", number(c.leaving_files));
  add("kv_offload_fs_evicted_chunks_total", number(c.evicted_chunks));
  add("kv_offload_fs_evicted_bytes_total", number(c.evicted_bytes));
  add("kv_offload_fs_adopted_chunks_total", number(c.adopted_chunks));
  add("kv_offload_fs_vanished_chunks_total", number(c.vanished_chunks));
  add("kv_offload_fs_unlink_failures_total", number(c.unlink_failures));
  add("kv_offload_fs_waited_stores_total", number(c.waited_stores));
  add("kv_offload_fs_walk_progress", c.walk_progress.load(std::memory_order_relaxed));
  return samples;
}

}  // namespace kv_offload
