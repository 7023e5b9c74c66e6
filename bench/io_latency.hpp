#pragma once

#include "kv_offload/bench/io_measure.hpp"
#include "kv_offload/bench/work_dir.hpp"

namespace kv_offload::bench {

/// Latency of single loads that arrive at a fixed rate, whatever became of those before (from the time each
/// was due): with an idle tier, and while stores are submitted as fast as the tier takes them.
struct IoLatencyPair {
  LatencyRecorder idle, beside_stores;
  double loads_per_s = 0;
  double store_mib_per_s = 0;  ///< what the stores moved meanwhile
};

/// Room that an extent file has for the stores meanwhile.
std::uint64_t io_latency_spare_bytes(double seconds);

/// @param share    of the load rate measured just before, at which loads arrive
/// @param seconds  of each half
Expected<IoLatencyPair> measure_io_latency(const IoShape& shape, const WorkDir& dir, double share,
                                           double seconds);

}  // namespace kv_offload::bench
