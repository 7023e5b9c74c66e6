#pragma once

#include "kv_offload/bench/latency.hpp"
#include "kv_offload/messages/expected.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace kv_offload {
class OffloadEngine;
}

namespace kv_offload::bench {

/// An engine without secondary tiers whose primary tier holds the keys 0 … keys-1 in rows that take no memory.
Expected<std::unique_ptr<OffloadEngine>> lookup_engine(std::uint64_t keys,
                                                       const std::string& eviction);

struct FacadeShape {
  std::uint64_t keys = 0;     ///< resident
  std::uint32_t threads = 1;  ///< callers, each with requests of its own
  std::uint32_t batch = 512;  ///< keys of a lookup, a prompt's: stored one after the other
  bool hold = true;
  double seconds = 1;
  std::uint64_t seed = 1;
};
struct FacadeFigure {
  LatencyRecorder lookup;   ///< the lookup call alone
  double keys_per_s = 0;    ///< all callers, the opening and ending of requests included
  std::uint64_t wrong = 0;  ///< lookups that did not find every key; must be 0
  std::string failure;      ///< of the first call that failed; must be empty
};

/// Each call belongs to a request that is opened before it and ended after it.
FacadeFigure measure_facade(OffloadEngine& engine, const FacadeShape& shape);

/// CPU time of this process while the engine has nothing to do, in per cent of a core.
double idle_cpu_percent(double seconds);

}  // namespace kv_offload::bench
