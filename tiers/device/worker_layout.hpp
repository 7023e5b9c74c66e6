#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/kv_layout.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

/// Where one rank's bytes lie in a row. Made of what the worker registers, checked against what the engine offers.
///
///   sharded, replicated: slot of the rank, inside it the tensors one behind the other, each
///                        page_bytes × blocks_per_chunk: [t0 b0][t0 b1]…[t1 b0]…
///   canonical:           the same from the row's beginning, with the canonical page of each tensor (the largest
///                        of its layers) in place of the rank's own
struct WorkerLayout {
  WorkerPlace place;
  std::uint64_t slot_offset = 0;   ///< of this rank in the row; 0 unless sharded
  std::uint64_t slot_bytes = 0;    ///< of one rank, not rounded; canonical: of the whole page
  std::uint64_t chunk_bytes = 0;   ///< payload of a row: slot_bytes × world_size if sharded, else slot_bytes
  struct Tensor {
    std::uint64_t offset = 0;      ///< of its first block in the row, slot included
    std::uint64_t page_bytes = 0;  ///< of one block in the row, and the distance to the next
  };
  std::vector<Tensor> tensors;
  std::optional<bool> all_layers_portable;  ///< canonical only

  /// `chunk_bytes`: the payload that the engine gives a chunk; must be exactly what this layout fills.
  /// Errors name tensor or layer, value, causes and remedy: rank out of range, a page that is larger than its
  /// tensor's, a ref to no tensor, runs that leave a page or overlap, a ref without mapping in the canonical
  /// layout, an opaque layer under a collapsed namespace, sizes that do not divide.
  /// Without `chunk_bytes`: whatever it fills, for a worker that does not know its engine yet.
  static Expected<WorkerLayout> make(const KvCaches& caches, const WorkerPlace& place,
                                     std::optional<std::uint64_t> chunk_bytes, bool namespace_collapsed);
};

/// What a layout says to the engine: enough to check that the ranks fit together. Plain, so that it can be sent.
struct RankLayout {
  WorkerPlace place;
  std::uint64_t chunk_bytes = 0;
  struct Ref {
    std::uint32_t group = 0;
    std::uint32_t tensor = 0;
    std::string layer;
    std::uint64_t page_bytes = 0;
    std::optional<PageMapping> mapping;
  };
  std::vector<std::uint64_t> page_bytes;  ///< per tensor, in the row
  std::vector<Ref> refs;
};
[[nodiscard]] RankLayout describe_layout(const KvCaches& caches, const WorkerLayout& layout);

/// Do these ranks (all of them, any order) fit together? Same tensors in the row, and in the canonical layout
/// every canonical page of every layer is written exactly once, whoever's turn it is. The error names layer,
/// ranks and byte range.
Expected<Ok> check_ranks(const std::vector<RankLayout>& ranks);

}  // namespace kv_offload
