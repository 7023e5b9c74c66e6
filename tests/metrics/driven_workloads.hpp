#pragma once

#include "kv_offload/messages/metric_definition.hpp"
#include "kv_offload/tests/metrics/exposition.hpp"

#include <functional>
#include <string>
#include <vector>

namespace kv_offload::test {

/// What one sample of the page must read after a workload.
struct Known {
  std::string sample;     ///< as written on the page
  double value = 0;
  double tolerance = 0;   ///< relative, of what is measured in real time; or at_least
  static constexpr double at_least = -1;  ///< `value` or more: what is counted besides the workload
};

/// A workload of known size on a real engine: the page that it leaves, and what must be on it.
struct Workload {
  std::string name;
  std::function<Exposition(std::vector<MetricDefinition>& definitions)> run;
  std::vector<Known> known;
};

std::vector<Workload> transfer_workloads();  ///< there and back, under way, failing, refused
std::vector<Workload> memory_workloads();    ///< what the primary tier keeps and loses
std::vector<Workload> gate_workloads();      ///< slow-tier admission and the lookup gate
std::vector<Workload> file_workloads();      ///< a file tier with a capacity
std::vector<Workload> worker_workloads();    ///< copies by the engine's workers
std::vector<Workload> domain_workloads();    ///< several NUMA domains
std::vector<Workload> caller_workloads();    ///< limits of requests, polling, tiers that ask

/// How samples of the first driven tier and of the primary tier begin and are labelled.
inline const std::string kT1 = "{tier=\"1:test-driven\"}";
inline const std::string kIn1 = "{tier=\"1:test-driven\",";
inline const std::string kP = "{tier=\"0:primary\"}";
inline const std::string kVllm = "vllm:kv_offload_";
inline const std::string kTiering = "vllm:kv_offload_tiering_";

}  // namespace kv_offload::test
