#include "kv_offload/messages/domain_map.hpp"
#include "kv_offload/tests/metrics/driven_engine.hpp"
#include "kv_offload/tests/metrics/driven_workloads.hpp"

namespace kv_offload::test {
namespace {

using Definitions = std::vector<MetricDefinition>;

KeyList of_home(DomainId home, std::size_t n) {
  KeyList out;
  for (const auto& key : keys_named(1, 64))
    if (out.size() < n && DomainMap{2, 4}.home_of(key) == home) out.push_back(key);
  if (out.size() < n) throw std::runtime_error("too few keys of one home");
  return out;
}

/// Domain 1 stores six chunks of home 0, which has four slots in each domain's memory; both domains read them.
Exposition two_domains(Definitions& definitions) {
  DrivenEngine e(16, R"("domains": 2, "topology": "synthetic:NUMANode:2 PU:2")");
  const auto six = of_home(0, 6);
  NewRequest one{.req_id = "one", .domain = 1}, zero{.req_id = "zero", .domain = 0};
  const auto writer = e.request(one), reader = e.request(zero);
  e.store(writer, six);
  for (const auto r : {writer, reader})
    DrivenEngine::wait(e->complete_load(e.prepare_load(r, six)));
  return e.page(definitions);
}

const std::vector<Known> kTwoDomains = {
    {"kv_offload_domain_requests_started_total{domain=\"0\"}", 1},
    {"kv_offload_domain_requests_started_total{domain=\"1\"}", 1},
    {"kv_offload_domain_resident_chunks{domain=\"0\"}", 6},
    {"kv_offload_domain_resident_chunks{domain=\"1\"}", 0},
    // No memory is bound by the topology of another machine; engine_drill has one where it is.
    {"kv_offload_domain_memory_planned_bytes{domain=\"0\"}", 0},
    {"kv_offload_domain_memory_planned_bytes{domain=\"1\"}", 0},
    {"kv_offload_domain_memory_near_bytes{domain=\"0\"}", 0},
    {"kv_offload_domain_memory_near_bytes{domain=\"1\"}", 0},
    {"kv_offload_domain_memory_elsewhere_bytes{domain=\"0\"}", 0},
    {"kv_offload_domain_memory_elsewhere_bytes{domain=\"1\"}", 0},
    {"kv_offload_domain_remote_chunks_total{domain=\"0\",direction=\"store\"}", 0},
    {"kv_offload_domain_remote_chunks_total{domain=\"1\",direction=\"store\"}", 2},
    {"kv_offload_domain_remote_chunks_total{domain=\"0\",direction=\"load\"}", 4},
    {"kv_offload_domain_remote_chunks_total{domain=\"1\",direction=\"load\"}", 2},
};

}  // namespace

std::vector<Workload> domain_workloads() { return {{"two domains", two_domains, kTwoDomains}}; }

}  // namespace kv_offload::test
