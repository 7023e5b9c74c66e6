#pragma once

#include "kv_offload/messages/offload_key.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace kv_offload {

/// Digest of one chunk: a function of namespace, key, length and bytes, so that a flipped byte, a
/// swapped file and a misdirected write are all found. Not cryptographic: it finds accidents.
struct ChunkDigest {
  std::array<std::byte, 16> value{};
  friend bool operator==(const ChunkDigest&, const ChunkDigest&) = default;
};

/// Computes digests for one namespace. Thread-safe; copying is cheap.
///
/// Version 1, algorithm xxh3-128 (all XXH3 values in canonical byte order):
///   inner  = XXH3_128(bytes)
///   digest = XXH3_128(XXH3_128(namespace) | key length as 1 byte | key | length as 8 bytes LE | inner)
class ChunkDigester {
 public:
  explicit ChunkDigester(std::string_view name_space);
  [[nodiscard]] ChunkDigest digest(const OffloadKey& key, std::span<const std::byte> bytes) const;
  /// Copies `from` to `to` (as long, not overlapping) and answers the digest of what was copied: memory is
  /// read once, each piece is digested while the cache still has it.
  ChunkDigest copy_and_digest(const OffloadKey& key, std::span<const std::byte> from,
                              std::span<std::byte> to) const;

 private:
  friend class DigestStream;
  [[nodiscard]] ChunkDigest finish(const OffloadKey& key, std::uint64_t length,
                                   const std::array<std::byte, 16>& inner) const;

  std::array<std::byte, 16> namespace_hash_;
};

/// The digest of bytes that come piece by piece. One owner; may be used again after begin().
class DigestStream {
 public:
  DigestStream();
  ~DigestStream();
  DigestStream(DigestStream&&) noexcept;
  DigestStream& operator=(DigestStream&&) noexcept;

  void begin();
  void take(std::span<const std::byte> piece);
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// Of everything taken since begin(), as `digester` would say of it at once.
  [[nodiscard]] ChunkDigest finish(const ChunkDigester& digester, const OffloadKey& key) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::uint64_t bytes_ = 0;
};

/// Name of the extended attribute that carries the digest of a file's bytes.
inline constexpr const char* kDigestAttribute = "user.kv_offload.digest";
/// Its value, text without terminator: "1:xxh3-128:" and 32 lower-case hex digits.
inline constexpr std::string_view kDigestPrefix = "1:xxh3-128:";
inline constexpr std::size_t kDigestAttributeBytes = kDigestPrefix.size() + 32;
using DigestAttribute = std::array<char, kDigestAttributeBytes>;

[[nodiscard]] DigestAttribute encode_digest(const ChunkDigest& digest);

enum class DigestParse : std::uint8_t {
  ok,
  unknown_version,  ///< well-formed start of another version or algorithm: written by a later release
  malformed,        ///< not written by any release: damaged
};
/// Strict: only what encode_digest writes is ok. `digest` is set only then.
[[nodiscard]] DigestParse parse_digest(std::string_view attribute, ChunkDigest& digest);

}  // namespace kv_offload
