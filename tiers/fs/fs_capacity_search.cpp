// What FsCapacity does between the lane's turns: looks for files, drops what is gone, trims.
#include "kv_offload/tiers/fs/fs_capacity.hpp"
#include "kv_offload/tiers/fs/fs_errors.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <unistd.h>
#include <utility>

namespace kv_offload {

namespace {

/// A piece of the search takes as long as a turn's digests, and the next one comes so much later: the
/// search has at most a tenth of the lane.
constexpr Duration kPiece = std::chrono::microseconds(100);
constexpr Duration kPieceEvery = std::chrono::milliseconds(1);
/// Entries between two looks at the clock: 16 warm ones take 20 to 40 us.
constexpr std::size_t kEntriesAtOnce = 16;
constexpr std::size_t kForgottenAtOnce = 64;
/// Well below the hour after which other hosts take a marker for a left one.
constexpr Duration kRefreshEvery = std::chrono::minutes(10);

}  // namespace

FsNamespace* FsCapacity::searching() const {
  if (current_->is_searching()) return current_.get();
  for (const auto& ns : older_)
    if (ns->is_searching()) return ns.get();
  return nullptr;
}

Duration FsCapacity::work_wait() const {
  if (searching() != nullptr) return kPieceEvery;
  return saver_.wait(options_.now());
}

void FsCapacity::work_between_turns() {
  if (shared_.has_forgotten.load(std::memory_order_acquire)) take_forgotten();
  FsNamespace* ns = searching();
  if (ns == nullptr) {
    trim();
    if (!older_.empty()) drop_empty();
  }
  const MonotonicTime now = options_.now();
  if (now >= next_refresh_) {
    next_refresh_ = now + kRefreshEvery;
    current_->marker.refresh();
    for (const auto& older : older_) older->marker.refresh();
  }
  if (ns == nullptr || now < next_piece_) return;
  if (ns->walk)
    search(*ns);
  else
    verify(*ns);
  next_piece_ = options_.now() + kPieceEvery;
}

/// Not while files are being looked for: the oldest may be among those not found yet.
void FsCapacity::trim() {
  while (counted_bytes() > options_.capacity_bytes)
    if (!evict_one()) break;
  while (current_->set_aside.size() > kSetAsideMax)
    if (!evict_set_aside(*current_)) break;
}

void FsCapacity::search(FsNamespace& ns) {
  const MonotonicTime end = options_.now() + kPiece;
  const auto is_known = [&](const OffloadKey& key) {
    const ChunkId slot = ns.residency->find(key);
    if (slot == kNoChunk) return false;
    ns.residency->verified(slot);
    return true;
  };
  do {
    if (!found_) found_ = ns.walk->next(kEntriesAtOnce, is_known);
    if (!found_ && ns.walk->is_over()) {
      if (const auto unreadable = ns.walk->unreadable(); unreadable > 0)
        options_.log(ns.mapper.chunk_dir() + ": " + std::to_string(unreadable) +
                     " directories could not be read; what they hold does not count");
      options_.log(ns.mapper.chunk_dir() + ": every file was looked at, " +
                   std::to_string(ns.residency->size()) + " chunks of " +
                   std::to_string(ns.bytes() >> 20) + " MiB");
      ns.walk.reset();
      ns.is_verifying = true;
      saver_.changed();
      return;
    }
    if (!found_) continue;
    if (!take_found(ns, *found_)) return;  // the queue is full: later
    found_.reset();
  } while (options_.now() < end);
}

/// False: it has to wait for room in the queue of files that leave.
bool FsCapacity::take_found(FsNamespace& ns, ChunkWalk::Found& found) {
  using FoundKind = ChunkWalk::Found::Kind;
  Leaving leaving;
  leaving.ns = &ns;
  leaving.key = found.key;
  leaving.path = found.path;
  if (found.kind == FoundKind::left_over) {
    if (!has_queue()) return false;
    leaving.kind = Kind::left_over;
    send_off(std::move(leaving));
    return true;
  }
  if (found.kind == FoundKind::quarantined) {
    if (found.path != ns.mapper.path_of(found.key) + ".quarantined") return true;
    if (ns.set_aside.size() >= kSetAsideMax && !evict_set_aside(ns)) return false;
    set_aside(ns, found.key, found.bytes);
    return true;
  }
  if (found.path != ns.mapper.path_of(found.key)) return true;  // nobody would look for it there
  if (ns.residency->find(found.key) != kNoChunk) return true;   // stored while it waited
  if (::access(found.path.c_str(), F_OK) != 0) return true;     // or left
  const std::uint64_t use = std::min(found.modified_us, stamp());
  const std::uint64_t others = &ns == current_.get() ? reserved_ : 0;
  if (ns.residency->size() + others + 1 > ns.chunks_max || !ns.residency->has_free_slot()) {
    // Of more files than can be known the newest stay.
    if (!has_queue()) return false;
    const auto oldest = ns.residency->oldest_cold();
    if (!oldest || *oldest >= use) {
      leaving.kind = Kind::found;
      leaving.bytes = found.bytes;
      send_off(std::move(leaving));
      return true;
    }
    if (!make_slot(ns)) return false;
  }
  ns.residency->insert_cold(found.key, found.bytes, use, false);
  ++shared_.counters.adopted_chunks;
  saver_.changed();
  return true;
}

/// What the record named and the walk did not meet.
void FsCapacity::verify(FsNamespace& ns) {
  const MonotonicTime end = options_.now() + kPiece;
  FsResidency& index = *ns.residency;
  std::string path;
  for (std::size_t n = 0; ns.verify_at < index.slots_touched(); ++ns.verify_at) {
    if (++n % kEntriesAtOnce == 0 && options_.now() >= end) return;
    const ChunkId slot = ns.verify_at;
    if (!index.is_present(slot) || !index.is_unverified(slot)) continue;
    index.verified(slot);
    ns.mapper.path_of(index.key_of(slot), path);
    if (::access(path.c_str(), F_OK) != 0 && is_absent(errno)) vanish(ns, slot);
  }
  ns.is_verifying = false;
}

/// Drops the keys of forgotten files, unless they were stored again meanwhile.
void FsCapacity::take_forgotten() {
  std::vector<OffloadKey> keys;
  {
    const std::lock_guard lock(shared_.mutex);
    while (!shared_.forgotten.empty() && keys.size() < kForgottenAtOnce) {
      keys.push_back(shared_.forgotten.front());
      shared_.forgotten.pop_front();
    }
    shared_.has_forgotten = !shared_.forgotten.empty();
  }
  FsNamespace& ns = *current_;
  std::string path;
  for (const OffloadKey& key : keys) {
    ns.mapper.path_of(key, path);
    const ChunkId slot = ns.residency->find(key);
    if (slot != kNoChunk && !ns.residency->is_leaving(slot) && ::access(path.c_str(), F_OK) != 0) {
      ns.residency->remove(slot);
      saver_.changed();
    }
    path += ".quarantined";
    const auto is_its = [&](const FsNamespace::SetAside& file) { return file.key == key; };
    const auto at = std::find_if(ns.set_aside.begin(), ns.set_aside.end(), is_its);
    if (at == ns.set_aside.end() || ::access(path.c_str(), F_OK) == 0) continue;
    ns.set_aside_bytes -= at->bytes;
    ns.set_aside.erase(at);
  }
}

}  // namespace kv_offload
