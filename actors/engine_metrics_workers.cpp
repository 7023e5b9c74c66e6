#include "kv_offload/actors/engine_metrics_series.hpp"

// What the engine's workers copy between their devices and the primary tier, and who they are.
namespace kv_offload {
namespace {

bool has_workers(const EngineConfig& config) { return config.workers && !config.workers->socket.empty(); }

/// Bytes of one copy, all workers: the buckets of the reference.
std::vector<double> size_buckets() { return {1e6, 5e6, 1e7, 2e7, 4e7, 6e7, 8e7, 1e8, 1.5e8, 2e8}; }

template <class What>
ReadPoints each_rank(What what) {
  return [what](const EngineStats& stats) {
    std::vector<MetricPoint> points;
    for (std::size_t r = 0; r < stats.worker_ranks; ++r) {
      points.push_back({{std::to_string(r)}, 0, nullptr});
      set(points.back(), std::invoke(what, at_or_zero(stats.scheduler.workers.ranks, r)));
    }
    return points;
  };
}

template <class What>
ReadPoints of_copies(CopyTotals SchedulerTotals::*direction, What what) {
  return [=](const EngineStats& stats) {
    std::vector<MetricPoint> points(1);
    set(points[0], stats.scheduler.*direction.*what);
    return points;
  };
}

template <class What>
ReadPoints each_copy_direction(What what) {
  return [what](const EngineStats& stats) {
    std::vector<MetricPoint> points;
    for (const bool is_load : {false, true}) {
      points.push_back({{is_load ? "load" : "store"}, 0, nullptr});
      set(points.back(), (is_load ? stats.scheduler.load_copies : stats.scheduler.store_copies).*what);
    }
    return points;
  };
}

ReadPoints of_hub(std::uint64_t WorkerHubStats::*what) {
  return [what](const EngineStats& stats) {
    return std::vector<MetricPoint>{{{}, static_cast<double>(stats.scheduler.workers.*what), nullptr}};
  };
}

using Rank = WorkerHubStats::Rank;

}  // namespace

std::vector<EngineSeries> worker_series() {
  std::vector<EngineSeries> table;
  const auto add = [&](EngineSeries row) { table.push_back(only_if(has_workers, std::move(row))); };
  for (const bool is_load : {false, true}) {
    const std::string direction = is_load ? "load" : "store";
    const auto copies = is_load ? &SchedulerTotals::load_copies : &SchedulerTotals::store_copies;
    const std::string how = is_load ? "copied by the workers from the primary tier to their devices"
                                    : "copied by the workers from their devices to the primary tier";
    add(counter("vllm:kv_offload_" + direction + "_bytes_total", "Bytes " + how, "all workers have reported the copy",
                {}, of_copies(copies, &CopyTotals::bytes)));
    add(counter("vllm:kv_offload_" + direction + "_time_total", "Seconds that the slowest worker took for bytes " + how,
                "all workers have reported the copy", {}, of_copies(copies, &CopyTotals::time_s)));
    add(histogram("vllm:kv_offload_" + direction + "_size", "Bytes per copy, " + how,
                  "all workers have reported the copy", {}, size_buckets(), of_copies(copies, &CopyTotals::size)));
  }
  add(counter("kv_offload_worker_copies_started_total", "Copies ordered from the workers", "they are ordered",
              {"direction"}, each_copy_direction(&CopyTotals::started)));
  add(counter("kv_offload_worker_copies_failed_total", "Copies in which a worker failed, died or was too late",
              "no worker can touch their rows any more", {"direction"}, each_copy_direction(&CopyTotals::failed)));
  add(gauge("kv_offload_worker_open_copies", "copies whose rows a worker may still touch", {"direction"},
            each_copy_direction(&CopyTotals::open)));
  add(counter("kv_offload_worker_late_copies_total", "Copies that had not ended by deadlines.copy_ms",
              "the deadline passes", {}, of_hub(&WorkerHubStats::deadlines)));
  add(counter("kv_offload_worker_strange_frames_total", "Connections ended for what they said", "they are ended", {},
              of_hub(&WorkerHubStats::strange_frames)));
  add(gauge("kv_offload_worker_joined", "1 while the rank's worker is there", {"rank"}, each_rank(&Rank::joined)));
  add(counter("kv_offload_worker_joins_total", "Workers that took the rank", "they join", {"rank"},
              each_rank(&Rank::joins)));
  add(counter("kv_offload_worker_deaths_total", "Workers of the rank that died without saying goodbye",
              "the death is proven", {"rank"}, each_rank(&Rank::deaths)));
  add(counter("kv_offload_worker_failed_jobs_total", "Copies that the rank's worker reported as failed",
              "it reports them", {"rank"}, each_rank(&Rank::failed_jobs)));
  add(gauge("kv_offload_worker_region_bytes", "bytes of the primary tier as the rank's worker maps it", {"rank"},
            each_rank(&Rank::region_bytes)));
  add(gauge("kv_offload_worker_registered_bytes",
            "bytes of it that the rank's device reaches directly; less than all is slow", {"rank"},
            each_rank(&Rank::registered_bytes)));
  return table;
}

}  // namespace kv_offload
