#pragma once

#include "kv_offload/bench/options.hpp"
#include "kv_offload/bench/replay_driver.hpp"

#include <cstdint>
#include <iosfwd>
#include <limits>
#include <optional>
#include <string>

namespace kv_offload::bench {

struct ReplayOptions {
  EngineOptions engine;
  OutputOptions output;
  std::optional<std::string> trace_file;  ///< exactly one of these two
  std::optional<std::string> synthetic;
  std::size_t requests_max = std::numeric_limits<std::size_t>::max();
  ReplayMode mode;
  std::uint32_t engines =
      1;                 ///< the trace is dealt to so many engines that share their secondary tiers
  std::uint32_t callers =
      1;  ///< of the one engine, without secondary tiers; each takes the next request when free
  bool explain = false;  ///< print what admission decided and why
  std::uint64_t metrics_hold_seconds =
      0;  ///< keep the engine and its metrics port this long afterwards
};

/// Drives a request trace through the real engine with real bytes. Answers the exit status.
int run_replay(const ReplayOptions& options, std::ostream& out, std::ostream& err);

}  // namespace kv_offload::bench
