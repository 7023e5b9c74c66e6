#pragma once

#include "kv_offload/bench/io_measure.hpp"
#include "kv_offload/bench/work_dir.hpp"

#include <memory>

namespace kv_offload::bench {

/// fio, as a process of its own: one file, written in order and read in random order, io_uring, direct I/O.
/// Its buffers are its default ones, or registered ones on reserved huge pages (`fixed`).
std::unique_ptr<IoContestant> io_fio(const IoShape& shape, const WorkDir& dir, bool fixed);

/// Empty if fio can be run (with `fixed`: also enough huge pages are reserved); else why not, in one line.
std::string why_no_fio(const IoShape& shape, bool fixed);

}  // namespace kv_offload::bench
