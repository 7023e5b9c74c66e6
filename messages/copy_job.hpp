#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/monotonic_time.hpp"

namespace kv_offload {

/// Device blocks of one transfer, cache group after cache group.
struct BlockList {
  std::vector<std::uint32_t> block_ids = {};    ///< of the device, all groups behind each other
  std::vector<std::uint32_t> group_sizes = {};  ///< blocks of each group; their sum is block_ids.size(); 0 is allowed
  /// Per group: index of its first block in the request. Its remainder by blocks_per_chunk is where it lies in
  /// the group's first chunk, so a transfer may begin in the middle of one.
  std::vector<std::uint32_t> first_blocks = {};
};

/// An event of the device's compute stream, as the back end knows it (CUDA: the cudaEvent_t); 0: none.
using DeviceEventHandle = std::uint64_t;

/// Copies of one rank between its device blocks and rows of the primary tier.
struct CopyJob {
  std::uint64_t id = 0;     ///< the caller's; unique among running jobs
  bool is_load = false;     ///< false: device → primary
  BlockList blocks = {};
  /// Rows, group after group: a group of n blocks that begins at b takes ceil((b mod blocks_per_chunk + n) ÷
  /// blocks_per_chunk) of them.
  std::vector<ChunkId> chunk_ids = {};
  DeviceEventHandle after = 0;  ///< the copies begin behind it
};

/// The end of a copy job: nothing of it touches device or primary tier any more.
struct CopyResult {
  std::uint64_t id = 0;
  bool success = false;
  std::string error = {};  ///< one line, if it failed
  std::uint64_t bytes = 0;
  Duration time{};         ///< from the first copy's begin to the last one's end, as the device says
};

}  // namespace kv_offload
