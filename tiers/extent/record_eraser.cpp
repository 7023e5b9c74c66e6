#include "kv_offload/tiers/extent/record_eraser.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace kv_offload {

namespace {

constexpr std::uint64_t io_id(std::uint64_t kind, std::uint64_t number = 0) {
  return (kind << 32) | number;
}

}  // namespace

void RecordEraser::erase(std::uint32_t slot) {
  if (volume_.erasures.size() >= kErasuresMax) return;
  const std::uint32_t segment = volume_.geometry.segment_of(slot);
  volume_.erasures.push_back({slot, volume_.segments[segment].generation, false});
}

void RecordEraser::take_superseded() {
  for (const std::uint32_t slot : volume_.superseded) erase(slot);
  volume_.superseded.clear();
}

bool RecordEraser::next_io(OwnIo& io) {
  if (!volume_.superseded.empty()) take_superseded();
  do {
    if (!current_ && !waiting_.empty()) begin_forget();
    if (is_searching() && next_scan_io(io)) return true;
    if (next_batch_io(io)) return true;
    try_answer();
  } while (!current_ && !waiting_.empty());
  return false;
}

// --- forgetting -----------------------------------------------------------------------------------

void RecordEraser::begin_forget() {
  current_ = Forget{};
  current_->work = std::move(waiting_.front());
  waiting_.pop_front();
  if (cleaner_.is_active()) current_->behind_victim = cleaner_.cycle();
  if (current_->work.salt) {
    // Rows that move from a table not yet searched into one that was would be missed.
    cleaner_.pause_copies(true);
    current_->next_segment = 0;
    return;
  }
  std::vector<std::uint32_t> slots;
  for (const OffloadKey& key : current_->work.keys)
    if (const auto slot = volume_.index.find(key_hash(current_->work.namespace_tag, key)))
      slots.push_back(*slot);
  std::sort(slots.begin(), slots.end());  // those of one block together
  for (const std::uint32_t slot : slots) forget_slot(slot);
}

void RecordEraser::forget_slot(std::uint32_t slot) {
  if (!volume_.drop(slot)) return;  // named twice
  ++current_->chunks;
  ++current_->erasures;
  const std::uint32_t segment = volume_.geometry.segment_of(slot);
  volume_.erasures.push_back({slot, volume_.segments[segment].generation, true});
}

bool RecordEraser::next_scan_io(OwnIo& io) {
  if (is_scanning_ || cleaner_.is_copying()) return false;
  for (; is_searching(); ++current_->next_segment) {
    const std::uint32_t segment = current_->next_segment;
    if (volume_.segments[segment].live == 0) continue;
    if (const SegmentWriter* writer = filler_.writer_of(segment)) {
      scan(segment, writer->table());
      continue;
    }
    if (!scan_table_) scan_table_ = AlignedBuffer(volume_.geometry.table_bytes);
    is_scanning_ = true;
    ++volume_.segments[segment].readers;
    io = {IoOp::read,         volume_.fd(),       volume_.geometry.segment_at(segment),
          scan_table_.data(), scan_table_.size(), io_id(kScanIo, segment)};
    return true;
  }
  cleaner_.pause_copies(false);
  scan_table_ = {};
  return false;
}

void RecordEraser::scan(std::uint32_t segment, std::span<const std::byte> table) {
  const ExtentGeometry& g = volume_.geometry;
  for (std::uint32_t place = 0; place < g.slots_per_segment; ++place) {
    const std::uint32_t slot = g.slot_of(segment, place);
    if (!volume_.index.is_used(slot)) continue;
    const auto record = volume_.codec.parse_record(
        table.subspan(ExtentGeometry::record_offset(place), ExtentGeometry::kRecordBytes), slot,
        volume_.segments[segment].generation);
    if (record && record->key.has_salt(*current_->work.salt)) forget_slot(slot);
  }
}

void RecordEraser::try_answer() {
  if (!current_ || is_searching() || current_->erasures > 0) return;
  // Copies that were under way when their key was forgotten are erased behind it.
  if (stage_ != Stage::idle || !volume_.erasures.empty() || !volume_.superseded.empty()) return;
  // The victim's table still holds old copies of what was rewritten, until it is wiped.
  if (current_->behind_victim == cleaner_.cycle() && cleaner_.is_active()) return;
  shared_.forgot(current_->work.id, current_->chunks, std::move(current_->error));
  current_.reset();
}

