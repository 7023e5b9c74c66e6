#pragma once

#include "kv_offload/bench/simulate.hpp"

#include <iosfwd>

namespace kv_offload::bench {

/// Runs `options.random` drawn scenarios, each with no offload and with `adaptive`, and judges both bounds of each:
/// a table of the worst, and everything in the JSON document. Answers the exit status.
int run_random(const SimulateOptions& options, std::ostream& out, std::ostream& err);

}  // namespace kv_offload::bench
