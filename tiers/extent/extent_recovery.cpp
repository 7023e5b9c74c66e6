#include "kv_offload/tiers/extent/extent_recovery.hpp"

#include "kv_offload/tiers/extent/extent_checkpoint.hpp"
#include "kv_offload/tiers/io/aligned_buffer.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace kv_offload {

namespace {

using Found = std::pair<std::uint64_t, std::uint32_t>;  // generation, segment

/// Superseded slots remembered for erasure; beyond it a forget could bring an old copy back after a
/// restart. More than any cleaning leaves: it rewrites at most half of one segment.
constexpr std::size_t kSupersededMax = ExtentGeometry::kSlotsPerSegmentMax;

/// Everything in the table that counts enters the index; what an older segment has of the same key leaves.
/// Answers how many slots are taken, from the front to the last record.
std::uint32_t take_table(ExtentVolume& v, std::uint32_t segment, std::span<const std::byte> table,
                         ExtentRecovery& result) {
  const ExtentGeometry& g = v.geometry;
  Segment& s = v.segments[segment];
  std::uint32_t used = 0;
  for (std::uint32_t place = 0; place < g.slots_per_segment; ++place) {
    const std::uint32_t slot = g.slot_of(segment, place);
    const auto record = v.codec.parse_record(
        table.subspan(ExtentGeometry::record_offset(place), ExtentGeometry::kRecordBytes), slot,
        s.generation);
    if (!record || record->row_bytes != g.row_bytes) continue;
    used = place + 1;
    const KeyHash hash = key_hash(record->namespace_tag, record->key);
    if (!v.publish(hash, record->digest, slot)) {
      const std::uint32_t old = *v.index.find(hash);
      v.drop(old);
      if (v.superseded.size() < kSupersededMax) v.superseded.push_back(old);
      ++result.superseded;
      (void)v.publish(hash, record->digest, slot);
    }
  }
  return used;
}

}  // namespace

ExtentRecovery recover(ExtentVolume& v) {
  const ExtentGeometry& g = v.geometry;
  ExtentRecovery result;
  const AlignedBuffer block(ExtentGeometry::kBlockBytes);
  std::vector<Found> found;
  std::vector<std::uint32_t> unreadable;
  const auto cannot_read = [&](std::uint32_t segment, int error) {
    if (result.error == 0) result.error = error;
    ++result.unreadable;
    unreadable.push_back(segment);
  };
  for (std::uint32_t i = 0; i < g.num_segments && !v.file.is_new(); ++i) {
    if (const int error = v.file.read(block.span(), g.segment_at(i)); error != 0)
      cannot_read(i, error);
    else if (const auto generation = v.codec.parse_header(i, block.span()))
      found.emplace_back(*generation, i);
  }
  std::sort(found.begin(), found.end());
  AlignedBuffer table(g.table_bytes);
  for (const auto& [generation, i] : found) {
    v.segments.seen(generation);
    if (const int error = v.file.read(table.span(), g.segment_at(i)); error != 0) {
      cannot_read(i, error);
      continue;
    }
    Segment& segment = v.segments[i];
    segment.generation = generation;
    segment.last_use = generation;
    segment.state = SegmentState::sealed;
    const std::uint32_t used = take_table(v, i, table.span(), result);
    const bool goes_on = i == found.back().second && segment.live > 0;
    v.segments.use(i, goes_on ? used : g.slots_per_segment);
    if (segment.used == g.slots_per_segment) continue;
    segment.state = SegmentState::filling;
    v.partial = {i, std::move(table)};  // it is the last
  }
  result.was_clean = read_checkpoint(v);
  // A generation that was given out and whose header did not reach the disk is not given out again.
  v.segments.seen(v.segments.tick() + g.num_segments);
  // A segment without a chunk is as good as free: its header is overwritten when it is opened.
  for (std::uint32_t i = 0; i < g.num_segments; ++i)
    if (v.segments[i].live == 0 && !std::count(unreadable.begin(), unreadable.end(), i))
      v.segments.push_free(i);
  for (const std::uint32_t i : unreadable) v.segments.push_free(i);
  result.chunks = v.index.size();
  return result;
}

}  // namespace kv_offload