// --- erasing --------------------------------------------------------------------------------------

std::uint64_t RecordEraser::block_at() const {
  const ExtentGeometry& g = volume_.geometry;
  const std::uint32_t slot = batch_.front().slot;
  return g.segment_at(g.segment_of(slot)) +
         ExtentGeometry::block_of_record(g.place_of(slot)) * ExtentGeometry::kBlockBytes;
}

bool RecordEraser::next_batch_io(OwnIo& io) {
  while (stage_ == Stage::idle && !volume_.erasures.empty()) {
    begin_batch();
    if (stage_ != Stage::reading) continue;
    io = {IoOp::read, volume_.fd(), block_at(), block_.data(), block_.size(), io_id(kBlockIo)};
    return true;
  }
  if (stage_ != Stage::read) return false;
  stage_ = Stage::writing;
  for (const RecordErasure& erasure : batch_) {
    const std::uint64_t offset =
        ExtentGeometry::record_offset(volume_.geometry.place_of(erasure.slot)) %
        ExtentGeometry::kBlockBytes;
    std::memset(block_.data() + offset, 0, ExtentGeometry::kRecordBytes);
  }
  io = {IoOp::write, volume_.fd(), block_at(), block_.data(), block_.size(), io_id(kBlockIo)};
  shared_.counters.written_bytes += io.length;
  return true;
}

/// Takes what lies in one block from the front.
void RecordEraser::begin_batch() {
  const ExtentGeometry& g = volume_.geometry;
  const auto is_near = [&](const RecordErasure& a, const RecordErasure& b) {
    return g.segment_of(a.slot) == g.segment_of(b.slot) && a.generation == b.generation &&
           ExtentGeometry::block_of_record(g.place_of(a.slot)) ==
               ExtentGeometry::block_of_record(g.place_of(b.slot));
  };
  // They leave the queue when they are done: a stop finishes what is left of it.
  batch_.clear();
  for (const RecordErasure& erasure : volume_.erasures) {
    if (!batch_.empty() && !is_near(batch_.front(), erasure)) break;
    batch_.push_back(erasure);
  }
  const std::uint32_t number = g.segment_of(batch_.front().slot);
  Segment& segment = volume_.segments[number];
  // Free or filled anew: the record is void already.
  if (segment.generation != batch_.front().generation) return end_batch(0);
  if (filler_.writer_of(number) != nullptr) {
    stage_ = Stage::wiping;
    wipes_out_ = batch_.size();
    wipe_error_ = 0;
    for (const RecordErasure& erasure : batch_)
      filler_.wipe(erasure.slot, {RecordWaiter::Kind::erasure, 0});
    return;
  }
  if (segment.state == SegmentState::bad) return end_batch(EIO);
  if (!block_) block_ = AlignedBuffer(ExtentGeometry::kBlockBytes);
  ++segment.readers;
  stage_ = Stage::reading;
}

void RecordEraser::end_batch(int error) {
  stage_ = Stage::idle;
  volume_.erasures.erase(volume_.erasures.begin(),
                         volume_.erasures.begin() + static_cast<std::ptrdiff_t>(batch_.size()));
  for (const RecordErasure& erasure : batch_) {
    if (!erasure.is_forget) continue;
    assert(current_ && current_->erasures > 0);
    --current_->erasures;
    if (error != 0 && current_->error.empty())
      current_->error = std::string("wiping a record: ") + std::strerror(error);
  }
  batch_.clear();
}

void RecordEraser::recorded(int error) {
  if (error != 0) wipe_error_ = error;
  if (--wipes_out_ == 0) end_batch(wipe_error_);
}

void RecordEraser::io_over(std::uint64_t id, const IoEnd& end) {
  const int error = end.error != 0 ? end.error : (end.is_short ? EIO : 0);
  if (id >> 32 == kScanIo) {
    const auto segment = static_cast<std::uint32_t>(id);
    is_scanning_ = false;
    --volume_.segments[segment].readers;
    if (error == 0)
      scan(segment, scan_table_.span());
    else if (current_->error.empty())
      current_->error = std::string("searching a segment: ") + std::strerror(error);
    ++current_->next_segment;
    return;
  }
  if (error == 0 && stage_ == Stage::reading) {
    stage_ = Stage::read;
    return;
  }
  --volume_.segments[volume_.geometry.segment_of(batch_.front().slot)].readers;
  end_batch(error);
}

}  // namespace kv_offload
