#include "kv_offload/tiers/extent/segment_writer.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace kv_offload {

namespace {

constexpr std::uint64_t kBlock = ExtentGeometry::kBlockBytes;

std::uint64_t buffer_bytes(const ExtentGeometry& g) {
  return std::min(SegmentWriter::kBlocksPerWrite * kBlock, g.table_bytes);
}

}  // namespace

SegmentWriter::SegmentWriter(const ExtentVolume& volume, std::uint32_t segment)
    : volume_(volume),
      segment_(segment),
      table_(volume.geometry.table_bytes),
      buffer_(buffer_bytes(volume.geometry)),
      dirty_(volume.geometry.table_bytes / kBlock) {
  volume_.codec.encode_header(segment, volume.segments[segment].generation, table_.span());
  dirty_[0] = true;
  num_dirty_ = 1;
}

SegmentWriter::SegmentWriter(const ExtentVolume& volume, std::uint32_t segment, AlignedBuffer table)
    : volume_(volume),
      segment_(segment),
      table_(std::move(table)),
      buffer_(buffer_bytes(volume.geometry)),
      dirty_(volume.geometry.table_bytes / kBlock),
      is_ready_(true) {}

std::uint32_t SegmentWriter::num_left() const {
  return volume_.geometry.slots_per_segment - volume_.segments[segment_].used;
}

std::uint32_t SegmentWriter::take(SegmentTable& segments) {
  assert(is_ready_ && num_left() > 0);
  ++open_slots_;
  const std::uint32_t place = segments[segment_].used;
  segments.use(segment_, 1);
  return volume_.geometry.slot_of(segment_, place);
}

std::span<std::byte> SegmentWriter::record_bytes(std::uint32_t slot) const {
  assert(volume_.geometry.segment_of(slot) == segment_);
  return table_.span(ExtentGeometry::record_offset(volume_.geometry.place_of(slot)),
                     ExtentGeometry::kRecordBytes);
}

void SegmentWriter::put(std::uint32_t slot, const ChunkRecord& record, RecordWaiter waiter) {
  assert(open_slots_ > 0);
  --open_slots_;
  volume_.codec.encode_record(record, slot, record_bytes(slot));
  changed(slot, waiter, true);
}

void SegmentWriter::wipe(std::uint32_t slot, RecordWaiter waiter) {
  const auto bytes = record_bytes(slot);
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  changed(slot, waiter, false);
}

void SegmentWriter::changed(std::uint32_t slot, RecordWaiter waiter, bool is_record) {
  const auto block = ExtentGeometry::block_of_record(volume_.geometry.place_of(slot));
  if (!dirty_[block]) ++num_dirty_;
  dirty_[block] = true;
  waiting_.push_back({waiter, slot, is_record});
}

bool SegmentWriter::next_write(OwnIo& io) {
  if (is_writing_ || num_dirty_ == 0) return false;
  const auto first =
      static_cast<std::uint64_t>(std::find(dirty_.begin(), dirty_.end(), true) - dirty_.begin());
  std::uint64_t end = first;
  for (; end < dirty_.size() && dirty_[end] && (end - first) * kBlock < buffer_.size(); ++end) {
    dirty_[end] = false;
    --num_dirty_;
  }
  const std::uint64_t length = (end - first) * kBlock;
  std::memcpy(buffer_.data(), table_.data() + first * kBlock, length);
  const auto is_in_it = [&](const Waiting& w) {
    const auto block = ExtentGeometry::block_of_record(volume_.geometry.place_of(w.slot));
    return block >= first && block < end;
  };
  const auto others = std::stable_partition(waiting_.begin(), waiting_.end(), is_in_it);
  flying_.assign(waiting_.begin(), others);
  waiting_.erase(waiting_.begin(), others);

  is_writing_ = true;
  io = {IoOp::write,    volume_.fd(), volume_.geometry.segment_at(segment_) + first * kBlock,
        buffer_.data(), length,       0};
  return true;
}

void SegmentWriter::write_over(int error, std::vector<RecordEnd>& ended) {
  assert(is_writing_);
  is_writing_ = false;
  if (error == 0) is_ready_ = true;
  for (const Waiting& w : flying_) {
    // What could not be written must not go along with a later write of the block.
    if (error != 0 && w.is_record) {
      const auto bytes = record_bytes(w.slot);
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
    }
    ended.push_back({w.waiter, error});
  }
  flying_.clear();
}

bool SegmentWriter::is_idle() const { return !is_writing_ && num_dirty_ == 0 && open_slots_ == 0; }

}  // namespace kv_offload
