#pragma once

#include "kv_offload/bench/arrivals.hpp"
#include "kv_offload/bench/options.hpp"

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload::bench {

struct StressOptions {
  EngineOptions engine;
  OutputOptions output;
  std::uint32_t threads = 4;
  /// Instead of `threads`: so many in each NUMA domain of the engine, kept there.
  std::optional<std::uint32_t> threads_per_domain;
  double seconds = 10;
  std::uint64_t seed = 1;
  /// Requests arrive so often, all threads together; unset: each thread's next one when it is free.
  std::optional<double> requests_per_s;
  ArrivalSpacing spacing = ArrivalSpacing::poisson;
  std::vector<std::string> faults;  ///< TIER:KIND[:ARG]
  int break_promise = 0;            ///< 0: none; others need a build with KV_OFFLOAD_TEST_FAULTS
};

/// Many serving threads with random operations against one engine, faults on demand; ends by checking
/// promises 1 to 8. Answers the exit status.
int run_stress(const StressOptions& options, std::ostream& out, std::ostream& err);

}  // namespace kv_offload::bench
