#pragma once

#include "kv_offload/bench/io_latency.hpp"
#include "kv_offload/bench/io_measure.hpp"
#include "kv_offload/bench/work_dir.hpp"

#include <memory>

namespace kv_offload::bench {

/// What the device and the kernel cost at least: a straight io_uring program of one thread with registered
/// buffers on huge pages and direct I/O, `depth` chunks in flight, nothing else. For `fs` it creates,
/// preallocates, tags and renames a file per chunk, and opens, reads the tag of and closes one per load;
/// for `extent` it writes one preallocated file in order and reads it in random order.
std::unique_ptr<IoContestant> io_floor(const IoShape& shape, const WorkDir& dir);

/// The latencies of measure_io_latency() when this program does the same: loads at that rate, beside stores
/// of which it keeps 256 KiB, or one chunk, at the device.
Expected<IoLatencyPair> io_floor_latency(const IoShape& shape, const WorkDir& dir,
                                         double loads_per_s, double seconds);

}  // namespace kv_offload::bench
