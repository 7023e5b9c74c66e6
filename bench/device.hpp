#pragma once

#include "kv_offload/messages/offload_key.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace kv_offload::bench {

/// How much of a chunk is compared with what its key says it must be.
enum class Verify : std::uint8_t {
  all,     ///< every byte
  sample,  ///< one 8-byte word of every 512 bytes, and both ends
  none,
};

/// Key of the chunk that a trace calls `chunk`: 32 hash bytes (four seeded lanes of XXH3 over the
/// number), cache group 0. The same in every run, so that a directory can be replayed again.
OffloadKey chunk_key(std::uint64_t chunk);

/// The "device": memory whose contents are a function of the key, so that any byte anywhere can be
/// checked without keeping a copy. Each 8-byte word mixes the key and its own offset; no two chunks and
/// no two offsets look alike. Free functions without state; call them from any thread.
void fill_chunk(std::span<std::byte> bytes, const OffloadKey& key);

/// Whether `bytes` are the contents of `key`. `Verify::none` is always true.
bool verify_chunk(std::span<const std::byte> bytes, const OffloadKey& key,
                  Verify verify = Verify::all);

}  // namespace kv_offload::bench
