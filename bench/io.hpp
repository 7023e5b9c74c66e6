#pragma once

#include "kv_offload/bench/io_measure.hpp"
#include "kv_offload/bench/options.hpp"

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

namespace kv_offload::bench {

/// What `io` measures.
enum class IoWhat : std::uint8_t {
  transfer,  ///< stores and loads of a set of chunks, side by side with others
  latency,   ///< single loads at a fixed rate, with and without stores beside them
  memory,    ///< passes over memory: read, digest, copy, both
};

/// Of `--chunk-bytes` and `--set-bytes`; what a set has at least is `depth` chunks.
inline constexpr std::uint64_t kIoChunkBytesMin = 4096;
inline constexpr std::uint64_t kIoBytesMax = std::uint64_t{4} << 30;
/// What is passed over with IoWhat::memory: many times the last-level cache. Chunks are no longer.
inline constexpr std::uint64_t kIoMemorySetBytes = std::uint64_t{512} << 20;

struct IoOptions {
  IoWhat what = IoWhat::transfer;
  IoShape shape;
  std::uint32_t pairs = 5;  ///< rounds; every contestant runs once in each, in turn
  bool engine = false;      ///< also through the facade
  bool against_fio = false;
  bool against_floor = false;
  double load_share = 0.25;  ///< latency: of the measured load rate
  double seconds = 4;        ///< latency: of each half of a pair
  std::optional<std::string> dir;
  std::optional<std::string> markdown_file;
  OutputOptions output;
};

/// `io`: what moving chunks costs, against what it must cost. Ratios are taken pair by pair, within one
/// round; the table shows medians. One thread.
/// @return 0; 1 if a transfer failed; 2 with one line on `err`
int run_io(const IoOptions& options, std::ostream& out, std::ostream& err);

}  // namespace kv_offload::bench
