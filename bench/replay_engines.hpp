#pragma once

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/bench/replay.hpp"
#include "kv_offload/bench/trace.hpp"

#include <iosfwd>

namespace kv_offload::bench {

/// The same trace dealt in turn to several engines of one configuration, each with a primary tier of its own: what
/// one has stored in a tier that they share, another finds there. A request begins when the stores of the one before
/// it have ended, so that what is found does not depend on time.
int run_replay_engines(const ReplayOptions& options, const EngineConfig& config, const Trace& trace,
                       std::ostream& out, std::ostream& err);

}  // namespace kv_offload::bench
