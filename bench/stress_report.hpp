#pragma once

#include "kv_offload/bench/report.hpp"
#include "kv_offload/bench/stress.hpp"
#include "kv_offload/bench/stress_run.hpp"

#include <iosfwd>
#include <vector>

namespace kv_offload::bench {

/// What a stress run did, found and took, for people. Promises are printed by print_promises.
void print_stress(std::ostream& out, const StressOptions& options, const StressThreads& threads,
                  const EngineConfig& config, const StressFindings& found);
/// The same for machines, promises included.
Json stress_document(const StressOptions& options, const StressThreads& threads,
                     const StressFindings& found, const std::vector<PromiseCheck>& promises);

}  // namespace kv_offload::bench
