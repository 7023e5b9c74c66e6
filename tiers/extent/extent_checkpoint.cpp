#include "kv_offload/tiers/extent/extent_checkpoint.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <unistd.h>

namespace kv_offload {

namespace {

struct AreaHeader {
  std::uint64_t check;
  std::array<char, 8> magic;
  std::uint64_t epoch;
  std::array<std::uint64_t, 5> reserved;
};
static_assert(sizeof(AreaHeader) == 64);
struct SegmentRecency {
  std::uint64_t generation;
  std::uint64_t last_use;
};

constexpr std::array<char, 8> kRecencyMagic{'K', 'V', 'O', 'R', 'E', 'C', '0', '1'};
constexpr std::array<char, 8> kHotMagic{'K', 'V', 'O', 'H', 'O', 'T', '0', '1'};
constexpr std::uint64_t kHotPlace = 2;  // the copies of the recency are 0 and 1

void seal(const ExtentVolume& v, const AlignedBuffer& area, const std::array<char, 8>& magic,
          std::uint64_t place) {
  AreaHeader header{};
  header.magic = magic;
  header.epoch = v.recency_epoch;
  std::memcpy(area.data(), &header, sizeof header);
  header.check = v.codec.check(area.span().subspan(sizeof header.check), place);
  std::memcpy(area.data(), &header, sizeof header);
}

std::optional<std::uint64_t> epoch_of(const ExtentVolume& v, const AlignedBuffer& area,
                                      const std::array<char, 8>& magic, std::uint64_t place) {
  AreaHeader header;
  std::memcpy(&header, area.data(), sizeof header);
  if (header.magic != magic ||
      header.check != v.codec.check(area.span().subspan(sizeof header.check), place))
    return std::nullopt;
  return header.epoch;
}

std::uint64_t hot_byte(const ExtentVolume& v, std::uint32_t slot) {
  const std::uint64_t bytes_per_segment = (std::uint64_t{v.geometry.slots_per_segment} + 7) / 8;
  return sizeof(AreaHeader) + v.geometry.segment_of(slot) * bytes_per_segment +
         v.geometry.place_of(slot) / 8;
}
std::byte hot_bit(const ExtentVolume& v, std::uint32_t slot) {
  return std::byte{1} << (v.geometry.place_of(slot) % 8);
}

}  // namespace

AlignedBuffer encode_recency(ExtentVolume& v, std::uint64_t& offset) {
  ++v.recency_epoch;
  const std::uint64_t copy = v.recency_epoch % 2;
  offset = v.geometry.recency_at + copy * v.geometry.recency_bytes;
  AlignedBuffer area(v.geometry.recency_bytes);
  for (std::uint32_t i = 0; i < v.segments.size(); ++i) {
    const SegmentRecency r{v.segments[i].generation, v.segments[i].last_use};
    std::memcpy(area.data() + sizeof(AreaHeader) + i * sizeof r, &r, sizeof r);
  }
  seal(v, area, kRecencyMagic, copy);
  return area;
}

namespace {

/// A stop finishes so many; with more, the oldest: 80 us each make a third of a second.
constexpr std::size_t kErasuresAtStopMax = 4096;

int finish_erasures(ExtentVolume& v) {
  for (const std::uint32_t slot : v.superseded)
    v.erasures.push_back({slot, v.segments[v.geometry.segment_of(slot)].generation, false});
  v.superseded.clear();
  const AlignedBuffer block(ExtentGeometry::kBlockBytes);
  for (std::size_t n = 0; n < kErasuresAtStopMax && !v.erasures.empty(); ++n) {
    const RecordErasure erasure = v.erasures.front();
    v.erasures.pop_front();
    const std::uint32_t segment = v.geometry.segment_of(erasure.slot);
    if (v.segments[segment].generation != erasure.generation) continue;
    const std::uint64_t offset = ExtentGeometry::record_offset(v.geometry.place_of(erasure.slot));
    const std::uint64_t in_block = offset % ExtentGeometry::kBlockBytes;
    const std::uint64_t at = v.geometry.segment_at(segment) + offset - in_block;
    if (const int error = v.file.read(block.span(), at); error != 0) return error;
    std::memset(block.data() + in_block, 0, ExtentGeometry::kRecordBytes);
    if (const int error = v.file.write(block.span(), at); error != 0) return error;
  }
  return 0;
}

}  // namespace

int write_checkpoint(ExtentVolume& v) {
  const int unfinished = finish_erasures(v);

  std::uint64_t offset = 0;
  const AlignedBuffer recency = encode_recency(v, offset);
  const AlignedBuffer hot(v.geometry.hot_bytes);
  for (std::uint32_t s = 0; s < v.segments.size(); ++s) {
    if (v.segments[s].live == 0) continue;
    const std::uint32_t first = v.geometry.slot_of(s, 0);
    for (std::uint32_t slot = first; slot < first + v.geometry.slots_per_segment; ++slot)
      if (v.index.is_used(slot) && v.index.uses(slot) > 0)
        hot.data()[hot_byte(v, slot)] |= hot_bit(v, slot);
  }
  seal(v, hot, kHotMagic, kHotPlace);
  if (const int error = v.file.write(hot.span(), v.geometry.hot_at); error != 0) return error;
  if (const int error = v.file.write(recency.span(), offset); error != 0) return error;
  return ::fdatasync(v.fd()) == 0 ? unfinished : errno;
}

bool read_checkpoint(ExtentVolume& v) {
  std::optional<std::uint64_t> best;
  AlignedBuffer recency;
  for (std::uint64_t copy = 0; copy < 2; ++copy) {
    AlignedBuffer area(v.geometry.recency_bytes);
    if (v.file.read(area.span(), v.geometry.recency_at + copy * area.size()) != 0) continue;
    const auto epoch = epoch_of(v, area, kRecencyMagic, copy);
    if (!epoch || (best && *best > *epoch)) continue;
    best = epoch;
    recency = std::move(area);
  }
  if (!best) return false;
  v.recency_epoch = *best;
  const AlignedBuffer hot(v.geometry.hot_bytes);
  const bool is_clean = v.file.read(hot.span(), v.geometry.hot_at) == 0 &&
                        epoch_of(v, hot, kHotMagic, kHotPlace) == best;
  for (std::uint32_t s = 0; s < v.segments.size(); ++s) {
    SegmentRecency r;
    std::memcpy(&r, recency.data() + sizeof(AreaHeader) + s * sizeof r, sizeof r);
    v.segments.seen(r.last_use);
    v.segments.seen(r.generation);
    Segment& segment = v.segments[s];
    if (segment.generation == 0 || segment.generation != r.generation) continue;
    if (r.last_use > segment.last_use) segment.last_use = r.last_use;
    if (!is_clean) continue;
    const std::uint32_t first = v.geometry.slot_of(s, 0);
    for (std::uint32_t slot = first; slot < first + segment.used; ++slot)
      if (v.index.is_used(slot) &&
          (hot.data()[hot_byte(v, slot)] & hot_bit(v, slot)) != std::byte{0})
        v.index.count_use(slot);
  }
  return is_clean;
}

}  // namespace kv_offload
