#include "kv_offload/actors/engine_metrics_series.hpp"

// What each NUMA domain does, and how much of it crosses to another's memory. One domain: one line each.
namespace kv_offload {
namespace {

template <class What>
ReadPoints each_domain(What what) {
  return [what](const EngineStats& stats) {
    std::vector<MetricPoint> points;
    for (std::size_t d = 0; d < stats.domains.size(); ++d)
      points.push_back({{std::to_string(d)}, static_cast<double>(stats.domains[d].*what), nullptr});
    return points;
  };
}

ReadPoints each_memory(std::uint64_t DomainMemory::*what) {
  return [what](const EngineStats& stats) {
    std::vector<MetricPoint> points;
    for (std::size_t d = 0; d < stats.domains.size(); ++d)
      points.push_back(
          {{std::to_string(d)}, static_cast<double>(stats.domains[d].memory.*what), nullptr});
    return points;
  };
}

ReadPoints each_crossing() {
  return [](const EngineStats& stats) {
    std::vector<MetricPoint> points;
    for (std::size_t d = 0; d < stats.domains.size(); ++d) {
      const auto& domain = stats.domains[d];
      points.push_back({{std::to_string(d), "store"},
                        static_cast<double>(domain.remote_stored_chunks),
                        nullptr});
      points.push_back(
          {{std::to_string(d), "load"}, static_cast<double>(domain.remote_loaded_chunks), nullptr});
    }
    return points;
  };
}

}  // namespace

std::vector<EngineSeries> domain_series() {
  return {
      counter("kv_offload_domain_requests_started_total", "Requests that the domain serves",
              "they are announced", {"domain"}, each_domain(&DomainTotals::requests_started)),
      gauge("kv_offload_domain_resident_chunks",
            "chunks in the primary tier whose home is the domain", {"domain"},
            each_domain(&DomainTotals::resident)),
      gauge("kv_offload_domain_memory_planned_bytes",
            "bytes of the primary tier that belong on the domain's node; 0 where memory is not "
            "bound to nodes",
            {"domain"}, each_memory(&DomainMemory::planned_bytes)),
      gauge("kv_offload_domain_memory_near_bytes",
            "of these, bytes that the kernel found on that node after the first touch", {"domain"},
            each_memory(&DomainMemory::near_bytes)),
      gauge("kv_offload_domain_memory_elsewhere_bytes",
            "of these, bytes that it found on other nodes", {"domain"},
            each_memory(&DomainMemory::elsewhere_bytes)),
      counter("kv_offload_domain_remote_chunks_total",
              "Chunks that the domain's requests store in or load from another domain's memory",
              "the slots are reserved or pinned", {"domain", "direction"}, each_crossing()),
  };
}

}  // namespace kv_offload
