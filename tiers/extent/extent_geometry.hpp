#pragma once

#include "kv_offload/messages/expected.hpp"

#include <cstdint>
#include <string_view>

namespace kv_offload {

/// Where what lies in an extent file, computed from three numbers; README.md has the drawing. A slot is
/// the room of one row, numbered through all segments.
struct ExtentGeometry {
  static constexpr std::uint64_t kBlockBytes = 4096;
  static constexpr std::uint64_t kRecordBytes = 128;
  static constexpr std::uint64_t kCapacityMin = 64U << 10;   ///< whatever the length of a row
  static constexpr std::uint64_t kCapacityMax = 1ULL << 50;  ///< 1 PiB: far from any overflow
  static constexpr std::uint32_t kSegmentsMin = 4;  ///< one is filled, one free or being cleaned
  static constexpr std::uint32_t kSlotsPerSegmentMax = 1U << 20;
  /// Dropping a segment takes 0.15 us per slot on the lane's thread: 2.5 ms.
  static constexpr std::uint32_t kSlotsPerSegmentDefaultMax = 1U << 14;

  /// What the bounds of capacity_range() mean, for messages.
  static constexpr std::string_view kCapacityMeaning =
      ": at least 4 segments with their tables (a smaller segment_bytes needs less), fewer "
      "than 2^32 - 2 rows";

  std::uint64_t capacity_bytes = 0;
  std::uint64_t row_bytes = 0;
  std::uint32_t slots_per_segment = 0;
  std::uint32_t num_segments = 0;
  std::uint64_t table_bytes = 0;    ///< record table of one segment
  std::uint64_t stride = 0;         ///< from one segment to the next
  std::uint64_t recency_at = 0;     ///< the first of two copies
  std::uint64_t recency_bytes = 0;  ///< of one copy
  std::uint64_t hot_at = 0;
  std::uint64_t hot_bytes = 0;
  std::uint64_t data_at = 0;

  /// @param segment_bytes  0: capacity / 64, in 1 MiB to 256 MiB, at most an eighth of the capacity and
  ///                       kSlotsPerSegmentDefaultMax rows
  /// Fails, with the reason, outside capacity_range().
  static Expected<ExtentGeometry> make(std::uint64_t capacity_bytes, std::uint64_t segment_bytes,
                                       std::uint64_t row_bytes);

  /// The least and the most that make() takes for `capacity_bytes`: with room for kSegmentsMin segments, and
  /// for no more rows than slots can be numbered (rounded down to whole GiB).
  struct CapacityRange {
    std::uint64_t min, max;
  };
  static CapacityRange capacity_range(std::uint64_t segment_bytes, std::uint64_t row_bytes);

  [[nodiscard]] std::uint64_t num_slots() const {
    return std::uint64_t{num_segments} * slots_per_segment;
  }
  [[nodiscard]] std::uint32_t segment_of(std::uint32_t slot) const {
    return slot / slots_per_segment;
  }
  [[nodiscard]] std::uint32_t place_of(std::uint32_t slot) const {
    return slot % slots_per_segment;
  }
  [[nodiscard]] std::uint32_t slot_of(std::uint32_t segment, std::uint32_t place) const {
    return segment * slots_per_segment + place;
  }
  [[nodiscard]] std::uint64_t segment_at(std::uint32_t segment) const {
    return data_at + segment * stride;
  }
  [[nodiscard]] std::uint64_t row_at(std::uint32_t slot) const {
    return segment_at(segment_of(slot)) + table_bytes + place_of(slot) * row_bytes;
  }
  /// Byte of a record within its segment's table; the header is before the first one.
  static constexpr std::uint64_t record_offset(std::uint32_t place) {
    return (std::uint64_t{place} + 1) * kRecordBytes;
  }
  static constexpr std::uint64_t block_of_record(std::uint32_t place) {
    return record_offset(place) / kBlockBytes;
  }
  static constexpr std::uint64_t round_up(std::uint64_t bytes) {
    return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  }
};

}  // namespace kv_offload
