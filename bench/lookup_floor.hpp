#pragma once

#include "kv_offload/bench/latency.hpp"

#include <cstdint>

namespace kv_offload::bench {

/// What handing a word to another thread and getting one back costs on this machine, with the operating
/// system's means and nothing else: no call of the engine can be cheaper.
struct RoundTripFigure {
  LatencyRecorder condvar;  ///< mutex and condition variable, both threads park
  LatencyRecorder slot;  ///< the facade's slots: the answer's side spins as configured, then parks
};

RoundTripFigure measure_round_trips(std::uint32_t spin_rounds, double seconds);

}  // namespace kv_offload::bench
