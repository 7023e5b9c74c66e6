#pragma once

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/tiers/primary_view.hpp"

#include <cstdint>
#include <sys/uio.h>
#include <vector>

namespace kv_offload {

/// The region cut into I/O buffers that io_uring can register: none above 1 GiB, none ends inside a row.
struct RegistrationPlan {
  std::vector<iovec> buffers;  ///< empty: cannot be registered; use plain reads and writes
  ChunkId chunks_per_buffer = 0;

  /// Buffer that holds the whole row of `chunk`.
  [[nodiscard]] std::uint32_t buffer_of(ChunkId chunk) const { return chunk / chunks_per_buffer; }
};

inline constexpr std::uint64_t kRegisteredBufferBytesMax = 1ULL
                                                           << 30;  // larger ones fail with EFAULT
inline constexpr std::size_t kRegisteredBuffersMax = 1U << 14;     // IORING_MAX_REG_BUFFERS

[[nodiscard]] inline RegistrationPlan registration_plan(const PrimaryView& view) {
  RegistrationPlan plan;
  if (view.row_bytes == 0 || view.row_bytes > kRegisteredBufferBytesMax) return plan;
  plan.chunks_per_buffer = static_cast<ChunkId>(kRegisteredBufferBytesMax / view.row_bytes);
  if (view.num_chunks / plan.chunks_per_buffer >= kRegisteredBuffersMax) return plan;
  for (ChunkId first = 0; first < view.num_chunks; first += plan.chunks_per_buffer) {
    const ChunkId left = view.num_chunks - first;
    const ChunkId chunks = left < plan.chunks_per_buffer ? left : plan.chunks_per_buffer;
    plan.buffers.push_back({view.row(first).data(), chunks * view.row_bytes});
  }
  return plan;
}

}  // namespace kv_offload
