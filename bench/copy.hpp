#pragma once

#include "kv_offload/bench/options.hpp"

#include <cstdint>
#include <iosfwd>
#include <string>

namespace kv_offload::bench {

inline constexpr std::uint64_t kCopyChunkBytesMax = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kCopyFragmentBytesMin = 64;
/// Of the rows, and as much of the device.
inline constexpr std::uint64_t kCopyBytesMax = std::uint64_t{64} << 30;

struct CopyBenchOptions {
  std::uint64_t chunk_bytes = 2 << 20;
  std::uint64_t fragment_bytes = 16 << 10;
  std::uint32_t chunks = 256;
  std::uint32_t threads = 1;     ///< of ours, and of the memcpy that it is compared to
  std::string backend = "host";  ///< or "cuda"
  double seconds = 0.5;          ///< of each measurement, at least one pass over all chunks
  std::uint32_t rounds = 5;
  OutputOptions output;
};

/// `copy`: what moving chunks between device and primary tier costs, against memcpy of the same
/// shape: whole chunks and scattered fragments, both directions, without and with a digest.
/// Contestants run in turn within a round, ratios are taken within it, the table shows medians.
/// @return 0; 1 if a byte was not what it must be; 2 with one line on `err`
int run_copy(const CopyBenchOptions& options, std::ostream& out, std::ostream& err);

}  // namespace kv_offload::bench
