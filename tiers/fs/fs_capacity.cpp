#include "kv_offload/tiers/fs/fs_capacity.hpp"

#include "kv_offload/tiers/fs/fs_errors.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace kv_offload {

namespace {

/// Chunks that a full disk costs at a time.
constexpr int kReliefChunks = 8;

std::uint64_t wall_us() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace

FsShared::FsShared() = default;
FsShared::~FsShared() = default;

FsCapacity::FsCapacity(FsCapacityOptions options, FsShared& shared,
                       std::unique_ptr<FsNamespace> current,
                       std::vector<std::unique_ptr<FsNamespace>> older)
    : options_(std::move(options)),
      shared_(shared),
      current_(std::move(current)),
      older_(std::move(older)),
      estimate_(options_.row_bytes),
      leaving_(leaving_max(options_.capacity_bytes, options_.row_bytes)),
      next_piece_(options_.now()),
      next_refresh_(next_piece_),
      saver_(next_piece_),
      start_us_(wall_us()),
      start_(next_piece_) {
  for (std::size_t i = leaving_.size(); i > 0; --i)
    free_leaving_.push_back(static_cast<std::uint32_t>(i - 1));
  publish_counters();
}

/// Microseconds since 1970, each larger than the one before: comparable with files' times.
std::uint64_t FsCapacity::stamp() {
  const auto since = std::chrono::duration_cast<std::chrono::microseconds>(options_.now() - start_);
  last_stamp_ = std::max(last_stamp_ + 1, start_us_ + static_cast<std::uint64_t>(since.count()));
  return last_stamp_;
}

std::uint64_t FsCapacity::counted_bytes() const {
  std::uint64_t bytes = current_->bytes() + reserved_ * estimate_ + stuck_bytes_;
  for (const auto& ns : older_) bytes += ns->bytes();
  return bytes;
}

// --- files ----------------------------------------------------------------------------------------

bool FsCapacity::is_leaving(const OffloadKey& key) const {
  const ChunkId slot = current_->residency->find(key);
  return slot != kNoChunk && current_->residency->is_leaving(slot);
}

bool FsCapacity::knows(const OffloadKey& key) const {
  const ChunkId slot = current_->residency->find(key);
  return slot != kNoChunk && !current_->residency->is_leaving(slot);
}

/// A file that is there and was not known. kNoChunk: no slot for it, it stays unknown.
ChunkId FsCapacity::adopt(const OffloadKey& key, std::uint64_t bytes) {
  if (!make_slot(*current_)) return kNoChunk;
  ++shared_.counters.adopted_chunks;
  saver_.changed();
  return current_->residency->insert_used(key, bytes, stamp());
}

void FsCapacity::seen(const OffloadKey& key, const std::string& path) {
  FsResidency& index = *current_->residency;
  if (const ChunkId slot = index.find(key); slot != kNoChunk) {
    if (index.is_leaving(slot)) return;
    index.touch(slot, stamp());
    return saver_.changed();
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0)
    adopt(key, static_cast<std::uint64_t>(info.st_blocks) * 512);
}

void FsCapacity::gone(const OffloadKey& key) {
  const ChunkId slot = current_->residency->find(key);
  if (slot != kNoChunk && !current_->residency->is_leaving(slot)) vanish(*current_, slot);
}

void FsCapacity::vanish(FsNamespace& ns, ChunkId slot) {
  ns.residency->remove(slot);
  ++shared_.counters.vanished_chunks;
  saver_.changed();
}

ChunkId FsCapacity::pin_for_load(const OffloadKey& key, int fd) {
  FsResidency& index = *current_->residency;
  ChunkId slot = index.find(key);
  if (slot == kNoChunk) {
    struct stat info {};
    if (::fstat(fd, &info) != 0) return kNoChunk;
    slot = adopt(key, static_cast<std::uint64_t>(info.st_blocks) * 512);
    if (slot == kNoChunk) return kNoChunk;
  } else {
    index.touch(slot, stamp());
    saver_.changed();
  }
  index.pin(slot);
  return slot;
}

ChunkId FsCapacity::pin_for_store(const OffloadKey& key) {
  FsResidency& index = *current_->residency;
  const ChunkId slot = index.find(key);
  if (slot == kNoChunk) return kNoChunk;
  // A cold one is no victim of the policy's, so a pin would not hold it.
  if (index.is_cold(slot)) index.touch(slot, stamp());
  index.pin(slot);
  return slot;
}

void FsCapacity::stored(const OffloadKey& key, std::uint64_t bytes) {
  release();
  estimate_ = std::max(estimate_, bytes);
  FsResidency& index = *current_->residency;
  saver_.changed();
  const ChunkId slot = index.find(key);
  if (slot != kNoChunk) return index.replaced(slot, bytes, stamp());
  // Its slot was reserved with its bytes.
  assert(index.has_free_slot());
  if (index.has_free_slot()) index.insert_used(key, bytes, stamp());
}

void FsCapacity::quarantined(const OffloadKey& key) {
  const ChunkId slot = current_->residency->find(key);
  if (slot == kNoChunk || current_->residency->is_leaving(slot)) return;
  const std::uint64_t bytes = current_->residency->bytes_of(slot);
  current_->residency->remove(slot);
  set_aside(*current_, key, bytes);
}

void FsCapacity::set_aside(FsNamespace& ns, const OffloadKey& key, std::uint64_t bytes) {
  saver_.changed();
  for (FsNamespace::SetAside& file : ns.set_aside) {
    if (file.key != key) continue;
    ns.set_aside_bytes += bytes - file.bytes;
    file.bytes = bytes;
    return;
  }
  ns.set_aside.push_back({key, bytes});
  ns.set_aside_bytes += bytes;
}

// --- room -----------------------------------------------------------------------------------------

FsCapacity::Room FsCapacity::reserve() {
  while (counted_bytes() + estimate_ > options_.capacity_bytes)
    if (!evict_one()) break;
  const bool has_slot = make_slot(*current_);
  const std::uint64_t wanted = counted_bytes() + estimate_;
  if (has_slot && wanted <= options_.capacity_bytes &&
      wanted + leaving_bytes_ <= options_.capacity_bytes + options_.leaving_bytes_max) {
    ++reserved_;
    return Room::ready;
  }
  const bool can_change =
      free_leaving_.size() < leaving_.size() || reserved_ > 0 || current_->residency->has_pins();
  return can_change ? Room::later : Room::never;
}

/// One slot besides those of the stores in flight.
bool FsCapacity::make_slot(FsNamespace& ns) {
  const std::uint64_t others = &ns == current_.get() ? reserved_ : 0;
  while (ns.residency->size() + others + 1 > ns.chunks_max)
    if (!evict_chunk(ns)) return false;
  return ns.residency->has_free_slot();
}

bool FsCapacity::evict_one() {
  for (const auto& ns : older_)
    if (evict_set_aside(*ns)) return true;
  if (evict_set_aside(*current_)) return true;
  for (const auto& ns : older_)
    if (evict_chunk(*ns)) return true;
  return evict_chunk(*current_);
}

bool FsCapacity::evict_chunk(FsNamespace& ns) {
  if (!has_queue()) return false;
  const auto slot = ns.residency->take_victim();
  if (!slot) return false;
  Leaving leaving;
  leaving.ns = &ns;
  leaving.slot = *slot;
  leaving.key = ns.residency->key_of(*slot);
  leaving.bytes = ns.residency->bytes_of(*slot);
  ns.mapper.path_of(leaving.key, leaving.path);
  send_off(std::move(leaving));
  return true;
}

bool FsCapacity::evict_set_aside(FsNamespace& ns) {
  if (ns.set_aside.empty() || !has_queue()) return false;
  Leaving leaving;
  leaving.kind = Kind::quarantined;
  leaving.ns = &ns;
  leaving.key = ns.set_aside.front().key;
  leaving.bytes = ns.set_aside.front().bytes;
  leaving.path = ns.mapper.path_of(leaving.key) + ".quarantined";
  ns.set_aside.pop_front();
  ns.set_aside_bytes -= leaving.bytes;
  send_off(std::move(leaving));
  return true;
}

std::uint32_t FsCapacity::send_off(Leaving leaving) {
  const std::uint32_t idx = free_leaving_.back();
  free_leaving_.pop_back();
  leaving_bytes_ += leaving.bytes;
  leaving_[idx] = std::move(leaving);
  to_unlink_.push_back(idx);
  saver_.changed();
  return idx;
}

void FsCapacity::disk_full() {
  if (relief_out_ > 0) return;
  for (int i = 0; i < kReliefChunks && evict_one(); ++i) {
    leaving_[to_unlink_.back()].is_relief = true;
    ++relief_out_;
  }
}

void FsCapacity::unlink_over(std::uint32_t idx, int error) {
  Leaving leaving = std::move(leaving_[idx]);
  leaving_[idx] = {};
  free_leaving_.push_back(idx);
  --unlinks_out_;
  leaving_bytes_ -= leaving.bytes;
  if (leaving.is_relief) --relief_out_;
  saver_.changed();
  if (error != 0 && !is_absent(error)) return unlink_failed(leaving, error);

  const bool is_chunk = leaving.kind == Kind::chunk || leaving.kind == Kind::found;
  if (error == 0 && leaving.kind != Kind::left_over)
    shared_.counters.evicted_bytes += leaving.bytes;
  if (is_chunk) ++(error == 0 ? shared_.counters.evicted_chunks : shared_.counters.vanished_chunks);
  if (leaving.slot != kNoChunk) leaving.ns->residency->left(leaving.slot);
  if (is_chunk && options_.events) removed_.push_back(leaving.key);
}

/// The file stays where it is: it goes on counting and being served, and is no victim any more until the
/// next start. Nothing is tried twice.
void FsCapacity::unlink_failed(const Leaving& leaving, int error) {
  ++shared_.counters.unlink_failures;
  if (leaving.slot != kNoChunk)
    leaving.ns->residency->stuck(leaving.slot);
  else
    stuck_bytes_ += leaving.bytes;
  if (std::exchange(told_unlink_failure_, true)) return;
  options_.log(leaving.path + ": cannot be removed: " + std::strerror(error) +
               "; it stays and counts until the next start (told once)");
}

// --- namespaces -----------------------------------------------------------------------------------

void FsCapacity::enter(std::unique_ptr<FsNamespace> next) {
  const auto is_next = [&](const auto& ns) {
    return ns->mapper.chunk_dir() == next->mapper.chunk_dir();
  };
  if (is_next(current_)) return next->marker.remove();
  saver_.changed();
  if (const auto known = std::find_if(older_.begin(), older_.end(), is_next);
      known != older_.end()) {
    next->marker.remove();
    next = std::move(*known);
    older_.erase(known);
  }
  older_.push_back(std::exchange(current_, std::move(next)));
}

/// Older namespaces of which nothing is left.
void FsCapacity::drop_empty() {
  std::erase_if(older_, [&](const std::unique_ptr<FsNamespace>& ns) {
    const auto is_its = [&](const Leaving& l) { return l.ns == ns.get(); };
    if (ns->residency->size() > 0 || !ns->set_aside.empty() || ns->is_searching() ||
        ns->residency->has_pins() || saver_.is_writing() ||
        std::any_of(leaving_.begin(), leaving_.end(), is_its))
      return false;
    ::unlink(ns->record_path().c_str());
    ns->marker.remove();
    return true;
  });
}

std::vector<std::string> FsCapacity::older_revisions() const {
  std::vector<std::string> revisions;
  for (const auto& ns : older_) revisions.push_back(ns->revision);
  return revisions;
}

int FsCapacity::close() {
  saver_.abandon();
  flush_removed();
  int first = 0;
  for (const auto& ns : older_)
    if (const int error = close_fs_namespace(*ns, {}); error != 0 && first == 0) first = error;
  if (const int error = close_fs_namespace(*current_, older_revisions()); error != 0 && first == 0)
    first = error;
  return first;
}

// --- turns ----------------------------------------------------------------------------------------

bool FsCapacity::next_io(OwnIo& io) {
  work_between_turns();
  if (!to_unlink_.empty() && unlinks_out_ < kUnlinksMax) {
    const std::uint32_t idx = to_unlink_.front();
    to_unlink_.pop_front();
    ++unlinks_out_;
    io = {};
    io.op = IoOp::unlink;
    io.id = idx;
    io.path = leaving_[idx].path.c_str();
    return true;
  }
  if (saver_.next_io(*current_, older_revisions(), options_.now(), io)) {
    io.id = kSaveId;
    return true;
  }
  if (const int error = saver_.take_error(); error != 0 && !std::exchange(told_save_failure_, true))
    options_.log(current_->record_path() + ": cannot be written: " + std::strerror(error) +
                 "; without it a start looks at every file (told once)");
  flush_removed();
  publish_counters();
  return false;
}

void FsCapacity::io_over(std::uint64_t id, const IoEnd& io) {
  if (id == kSaveId)
    saver_.io_over(io.error != 0 ? io.error : (io.is_short ? EIO : 0));
  else
    unlink_over(static_cast<std::uint32_t>(id), io.error);
}

void FsCapacity::flush_removed() {
  if (removed_.empty()) return;
  OffloadingEvent event;
  event.removed = true;
  event.medium = Medium::storage;
  event.locality = options_.locality;
  event.keys = std::exchange(removed_, {});
  shared_.events.add(std::move(event));
}

void FsCapacity::publish_counters() {
  FsCapacityCounters& c = shared_.counters;
  std::uint64_t chunks = current_->residency->size();
  for (const auto& ns : older_) chunks += ns->residency->size();
  c.chunks = chunks;
  c.allocated_bytes = counted_bytes() - reserved_ * estimate_ + leaving_bytes_;
  c.leaving_files = leaving_.size() - free_leaving_.size();
  const FsNamespace* ns = searching();
  c.walk_progress = ns == nullptr ? 1.0 : ns->walk ? ns->walk->progress() : 1.0;
}

}  // namespace kv_offload
