// Every series that an engine can show is moved by a workload on a real engine and read over HTTP.
#include "kv_offload/tests/metrics/driven_workloads.hpp"

#include <catch2/catch.hpp>

#include <map>
#include <set>

namespace kv_offload::test {
namespace {

/// The family of a sample: without labels, and without the suffixes of a histogram.
std::string family_of(const Exposition& page, const std::string& sample) {
  std::string name = sample.substr(0, sample.find('{'));
  for (const std::string suffix : {"_bucket", "_sum", "_count"})
    if (name.ends_with(suffix) &&
        page.families.count(name.substr(0, name.size() - suffix.size())) == 1)
      return name.substr(0, name.size() - suffix.size());
  return name;
}

std::vector<Workload> driven_workloads() {
  std::vector<Workload> all;
  for (auto part : {transfer_workloads, memory_workloads, gate_workloads, caller_workloads,
                    file_workloads, worker_workloads, domain_workloads})
    for (auto& workload : part()) all.push_back(std::move(workload));
  return all;
}

TEST_CASE("every declared series reads its known value over HTTP after a known workload",
          "[metrics][unit]") {
  std::map<std::string, std::string> declared;  // by the workload that declared it first
  std::set<std::string> driven;
  for (const Workload& workload : driven_workloads()) {
    INFO("workload: " << workload.name);
    std::vector<MetricDefinition> definitions;
    const Exposition page = workload.run(definitions);
    for (const auto& definition : definitions) {
      declared.emplace(definition.name, workload.name);
      INFO(definition.name);
      CHECK(page.families.count(definition.name) == 1);
    }
    for (const Known& known : workload.known) {
      INFO(known.sample);
      const auto found = page.values.find(known.sample);
      CHECK(found != page.values.end());
      if (found == page.values.end()) continue;
      if (known.tolerance == Known::at_least)
        CHECK(found->second >= known.value);
      else if (known.tolerance == 0)
        CHECK(found->second == known.value);
      else
        CHECK(found->second == Approx(known.value).epsilon(known.tolerance));
      driven.insert(family_of(page, known.sample));
    }
    for (const auto& [sample, value] : page.values) {
      INFO(sample);
      // What must be 0 in every engine is 0 after every workload.
      for (const char* name :
           {"kv_offload_primary_reused_in_use_chunks_total", "kv_offload_primary_identity_violated",
            "kv_offload_admission_balance_violated", "kv_offload_metrics_left_out",
            "kv_offload_actor_foreign_executions_total"})
        if (sample.starts_with(name)) CHECK(value == 0);
    }
  }
  for (const auto& [name, workload] : declared) {
    INFO(name << ", declared for the workload '" << workload << "', is driven by none");
    CHECK(driven.count(name) == 1);
  }
}

}  // namespace
}  // namespace kv_offload::test
