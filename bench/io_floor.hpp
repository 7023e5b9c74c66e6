#pragma once

#include "kv_offload/bench/io_measure.hpp"
#include "kv_offload/bench/work_dir.hpp"

#include <memory>

namespace kv_offload::bench {

/// What the device and the kernel cost at least: a straight io_uring program of one thread with registered
/// buffers on huge pages and direct I/O, `depth` chunks in flight, nothing else. For `fs` it creates,
/// preallocates, tags and renames a file per chunk, and opens, reads the tag of and closes one per load;
/// for `extent` it writes one preallocated file in order and reads it in random order.
std::unique_ptr<IoContestant> io_floor(const IoShape& shape, const WorkDir& dir);

}  // namespace kv_offload::bench
