#pragma once

#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/tiers/digest.hpp"
#include "kv_offload/tiers/extent/extent_geometry.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace kv_offload {

static_assert(std::endian::native == std::endian::little, "the format is little endian");

/// What is the same for all of a file.
struct Superblock {
  static constexpr std::array<char, 8> kMagic{'K', 'V', 'O', 'E', 'X', 'T', '0', '1'};
  static constexpr std::uint32_t kVersion = 1;

  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t slots_per_segment = 0;
  std::uint64_t row_bytes = 0;
  std::uint64_t capacity_bytes = 0;
  std::uint32_t num_segments = 0;
  std::uint32_t reserved = 0;
  std::array<std::uint64_t, 2> file_id{};      ///< random
  std::array<std::uint64_t, 2> fingerprint{};  ///< of the namespace without revision
  std::array<char, 256> model{};               ///< for people; zero-terminated
  std::uint64_t check = 0;

  friend bool operator==(const Superblock&, const Superblock&) = default;
};
static_assert(sizeof(Superblock) == 336);

using SuperblockBlock = std::array<std::byte, ExtentGeometry::kBlockBytes>;
void encode_superblock(const Superblock& superblock, std::span<std::byte> block);

enum class SuperblockParse : std::uint8_t { ok, zeros, unknown_version, damaged, foreign };
/// `superblock` is set if ok; its version also if unknown_version.
SuperblockParse parse_superblock(std::span<const std::byte> block, Superblock& superblock);

/// What a record says of one row.
struct ChunkRecord {
  std::uint64_t generation = 0;     ///< of its segment
  std::uint64_t namespace_tag = 0;  ///< namespace and revision
  std::uint64_t row_bytes = 0;
  ChunkDigest digest;
  OffloadKey key;
};

/// Writes and reads segment headers and records of one file. Every structure is checked with the file's
/// identity and its own place, so that what belongs elsewhere is not accepted. Immutable.
class ExtentCodec {
 public:
  ExtentCodec() = default;
  explicit ExtentCodec(const std::array<std::uint64_t, 2>& file_id)
      : seed_(file_id[0] ^ (file_id[1] * 0x9e3779b97f4a7c15ULL)) {}

  void encode_header(std::uint32_t segment, std::uint64_t generation,
                     std::span<std::byte> block) const;
  /// The generation; nullopt if there is no good header of this segment.
  [[nodiscard]] std::optional<std::uint64_t> parse_header(std::uint32_t segment,
                                                          std::span<const std::byte> block) const;
  /// @param bytes  kRecordBytes of them
  void encode_record(const ChunkRecord& record, std::uint32_t slot,
                     std::span<std::byte> bytes) const;
  /// nullopt unless it is a good record of this slot and generation.
  [[nodiscard]] std::optional<ChunkRecord> parse_record(std::span<const std::byte> bytes,
                                                        std::uint32_t slot,
                                                        std::uint64_t generation) const;
  /// For the areas of recency and hot bits.
  [[nodiscard]] std::uint64_t check(std::span<const std::byte> bytes, std::uint64_t place) const;

 private:
  std::uint64_t seed_ = 0;
};

/// 64 bits that stand for a namespace with its revision.
[[nodiscard]] std::uint64_t namespace_tag(std::string_view digest_namespace);
/// 128 bits that stand for a namespace without its revision.
[[nodiscard]] std::array<std::uint64_t, 2> namespace_fingerprint(std::string_view digest_namespace);

}  // namespace kv_offload
