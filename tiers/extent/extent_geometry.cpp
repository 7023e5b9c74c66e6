#include "kv_offload/tiers/extent/extent_geometry.hpp"

#include "kv_offload/messages/byte_size.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace kv_offload {

namespace {

constexpr std::uint64_t kAreaHeaderBytes = 64;  // of the recency and the hot bits
constexpr std::uint64_t kRecencyBytes = 16;     // per segment

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

}  // namespace

Expected<ExtentGeometry> ExtentGeometry::make(std::uint64_t capacity_bytes,
                                              std::uint64_t segment_bytes,
                                              std::uint64_t row_bytes) {
  ExtentGeometry g;
  g.capacity_bytes = capacity_bytes;
  g.row_bytes = row_bytes;
  if (segment_bytes == 0) segment_bytes = default_segment_bytes(capacity_bytes, row_bytes);
  g.slots_per_segment = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(segment_bytes / row_bytes, 1, kSlotsPerSegmentMax));
  g.table_bytes = round_up(record_offset(g.slots_per_segment));
  g.stride = g.table_bytes + g.slots_per_segment * row_bytes;

  const std::uint64_t fitting = capacity_bytes / g.stride;
  if (fitting * g.slots_per_segment >= std::numeric_limits<std::uint32_t>::max() - 1)
    return {OffloadErrc::invalid_config, "capacity_bytes: " + format_bytes(capacity_bytes) +
                                             " is more than 2^32 - 2 rows of " +
                                             format_bytes(row_bytes)};
  g.num_segments = static_cast<std::uint32_t>(fitting);
  place_areas(g);
  while (g.num_segments > 0 && g.segment_at(g.num_segments) > capacity_bytes) {
    --g.num_segments;
    place_areas(g);
  }
  if (g.num_segments < kSegmentsMin)
    return {OffloadErrc::invalid_config,
            "capacity_bytes: " + format_bytes(capacity_bytes) + " is too small: at least " +
                std::to_string(kSegmentsMin) + " segments of " + format_bytes(g.stride) +
                " are needed; give more, or a smaller segment_bytes"};
  return g;
}

}  // namespace kv_offload
