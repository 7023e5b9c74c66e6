#pragma once

#include "kv_offload/bench/io_measure.hpp"

#include <memory>

namespace kv_offload::bench {

/// What HTTP and the kernel cost at least with the tier's library: a straight program of one thread on libcurl's
/// multi interface, `depth` handles, each request signed as the tier signs. It keeps no digest and no state.
std::unique_ptr<IoContestant> io_obj_floor(const IoShape& shape);

}  // namespace kv_offload::bench
