#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv_offload/messages/ids.hpp"

namespace kv_offload {

/// The primary tier's bytes as tiers and callers see them: `num_chunks` rows of `row_bytes` each
/// (page-aligned, padding included). A view of memory that the region owns and that outlives every
/// lane. Rows may be touched by whoever holds a pin, a reservation or a lease on the slot.
struct PrimaryView {
  std::byte* base = nullptr;
  std::uint64_t row_bytes = 0;     ///< stride; multiple of 4096
  std::uint64_t payload_bytes = 0; ///< configured chunk_bytes; the rest of the row is zero padding
  ChunkId num_chunks = 0;
  /// Per slot: transfers and leases that may touch the bytes right now. Raised and lowered by whoever
  /// runs the I/O; read by the primary tier when it hands a slot out (promise 6).
  std::atomic<std::uint32_t>* in_use = nullptr;

  [[nodiscard]] std::span<std::byte> row(ChunkId chunk) const {
    return {base + static_cast<std::uint64_t>(chunk) * row_bytes, row_bytes};
  }
  [[nodiscard]] std::span<std::byte> payload(ChunkId chunk) const {
    return {base + static_cast<std::uint64_t>(chunk) * row_bytes, payload_bytes};
  }
  void begin_use(ChunkId chunk) const { in_use[chunk].fetch_add(1, std::memory_order_acq_rel); }
  void end_use(ChunkId chunk) const { in_use[chunk].fetch_sub(1, std::memory_order_acq_rel); }
};

}  // namespace kv_offload
