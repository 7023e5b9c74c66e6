#include "kv_offload/tiers/extent/segment_filler.hpp"

#include "kv_offload/tiers/extent/extent_checkpoint.hpp"

#include <cassert>
#include <utility>

namespace kv_offload {

namespace {

constexpr std::uint64_t io_id(std::uint64_t kind, std::uint64_t number = 0) {
  return (kind << 32) | number;
}

}  // namespace

SegmentFiller::SegmentFiller(ExtentVolume& volume, bool syncs) : volume_(volume), syncs_(syncs) {
  if (!volume_.partial) return;
  const std::uint32_t segment = volume_.partial->segment;
  auto writer =
      std::make_unique<SegmentWriter>(volume_, segment, std::move(volume_.partial->table));
  volume_.partial.reset();
  volume_.segments[segment].state = SegmentState::filling;
  open_ = writer.get();
  writers_.emplace(segment, std::move(writer));
}

SegmentFiller::Room SegmentFiller::make_room(std::uint32_t kept) {
  if (open_ != nullptr && !open_->is_ready()) return Room::later;
  if (open_ != nullptr && open_->num_left() > 0)
    return open_->num_left() > kept ? Room::ready : Room::later;
  if (open_ != nullptr) retire(std::exchange(open_, nullptr)->segment());
  if (volume_.segments.num_free() == 0) return Room::none;

  const std::uint32_t number = volume_.segments.pop_free();
  Segment& segment = volume_.segments[number];
  segment = {};
  segment.generation = volume_.segments.tick();
  segment.last_use = segment.generation;
  segment.state = SegmentState::filling;
  auto writer = std::make_unique<SegmentWriter>(volume_, number);
  open_ = writer.get();
  writers_.emplace(number, std::move(writer));
  recency_due_ = true;
  return Room::later;
}

std::uint32_t SegmentFiller::take() { return open_->take(volume_.segments); }

void SegmentFiller::give_up(std::uint32_t slot) {
  const std::uint32_t segment = volume_.geometry.segment_of(slot);
  writer_of(segment)->give_up();
  retire(segment);
}

void SegmentFiller::put(std::uint32_t slot, const ChunkRecord& record, RecordWaiter waiter) {
  writer_of(volume_.geometry.segment_of(slot))->put(slot, record, waiter);
}

SegmentWriter* SegmentFiller::writer_of(std::uint32_t segment) {
  const auto it = writers_.find(segment);
  return it == writers_.end() ? nullptr : it->second.get();
}

/// Seals the segment if nothing of it is under way any more.
void SegmentFiller::retire(std::uint32_t segment) {
  const auto it = writers_.find(segment);
  if (it->second.get() == open_ || !it->second->is_idle()) return;
  volume_.segments[segment].state = SegmentState::sealed;
  writers_.erase(it);
}

bool SegmentFiller::next_io(OwnIo& io) {
  for (auto& [segment, writer] : writers_) {
    if (!writer->next_write(io)) continue;
    io.id = io_id(kTableIo, segment);
    return true;
  }
  if (!is_syncing_ && !to_sync_.empty()) {
    is_syncing_ = true;
    syncing_.swap(to_sync_);
    io = {IoOp::sync_data, volume_.fd(), 0, nullptr, 0, io_id(kSyncIo)};
    return true;
  }
  if (recency_due_ && !recency_) {
    recency_due_ = false;
    std::uint64_t offset = 0;
    recency_ = encode_recency(volume_, offset);
    io = {IoOp::write, volume_.fd(), offset, recency_.data(), recency_.size(), io_id(kRecencyIo)};
    return true;
  }
  return false;
}

void SegmentFiller::io_over(std::uint64_t id, int error) {
  switch (id >> 32) {
    case kTableIo: return table_write_over(static_cast<std::uint32_t>(id), error);
    case kSyncIo:
      is_syncing_ = false;
      for (RecordEnd& end : syncing_) ended_.push_back({end.waiter, error});
      syncing_.clear();
      return;
    default: recency_ = {}; return;  // without it the start after a crash knows less; nothing else
  }
}

void SegmentFiller::table_write_over(std::uint32_t segment, int error) {
  SegmentWriter* writer = writer_of(segment);
  const bool was_ready = writer->is_ready();
  recorded_.clear();
  writer->write_over(error, recorded_);
  for (const RecordEnd& end : recorded_) (syncs_ && error == 0 ? to_sync_ : ended_).push_back(end);
  if (!was_ready && error != 0) {
    open_error_ = error;
    assert(writer == open_);
    open_ = nullptr;
    volume_.segments.set_aside(segment);
    writers_.erase(segment);
    return;
  }
  retire(segment);
}

}  // namespace kv_offload
