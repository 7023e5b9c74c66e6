#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kv_offload::bench {

/// Rate of one pass over memory larger than any cache, in chunks of one size; GiB/s of chunk bytes.
struct IoMemoryFigure {
  std::string name;
  double gib_per_s = 0;
};

/// One round of: reading every byte, digesting, copying, copying and digesting in one pass. One thread,
/// `set_bytes` twice (source and destination) on huge pages; the order rotates with `round`.
std::vector<IoMemoryFigure> measure_io_memory(std::uint64_t chunk_bytes, std::uint64_t set_bytes,
                                              int round);

}  // namespace kv_offload::bench
