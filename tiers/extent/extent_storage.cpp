#include "kv_offload/tiers/extent/extent_storage.hpp"

#include "kv_offload/tiers/io/row_storage.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>

namespace kv_offload {

namespace {

SegmentCleaner::Options cleaner_options(const ExtentConfig& config) {
  return {config.segment_eviction, config.rewrite_share, config.durability != Durability::none,
          config.enable_kv_events, config.locality};
}

}  // namespace

ExtentStorage::Parts::Parts(ExtentShared& shared, const ExtentConfig& config)
    : volume(*shared.volume),
      filler(volume, config.durability != Durability::none),
      cleaner(volume, filler, shared, cleaner_options(config)),
      eraser(volume, filler, cleaner, shared) {}

ExtentStorage::ExtentStorage(ExtentConfig config, ExtentNamespace name_space,
                             std::uint64_t payload_bytes, std::shared_ptr<ExtentShared> shared)
    : config_(std::move(config)),
      payload_bytes_(payload_bytes),
      shared_(std::move(shared)),
      namespace_(std::move(name_space)),
      digester_(namespace_.text, config_.checksum) {}

/// nullptr before the start has opened the file; no job comes before that.
ExtentStorage::Parts* ExtentStorage::parts() {
  if (!parts_ && shared_->is_open.load(std::memory_order_acquire))
    parts_ = std::make_unique<Parts>(*shared_, config_);
  return parts_.get();
}

void ExtentStorage::adopt_news() {
  if (!shared_->has_news.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(shared_->mutex);
  shared_->has_news = false;
  for (ForgetWork& work : shared_->forgets) parts_->eraser.forget(std::move(work));
  shared_->forgets.clear();
  if (!shared_->next_namespace) return;
  namespace_ = std::move(*shared_->next_namespace);
  shared_->next_namespace.reset();
  digester_ = RowDigester(namespace_.text, config_.checksum);
}

LookupResult ExtentStorage::probe(const OffloadKey& key) {
  if (parts() == nullptr) return LookupResult::retry;
  adopt_news();
  return parts_->volume.index.find(key_hash(namespace_.tag, key)) ? LookupResult::hit
                                                                  : LookupResult::miss;
}

StorageStep ExtentStorage::begin(const ChunkContext& chunk) {
  if (parts() == nullptr) return failed_step(TransferFailure::io_error, ENXIO);
  adopt_news();
  Transfer& t = transfers_[chunk.slot];
  t.hash = key_hash(namespace_.tag, *chunk.key);
  t.key = *chunk.key;
  return chunk.is_load ? begin_load(chunk) : begin_store(chunk);
}

StorageStep ExtentStorage::proceed(const ChunkContext& chunk, const IoEnd& io) {
  if (chunk.is_load) return finish_load(chunk, io);
  const Transfer& t = transfers_[chunk.slot];
  if (io.error != 0 || io.is_short) {
    parts_->filler.give_up(t.slot);
    return failed_store(io.error != 0 ? io.error : EIO);
  }
  // Another store of the same key may have been faster.
  if (parts_->volume.index.find(t.hash)) {
    parts_->filler.give_up(t.slot);
    return StorageStep::over({KeyFate::done, TransferFailure::none, 0, false});
  }
  ChunkRecord record{t.generation, namespace_.tag, chunk.row.size(), t.digest, t.key};
  parts_->filler.put(t.slot, record, {RecordWaiter::Kind::store, chunk.slot});
  return StorageStep::wait();
}

// --- loads ----------------------------------------------------------------------------------------

StorageStep ExtentStorage::begin_load(const ChunkContext& chunk) {
  ExtentVolume& volume = parts_->volume;
  const auto slot = volume.index.find(transfers_[chunk.slot].hash);
  if (!slot) return failed_step(TransferFailure::not_found, ENOENT);
  Transfer& t = transfers_[chunk.slot];
  Segment& segment = volume.segments[volume.geometry.segment_of(*slot)];
  t.slot = *slot;
  t.generation = segment.generation;
  t.digest = volume.index.digest(*slot);
  ++segment.readers;
  return StorageStep::io(IoOp::read, volume.fd(), volume.geometry.row_at(*slot));
}

StorageStep ExtentStorage::finish_load(const ChunkContext& chunk, const IoEnd& io) {
  ExtentVolume& volume = parts_->volume;
  const Transfer& t = transfers_[chunk.slot];
  Segment& segment = volume.segments[volume.geometry.segment_of(t.slot)];
  assert(segment.readers > 0);
  --segment.readers;
  if (io.error != 0) return failed_step(TransferFailure::io_error, io.error);
  // Cannot be while there are readers; said again where it would matter.
  if (segment.generation != t.generation) return failed_step(TransferFailure::not_found, ESTALE);
  const bool is_same = !io.is_short && digester_.matches(t.digest, t.key, chunk.row);
  const bool is_indexed = volume.index.find(t.hash) == t.slot;
  if (!is_same) {
    ++shared_->counters.corrupt_chunks;
    if (is_indexed && volume.drop(t.slot)) parts_->eraser.erase(t.slot);
    return failed_step(TransferFailure::corrupt, EIO);
  }
  if (is_indexed) volume.index.count_use(t.slot);
  segment.last_use = volume.segments.tick();
  return StorageStep::over({KeyFate::done, TransferFailure::none, 0, !digester_.is_on()});
}

// --- stores ---------------------------------------------------------------------------------------

StorageStep ExtentStorage::begin_store(const ChunkContext& chunk) {
  if (parts_->volume.index.find(transfers_[chunk.slot].hash))
    return StorageStep::over({KeyFate::already_present, TransferFailure::none, 0, false});
  zero_padding(chunk.row, payload_bytes_);
  if (waiting_.empty() && has_room()) return write_row(chunk.slot);
  if (!room_can_come()) return failed_store(ENOSPC);
  waiting_.push_back(chunk.slot);
  return StorageStep::wait();
}

StorageStep ExtentStorage::write_row(TransferSlot slot) {
  ExtentVolume& volume = parts_->volume;
  Transfer& t = transfers_[slot];
  t.slot = parts_->filler.take();
  t.generation = volume.segments[volume.geometry.segment_of(t.slot)].generation;
  shared_->counters.written_bytes += volume.geometry.row_bytes;
  return StorageStep::joinable_write(volume.fd(), volume.geometry.row_at(t.slot));
}

void ExtentStorage::overlap(const ChunkContext& chunk) {
  Transfer& t = transfers_[chunk.slot];
  t.digest = digester_.make(t.key, chunk.row);
}

bool ExtentStorage::has_room() {
  return parts_->filler.make_room(parts_->cleaner.rows_without_slot()) ==
         SegmentFiller::Room::ready;
}

/// A segment is being opened, filled, cleaned, or can be.
bool ExtentStorage::room_can_come() const {
  return parts_->filler.has_writers() || parts_->volume.segments.num_free() > 0 ||
         parts_->cleaner.can_free();
}

/// Stores that waited for room take it, in order.
void ExtentStorage::resume_stores() {
  if (const int error = parts_->filler.take_open_error(); error != 0) {
    for (const TransferSlot slot : waiting_) resumed_.emplace_back(slot, failed_store(error));
    waiting_.clear();
  }
  while (!waiting_.empty() && has_room()) {
    resumed_.emplace_back(waiting_.front(), write_row(waiting_.front()));
    waiting_.pop_front();
  }
  if (waiting_.empty() || room_can_come()) return;
  for (const TransferSlot slot : waiting_) resumed_.emplace_back(slot, failed_store(ENOSPC));
  waiting_.clear();
}

/// The store's record is on disk, or could not be written.
StorageStep ExtentStorage::stored(TransferSlot slot, int error) {
  const Transfer& t = transfers_[slot];
  if (error != 0) {
    parts_->eraser.erase(t.slot);  // a record that is there without its sync
    return failed_store(error);
  }
  if (!parts_->volume.publish(t.hash, t.digest, t.slot))
    parts_->eraser.erase(t.slot);  // another store of the key was faster
  shared_->counters.stored_bytes += parts_->volume.geometry.row_bytes;
  return StorageStep::over({KeyFate::done, TransferFailure::none, 0, false});
}

// --- I/O of its own -------------------------------------------------------------------------------

void ExtentStorage::deliver_ended() {
  for (const RecordEnd& end : parts_->filler.take_ended()) {
    switch (end.waiter.kind) {
      case RecordWaiter::Kind::store:
        resumed_.emplace_back(end.waiter.id, stored(end.waiter.id, end.error));
        break;
      case RecordWaiter::Kind::copy: parts_->cleaner.recorded(end.waiter.id, end.error); break;
      case RecordWaiter::Kind::erasure: parts_->eraser.recorded(end.error); break;
    }
  }
}

bool ExtentStorage::next_resumed(TransferSlot& slot, StorageStep& step) {
  if (parts() == nullptr) return false;
  if (resumed_.empty() && !waiting_.empty()) resume_stores();
  if (resumed_.empty()) return false;
  std::tie(slot, step) = resumed_.front();
  resumed_.pop_front();
  return true;
}

bool ExtentStorage::next_filler_io(OwnIo& io) {
  if (!parts_->filler.next_io(io)) return false;
  shared_->counters.written_bytes += io.length;  // 0 for a sync
  return true;
}

bool ExtentStorage::next_own_io(OwnIo& io) {
  if (parts() == nullptr) return false;
  adopt_news();
  if (next_filler_io(io)) return true;
  if (parts_->cleaner.next_io(io, namespace_, digester_)) return true;
  if (parts_->eraser.next_io(io)) return true;
  if (next_filler_io(io)) return true;  // what those two asked of it
  publish_gauges();
  return false;
}

void ExtentStorage::own_io_over(std::uint64_t id, const IoEnd& io) {
  const std::uint64_t kind = id >> 32;
  const int error = io.error != 0 ? io.error : (io.is_short ? EIO : 0);
  if (kind < SegmentCleaner::kTableIo)
    parts_->filler.io_over(id, error);
  else if (kind < RecordEraser::kBlockIo)
    parts_->cleaner.io_over(id, io);
  else
    parts_->eraser.io_over(id, io);
  deliver_ended();
}

void ExtentStorage::publish_gauges() {
  const SegmentTable& segments = parts_->volume.segments;
  shared_->counters.dead_slots = segments.num_used() - parts_->volume.index.size();
  shared_->counters.bad_segments = segments.num_bad();
  shared_->counters.free_segments = segments.num_free();
}

// --- events ---------------------------------------------------------------------------------------

void ExtentStorage::job_ended(const TransferJob& job, const JobResult& result) {
  if (!config_.enable_kv_events || job.is_promotion || !result.success || job.keys.empty()) return;
  OffloadingEvent event;
  event.keys = job.keys;
  event.medium = Medium::storage;
  event.locality = config_.locality;
  shared_->events.add(std::move(event));
}

}  // namespace kv_offload
