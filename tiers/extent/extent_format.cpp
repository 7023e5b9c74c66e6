#include "kv_offload/tiers/extent/extent_format.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <cstring>

namespace kv_offload {

namespace {

constexpr std::array<char, 8> kSegmentMagic{'K', 'V', 'O', 'S', 'E', 'G', '0', '1'};

struct HeaderOnDisk {
  std::uint64_t check;
  std::array<char, 8> magic;
  std::uint64_t generation;
  std::uint32_t segment;
  std::uint32_t reserved;
};
static_assert(sizeof(HeaderOnDisk) == 32);

struct RecordOnDisk {
  std::uint64_t check;
  std::uint64_t generation;
  std::uint64_t namespace_tag;
  std::array<std::byte, 16> digest;
  std::uint64_t row_bytes;
  std::uint8_t version;
  std::uint8_t key_bytes;
  std::array<std::uint8_t, 2> reserved;
  std::array<std::byte, OffloadKey::kMaxBytes> key;
  std::uint32_t reserved2;
};
static_assert(sizeof(RecordOnDisk) == ExtentGeometry::kRecordBytes);

constexpr std::uint8_t kRecordVersion = 1;
/// Places for checks: slots as they are, segments above all of them, areas above those.
constexpr std::uint64_t kSegmentPlace = 1ULL << 32;
constexpr std::uint64_t kAreaPlace = 1ULL << 40;

std::uint64_t check_of(const void* data, std::size_t bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

std::uint64_t superblock_check(const Superblock& s) {
  return check_of(&s, offsetof(Superblock, check), 0);
}

template <class T>
std::uint64_t body_check(const T& t, std::uint64_t seed) {
  return check_of(reinterpret_cast<const std::byte*>(&t) + sizeof t.check,
                  sizeof t - sizeof t.check, seed);
}

}  // namespace

void encode_superblock(const Superblock& superblock, std::span<std::byte> block) {
  Superblock s = superblock;
  s.check = superblock_check(s);
  std::fill(block.begin(), block.end(), std::byte{0});
  std::memcpy(block.data(), &s, sizeof s);
}

SuperblockParse parse_superblock(std::span<const std::byte> block, Superblock& superblock) {
  assert(block.size() >= sizeof superblock);
  Superblock s;
  std::memcpy(&s, block.data(), sizeof s);
  if (s.magic != Superblock::kMagic) {
    const auto is_zero = [](std::byte b) { return b == std::byte{0}; };
    return std::all_of(block.begin(), block.end(), is_zero) ? SuperblockParse::zeros
                                                            : SuperblockParse::foreign;
  }
  if (s.version != Superblock::kVersion) {
    superblock.version = s.version;
    return SuperblockParse::unknown_version;
  }
  if (s.check != superblock_check(s)) return SuperblockParse::damaged;
  s.model.back() = '\0';
  superblock = s;
  return SuperblockParse::ok;
}

void ExtentCodec::encode_header(std::uint32_t segment, std::uint64_t generation,
                                std::span<std::byte> block) const {
  HeaderOnDisk h{};
  h.magic = kSegmentMagic;
  h.generation = generation;
  h.segment = segment;
  h.check = body_check(h, seed_ ^ (kSegmentPlace + segment));
  std::memcpy(block.data(), &h, sizeof h);
}

std::optional<std::uint64_t> ExtentCodec::parse_header(std::uint32_t segment,
                                                       std::span<const std::byte> block) const {
  HeaderOnDisk h;
  std::memcpy(&h, block.data(), sizeof h);
  if (h.magic != kSegmentMagic || h.segment != segment || h.generation == 0 ||
      h.check != body_check(h, seed_ ^ (kSegmentPlace + segment)))
    return std::nullopt;
  return h.generation;
}

void ExtentCodec::encode_record(const ChunkRecord& record, std::uint32_t slot,
                                std::span<std::byte> bytes) const {
  RecordOnDisk r{};
  r.generation = record.generation;
  r.namespace_tag = record.namespace_tag;
  r.digest = record.digest.value;
  r.row_bytes = record.row_bytes;
  r.version = kRecordVersion;
  const auto key = record.key.bytes();
  r.key_bytes = static_cast<std::uint8_t>(key.size());
  std::copy(key.begin(), key.end(), r.key.begin());
  r.check = body_check(r, seed_ ^ slot);
  std::memcpy(bytes.data(), &r, sizeof r);
}

std::optional<ChunkRecord> ExtentCodec::parse_record(std::span<const std::byte> bytes,
                                                     std::uint32_t slot,
                                                     std::uint64_t generation) const {
  RecordOnDisk r;
  std::memcpy(&r, bytes.data(), sizeof r);
  // The generation first: most of a table that does not count is of an older one, or zeros.
  if (r.generation != generation || r.version != kRecordVersion ||
      r.key_bytes > OffloadKey::kMaxBytes || r.check != body_check(r, seed_ ^ slot))
    return std::nullopt;
  const auto key = OffloadKey::from_bytes({r.key.data(), r.key_bytes});
  if (!key) return std::nullopt;
  return ChunkRecord{r.generation, r.namespace_tag, r.row_bytes, {r.digest}, *key};
}

std::uint64_t ExtentCodec::check(std::span<const std::byte> bytes, std::uint64_t place) const {
  return check_of(bytes.data(), bytes.size(), seed_ ^ (kAreaPlace + place));
}

std::uint64_t namespace_tag(std::string_view digest_namespace) {
  return check_of(digest_namespace.data(), digest_namespace.size(), 1);
}

std::array<std::uint64_t, 2> namespace_fingerprint(std::string_view digest_namespace) {
  const XXH128_hash_t h = XXH3_128bits(digest_namespace.data(), digest_namespace.size());
  return {h.low64, h.high64};
}

}  // namespace kv_offload
