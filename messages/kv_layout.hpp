#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv_offload {

/// How the workers of one engine share a row of the primary tier.
enum class ChunkLayout : std::uint8_t {
  sharded,     ///< [rank 0][rank 1]…[padding]: each rank has a slot of its own
  replicated,  ///< one slot: every rank holds the same bytes, rank 0 stores them, all load them
  canonical,   ///< one page without a trace of the parallel layout; each rank writes its fragments of it
};
constexpr std::string_view to_string(ChunkLayout layout) {
  constexpr std::string_view kNames[] = {"sharded", "replicated", "canonical"};
  return kNames[static_cast<std::size_t>(layout)];
}

/// `count` fragments of equal size at equal distances: where they lie in a rank's own page of one device block,
/// and where in the canonical page of that block. Bytes.
struct PageRun {
  std::uint64_t local_offset = 0;
  std::uint64_t canonical_offset = 0;
  std::uint64_t fragment_bytes = 0;
  std::uint64_t count = 1;
  std::uint64_t local_stride = 0;      ///< between the beginnings of two fragments; unused if count is 1
  std::uint64_t canonical_stride = 0;
  friend bool operator==(const PageRun&, const PageRun&) = default;
};

/// How one rank's page of a layer lies in the canonical page that all ranks together fill.
struct PageMapping {
  std::uint64_t canonical_page_bytes = 0;
  std::vector<PageRun> runs = {};
  /// Ranks that hold the same bytes take turns in writing them: block b of the primary tier (chunk · blocks per
  /// chunk + block in the chunk) is written by the one whose `writer` is b mod `num_writers`.
  std::uint32_t num_writers = 1;
  std::uint32_t writer = 0;
  /// The canonical page reads the same under every parallel layout. False: opaque bytes, of use only to
  /// workers that are laid out exactly so.
  bool parallelism_agnostic = true;
  friend bool operator==(const PageMapping&, const PageMapping&) = default;
};

/// A device buffer of KV cache: `num_blocks` pages behind each other.
struct KvTensor {
  std::string name = {};             ///< for messages
  std::byte* data = nullptr;         ///< device address (with the host back end: an address)
  std::uint64_t page_bytes = 0;      ///< of one block, and the distance between two
  std::uint64_t num_blocks = 0;
  /// Whoever frees the buffer drops this first: copies are refused from then on. Empty: not watched.
  std::optional<std::weak_ptr<const void>> alive = {};
};

/// One layer's share of a cache group: the first `page_bytes` of each page of a tensor.
struct KvRef {
  std::uint32_t tensor = 0;                     ///< index in KvCaches::tensors
  std::uint64_t page_bytes = 0;                 ///< at most the tensor's
  std::optional<PageMapping> mapping = {};      ///< canonical layout only
  std::string layer = {};                       ///< for messages
};

/// Everything of one worker's device that is offloaded. Owned by the embedder, which keeps the buffers.
struct KvCaches {
  std::vector<KvTensor> tensors;
  std::vector<std::vector<KvRef>> groups;  ///< per cache group of the model
};

/// One worker among those that share a region.
struct WorkerPlace {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t blocks_per_chunk = 1;
  ChunkLayout layout = ChunkLayout::sharded;
};

/// The rank of a worker from the index of its device on the machine, which counts the devices of all replicas.
constexpr std::uint32_t rank_of_device(std::uint32_t device_index, std::uint32_t world_size) {
  return world_size == 0 ? 0 : device_index % world_size;
}

}  // namespace kv_offload
