#pragma once

#include <cstddef>
#include <cstdint>

namespace kv_offload {

enum class IoOp : std::uint8_t {
  read,
  write,
  sync_data,  ///< fdatasync
  sync_file,  ///< fsync
  unlink,     ///< removes the name `path`; result 0
};

/// One operation for a backend: a value, owns nothing. Buffer, path and descriptor stay valid until the
/// completion with the same tag was reaped, whatever else fails.
struct IoRequest {
  IoOp op = IoOp::read;
  int fd = -1;
  std::uint64_t offset = 0;
  std::byte* buffer = nullptr;  ///< null for the sync operations and unlink
  std::uint32_t length = 0;     ///< bytes; at most ChunkTransfer::kRequestBytesMax
  int buffer_index = -1;        ///< registered buffer that holds `buffer`; -1: plain memory
  std::uint64_t tag = 0;        ///< comes back with the completion
  const char* path = nullptr;   ///< unlink only: absolute or relative to the working directory
};

/// Result of one request: bytes moved, or a negative errno (never through `errno`).
struct IoCompletion {
  std::uint64_t tag = 0;
  std::int32_t result = 0;
};

}  // namespace kv_offload
