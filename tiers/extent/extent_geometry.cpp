#include "kv_offload/tiers/extent/extent_geometry.hpp"

#include "kv_offload/messages/byte_size.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace kv_offload {

namespace {

constexpr std::uint64_t kAreaHeaderBytes = 64;  // of the recency and the hot bits
constexpr std::uint64_t kRecencyBytes = 16;     // per segment

constexpr std::uint64_t kSlotsMax = std::numeric_limits<std::uint32_t>::max() - 2ULL;

/// Lays out everything in front of the segments for the present number of them.
void place_areas(ExtentGeometry& g) {
  const auto round_up = ExtentGeometry::round_up;
  g.recency_at = 2 * ExtentGeometry::kBlockBytes;
  g.recency_bytes = round_up(kAreaHeaderBytes + kRecencyBytes * g.num_segments);
  g.hot_at = g.recency_at + 2 * g.recency_bytes;
  g.hot_bytes =
      round_up(kAreaHeaderBytes + (std::uint64_t{g.slots_per_segment} + 7) / 8 * g.num_segments);
  g.data_at = g.hot_at + g.hot_bytes;
}

std::uint64_t default_segment_bytes(std::uint64_t capacity_bytes, std::uint64_t row_bytes) {
  const std::uint64_t wanted =
      std::clamp<std::uint64_t>(capacity_bytes / 64, 1ULL << 20, 256ULL << 20);
  return std::min(
      {wanted, capacity_bytes / 8, ExtentGeometry::kSlotsPerSegmentDefaultMax * row_bytes});
}

/// What follows from the length of a segment, which is not 0.
ExtentGeometry of_segments(std::uint64_t segment_bytes, std::uint64_t row_bytes) {
  ExtentGeometry g;
  g.row_bytes = row_bytes;
  g.slots_per_segment = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(segment_bytes / row_bytes, 1, ExtentGeometry::kSlotsPerSegmentMax));
  g.table_bytes = ExtentGeometry::round_up(ExtentGeometry::record_offset(g.slots_per_segment));
  g.stride = g.table_bytes + g.slots_per_segment * row_bytes;
  return g;
}

/// The length of a file with so many segments.
std::uint64_t bytes_with(ExtentGeometry g, std::uint32_t num_segments) {
  g.num_segments = num_segments;
  place_areas(g);
  return g.segment_at(num_segments);
}

}  // namespace

ExtentGeometry::CapacityRange ExtentGeometry::capacity_range(std::uint64_t segment_bytes,
                                                             std::uint64_t row_bytes) {
  // Derived segments are an eighth of a small file: one row each in the smallest. Of a large file they
  // have always the same length.
  ExtentGeometry small = of_segments(segment_bytes == 0 ? row_bytes : segment_bytes, row_bytes);
  const ExtentGeometry large = of_segments(
      segment_bytes == 0 ? default_segment_bytes(kCapacityMax, row_bytes) : segment_bytes,
      row_bytes);
  CapacityRange range{};
  range.min = std::max(kCapacityMin, bytes_with(small, kSegmentsMin));
  // In the smallest files of short rows an eighth has two of them.
  if (segment_bytes == 0 && range.min / 8 / row_bytes > 1) {
    small = of_segments(default_segment_bytes(range.min, row_bytes), row_bytes);
    range.min = std::max(range.min, bytes_with(small, kSegmentsMin));
  }
  constexpr std::uint64_t kGiB = 1ULL << 30;
  const std::uint64_t segments_max = kSlotsMax / large.slots_per_segment;
  range.max = segments_max >= kCapacityMax / large.stride
                  ? kCapacityMax
                  : (segments_max + 1) * large.stride / kGiB * kGiB;
  return range;
}

Expected<ExtentGeometry> ExtentGeometry::make(std::uint64_t capacity_bytes,
                                              std::uint64_t segment_bytes,
                                              std::uint64_t row_bytes) {
  const CapacityRange range = capacity_range(segment_bytes, row_bytes);
  const OffloadError refused{OffloadErrc::invalid_config,
                             "capacity_bytes: " + format_bytes(capacity_bytes) +
                                 " is not allowed; expected " + byte_range(range.min, range.max) +
                                 std::string(kCapacityMeaning)};
  if (capacity_bytes < range.min || capacity_bytes > range.max) return refused;
  ExtentGeometry g = of_segments(
      segment_bytes == 0 ? default_segment_bytes(capacity_bytes, row_bytes) : segment_bytes,
      row_bytes);
  g.capacity_bytes = capacity_bytes;
  g.num_segments = static_cast<std::uint32_t>(
      std::min(capacity_bytes / g.stride, kSlotsMax / g.slots_per_segment));
  place_areas(g);
  while (g.num_segments > 0 && g.segment_at(g.num_segments) > capacity_bytes) {
    --g.num_segments;
    place_areas(g);
  }
  if (g.num_segments < kSegmentsMin) return refused;
  return g;
}

}  // namespace kv_offload
