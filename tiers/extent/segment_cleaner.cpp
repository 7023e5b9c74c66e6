#include "kv_offload/tiers/extent/segment_cleaner.hpp"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

namespace kv_offload {

/// Chooses the victim while the last free segment is being filled: by the time that is full, the next one
/// is free.
void SegmentCleaner::begin() {
  if (volume_.segments.num_free() > 0) return;
  const auto victim = volume_.segments.victim(options_.eviction);
  if (!victim) return;
  victim_ = *victim;
  volume_.segments[victim_].state = SegmentState::cleaning;
  has_table_ = false;
  choose_rows();
  if (rows_.empty() && !options_.events) {
    stage_ = Stage::copying;
    return;
  }
  try {
    table_ = AlignedBuffer(volume_.geometry.table_bytes);
    const std::uint64_t fitting = kCopyBytes / volume_.geometry.row_bytes;
    if (!rows_.empty()) copies_.resize(std::clamp<std::uint64_t>(fitting, 1, kCopiesMax));
    for (Copy& copy : copies_) copy.row = AlignedBuffer(volume_.geometry.row_bytes);
    stage_ = Stage::read_table;
  } catch (const std::bad_alloc&) {  // a segment becomes free all the same
    table_ = {};
    copies_.clear();
    rows_.clear();
    stage_ = Stage::copying;
  }
}

/// The slots of the victim that were loaded most often, at most the configured share.
void SegmentCleaner::choose_rows() {
  const ExtentGeometry& g = volume_.geometry;
  const auto rows_max = static_cast<std::size_t>(options_.rewrite_share * g.slots_per_segment);
  rows_.clear();
  const std::uint32_t first = g.slot_of(victim_, 0);
  for (std::uint32_t slot = first; slot < first + g.slots_per_segment; ++slot)
    if (volume_.index.is_used(slot) && volume_.index.uses(slot) > 0) rows_.push_back(slot);
  std::stable_sort(rows_.begin(), rows_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return volume_.index.uses(a) < volume_.index.uses(b);
  });
  if (rows_.size() <= rows_max) return;
  shared_.counters.rewrites_dropped += rows_.size() - rows_max;
  rows_.erase(rows_.begin(), rows_.end() - static_cast<std::ptrdiff_t>(rows_max));
}

bool SegmentCleaner::next_io(OwnIo& io, const ExtentNamespace& name_space,
                             const RowDigester& digester) {
  if (stage_ == Stage::idle) begin();
  if (stage_ == Stage::read_table) {
    stage_ = Stage::reading_table;
    io = {IoOp::read,    volume_.fd(),  volume_.geometry.segment_at(victim_),
          table_.data(), table_.size(), io_id(kTableIo)};
    return true;
  }
  if (stage_ == Stage::copying) {
    if (next_copy_io(io, name_space, digester)) return true;
    if (copies_out_ > 0) return false;
    drop_all();
    stage_ = options_.syncs && !copies_.empty() ? Stage::syncing : Stage::draining;
    if (stage_ == Stage::syncing) filler_.sync({RecordWaiter::Kind::copy, kSyncWaiter});
    copies_.clear();
  }
  if (stage_ == Stage::draining && volume_.segments[victim_].readers == 0) {
    stage_ = Stage::wiping;
    table_ = AlignedBuffer(ExtentGeometry::kBlockBytes);
    io = {IoOp::write,   volume_.fd(),  volume_.geometry.segment_at(victim_),
          table_.data(), table_.size(), io_id(kWipeIo)};
    shared_.counters.written_bytes += io.length;
    return true;
  }
  return false;
}

std::optional<ChunkRecord> SegmentCleaner::record_of(std::uint32_t slot) const {
  if (!has_table_) return std::nullopt;
  const std::uint32_t place = volume_.geometry.place_of(slot);
  return volume_.codec.parse_record(
      table_.span(ExtentGeometry::record_offset(place), ExtentGeometry::kRecordBytes), slot,
      volume_.segments[victim_].generation);
}

// --- copies ---------------------------------------------------------------------------------------

