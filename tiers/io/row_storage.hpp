#pragma once

#include "kv_offload/tiers/io/lane_storage.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

namespace kv_offload {

// What every storage that keeps rows on a disk does the same way.

inline StorageStep failed_step(TransferFailure why, int error) {
  return StorageStep::over(KeyEnd::failed(why, error));
}

inline StorageStep failed_store(int error) {
  const bool is_full = error == ENOSPC || error == EDQUOT;
  return failed_step(is_full ? TransferFailure::no_space : TransferFailure::io_error, error);
}

/// The tail of a row beyond the payload is zero on disk, whatever the slot held before.
inline void zero_padding(std::span<std::byte> row, std::uint64_t payload_bytes) {
  const auto padding = row.subspan(std::min<std::uint64_t>(payload_bytes, row.size()));
  const auto is_zero = [](std::byte b) { return b == std::byte{0}; };
  // Read first: the row may be on its way to other tiers, and writing would be a race for nothing.
  if (!std::all_of(padding.begin(), padding.end(), is_zero))
    std::fill(padding.begin(), padding.end(), std::byte{0});
}

}  // namespace kv_offload
