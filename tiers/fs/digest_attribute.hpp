#pragma once

#include "kv_offload/tiers/digest.hpp"

namespace kv_offload {

enum class StoredDigest : std::uint8_t {
  present,
  absent,     ///< none, or one of a later version: not a file of ours
  malformed,  ///< damaged
  error,      ///< could not be read; errno tells why
};

/// Reads the digest that was stored beside an open file's bytes.
StoredDigest read_digest_attribute(int fd, ChunkDigest& digest);
/// Stores it. 0 or errno.
int write_digest_attribute(int fd, const ChunkDigest& digest);

}  // namespace kv_offload