bool SegmentCleaner::next_copy_io(OwnIo& io, const ExtentNamespace& name_space,
                                  const RowDigester& digester) {
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    Copy& copy = copies_[i];
    using State = Copy::State;
    if (copy.state == State::written) {
      // What was forgotten meanwhile is not recorded again.
      if (!volume_.index.is_used(copy.from)) {
        filler_.give_up(copy.to);
        end_copy(copy, false);
      } else {
        copy.record.generation = volume_.segments[volume_.geometry.segment_of(copy.to)].generation;
        copy.state = State::recording;
        filler_.put(copy.to, copy.record,
                    {RecordWaiter::Kind::copy, static_cast<std::uint32_t>(i)});
      }
    }
    if (copy.state == State::read) {
      if (!digester.matches(copy.record.digest, copy.record.key, copy.row.span())) {
        ++shared_.counters.corrupt_chunks;
        --copies_without_slot_;
        end_copy(copy, false);
      } else if (const auto room = filler_.make_room(); room == SegmentFiller::Room::none) {
        --copies_without_slot_;
        end_copy(copy, false);
      } else if (room == SegmentFiller::Room::ready) {
        copy.to = filler_.take();
        --copies_without_slot_;
        copy.state = State::writing;
        io = {IoOp::write,     volume_.fd(),    volume_.geometry.row_at(copy.to),
              copy.row.data(), copy.row.size(), io_id(kCopyIo, i)};
        shared_.counters.written_bytes += io.length;
        return true;
      }
    }
    while (copy.state == State::idle && !rows_.empty()) {
      if (!begin_copy(copy, name_space)) continue;
      io = {IoOp::read,      volume_.fd(),    volume_.geometry.row_at(copy.from),
            copy.row.data(), copy.row.size(), io_id(kCopyIo, i)};
      return true;
    }
  }
  return false;
}

/// Takes the next row off the list. False: it is not to be rewritten.
bool SegmentCleaner::begin_copy(Copy& copy, const ExtentNamespace& name_space) {
  copy.from = rows_.back();
  rows_.pop_back();
  if (!volume_.index.is_used(copy.from)) return false;  // forgotten, or damaged
  const auto record = record_of(copy.from);
  // Rows of another revision can be neither asked for nor verified.
  if (paused_ || !record || record->namespace_tag != name_space.tag ||
      record->digest != volume_.index.digest(copy.from)) {
    ++shared_.counters.rewrites_dropped;
    return false;
  }
  copy.record = *record;
  copy.state = Copy::State::reading;
  ++copies_without_slot_;
  ++copies_out_;
  return true;
}

void SegmentCleaner::end_copy(Copy& copy, bool is_rewritten) {
  copy.state = Copy::State::idle;
  --copies_out_;
  ++(is_rewritten ? shared_.counters.rewritten_chunks : shared_.counters.rewrites_dropped);
}

void SegmentCleaner::recorded(std::uint32_t id, int error) {
  if (id == kSyncWaiter) {
    // If it failed, the copies may be lost with the power; their digests will tell.
    stage_ = Stage::draining;
    return;
  }
  Copy& copy = copies_[id];
  assert(copy.state == Copy::State::recording);
  const bool is_known = volume_.index.is_used(copy.from);
  if (error == 0 && is_known) volume_.move(copy.from, copy.to);
  if (error == 0 && !is_known) volume_.superseded.push_back(copy.to);  // forgotten: erased again
  end_copy(copy, error == 0 && is_known);
}

void SegmentCleaner::io_over(std::uint64_t id, const IoEnd& end) {
  const bool failed = end.error != 0 || end.is_short;
  switch (id >> 32) {
    case kTableIo:
      has_table_ = !failed;
      if (failed) shared_.counters.rewrites_dropped += std::exchange(rows_, {}).size();
      stage_ = Stage::copying;
      return;
    case kCopyIo: {
      Copy& copy = copies_[static_cast<std::uint32_t>(id)];
      const bool was_reading = copy.state == Copy::State::reading;
      if (!failed) {
        copy.state = was_reading ? Copy::State::read : Copy::State::written;
        return;
      }
      if (was_reading)
        --copies_without_slot_;
      else
        filler_.give_up(copy.to);
      return end_copy(copy, false);
    }
    default: return finish(!failed);
  }
}

// --- the end of a victim ----------------------------------------------------------------------------

void SegmentCleaner::drop_all() {
  OffloadingEvent event;
  event.removed = true;
  event.medium = Medium::storage;
  event.locality = options_.locality;
  std::uint64_t dropped = 0;
  const std::uint32_t first = volume_.geometry.slot_of(victim_, 0);
  for (std::uint32_t slot = first; slot < first + volume_.geometry.slots_per_segment; ++slot) {
    if (!volume_.drop(slot)) continue;
    ++dropped;
    if (!options_.events) continue;
    if (const auto record = record_of(slot)) event.keys.push_back(record->key);
  }
  shared_.counters.evicted_chunks += dropped;
  if (!event.keys.empty()) shared_.events.add(std::move(event));
}

void SegmentCleaner::finish(bool is_wiped) {
  ++shared_.counters.evicted_segments;
  if (is_wiped)
    volume_.segments.push_free(victim_);
  else
    volume_.segments.set_aside(victim_);
  table_ = {};
  stage_ = Stage::idle;
  ++cycle_;
}

}  // namespace kv_offload
