#pragma once

#include "kv_offload/bench/random.hpp"
#include "kv_offload/bench/trace.hpp"
#include "kv_offload/messages/config_node.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload::bench {

/// One request as the serving engine gets it.
struct SimRequest {
  double arrival_s = 0;  ///< open workloads only
  std::uint64_t prompt_tokens = 0;
  std::uint64_t output_tokens = 0;
  std::vector<std::uint64_t> chunks;  ///< full chunks of prompt and, where known, output, in order
  std::size_t session = 0;            ///< whose turn it is, for the workload
};

/// Where requests come from: all at their own times (`clients() == 0`), or from so many clients, each of
/// which asks again when its last request has ended.
class SimWorkload {
 public:
  virtual ~SimWorkload() = default;
  [[nodiscard]] virtual std::size_t clients() const { return 0; }
  /// The next request; open workloads give them in order of arrival. Nothing: the workload has ended.
  virtual std::optional<SimRequest> next() = 0;
  virtual void finished(const SimRequest& /*request*/) {}
  /// Chunks that every secondary tier holds before the run.
  [[nodiscard]] virtual std::vector<std::uint64_t> preloaded() const { return {}; }
};

struct SimWorkloadParts {
  std::uint64_t tokens_per_chunk = 0;
  std::uint64_t seed = 1;
  std::size_t requests_max = 0;  ///< of a trace; 0: all
  const Trace* trace = nullptr;  ///< for kind trace
};

/// Builds what `workload` of a scenario describes; errors go to `reader`. Null after an error.
std::unique_ptr<SimWorkload> read_workload(ConfigReader& reader, const SimWorkloadParts& parts);

}  // namespace kv_offload::bench
