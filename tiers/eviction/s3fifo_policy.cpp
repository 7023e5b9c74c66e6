#include "kv_offload/tiers/eviction/s3fifo_policy.hpp"

#include <algorithm>

namespace kv_offload {
namespace {

constexpr ChunkId kSmallDivisor = 10;  // the small queue's tenth, from the S3-FIFO paper

}  // namespace

S3FifoPolicy::S3FifoPolicy(ChunkId num_chunks)
    : links_(num_chunks),
      ghosts_(num_chunks - num_chunks / kSmallDivisor),
      slots_(num_chunks),
      small_wished_(std::max<ChunkId>(1, num_chunks / kSmallDivisor)) {}

void S3FifoPolicy::insert(const OffloadKey& key, ChunkId chunk) {
  assert(slots_[chunk].place == Place::none);
  const bool was_ghost = ghosts_.erase(key);
  slots_[chunk] = {key.hash(), was_ghost ? Place::main : Place::small, false, 0};
  (was_ghost ? main_ : small_).push_back(chunk);
}

void S3FifoPolicy::remove(const OffloadKey&, ChunkId chunk) { leave(chunk); }

void S3FifoPolicy::leave(ChunkId chunk) {
  Slot& slot = slots_[chunk];
  if (slot.place == Place::none) return;
  (slot.place == Place::small ? small_ : main_).erase(chunk);
  slot.place = Place::none;
  slot.evictable = false;
}

void S3FifoPolicy::mark_evictable(ChunkId chunk) { slots_[chunk].evictable = true; }

void S3FifoPolicy::mark_non_evictable(ChunkId chunk) { slots_[chunk].evictable = false; }

void S3FifoPolicy::touch(std::span<const OffloadKey>, std::span<const ChunkId> chunks) {
  for (const ChunkId chunk : chunks) {  // the order makes no difference: nothing moves
    if (chunk == kNoChunk) continue;
    Slot& slot = slots_[chunk];
    if (slot.place != Place::none && slot.touches < kTouchesMax) ++slot.touches;
  }
}

bool S3FifoPolicy::has_candidates(std::size_t count, const ProtectedSlots& keep) const {
  for (const SlotList* list : {&small_, &main_})
    for (ChunkId c = list->front(); c != kNoChunk && count > 0; c = list->next(c))
      if (is_candidate(c, keep)) --count;
  return count == 0;
}

void S3FifoPolicy::enter_main(ChunkId chunk) {
  slots_[chunk].place = Place::main;
  main_.push_back(chunk);
  if (main_cursor_ == kNoChunk) main_cursor_ = chunk;  // the scan had reached the end: go on here
}

void S3FifoPolicy::take(ChunkId chunk, std::vector<ChunkId>& victims) {
  leave(chunk);
  victims.push_back(chunk);
}

bool S3FifoPolicy::step_small(const ProtectedSlots& keep, std::vector<ChunkId>& victims) {
  while (small_cursor_ != kNoChunk) {
    const ChunkId chunk = small_cursor_;
    small_cursor_ = small_.next(chunk);
    if (!is_candidate(chunk, keep)) continue;
    if (slots_[chunk].touches > 1) {
      small_.erase(chunk);
      slots_[chunk].touches = 0;
      enter_main(chunk);
    } else {
      take(chunk, victims);
      ghosts_.push(slots_[chunk].key);
    }
    return true;
  }
  return false;
}

bool S3FifoPolicy::step_main(const ProtectedSlots& keep, std::vector<ChunkId>& victims) {
  while (main_cursor_ != kNoChunk) {
    const ChunkId chunk = main_cursor_;
    main_cursor_ = main_.next(chunk);
    if (!is_candidate(chunk, keep)) continue;
    if (slots_[chunk].touches > 0) {
      --slots_[chunk].touches;
      main_.erase(chunk);
      enter_main(chunk);
    } else {
      take(chunk, victims);
    }
    return true;
  }
  return false;
}

bool S3FifoPolicy::evict(std::size_t count, const ProtectedSlots& keep,
                         std::vector<ChunkId>& victims) {
  if (!has_candidates(count, keep)) return false;
  small_cursor_ = small_.front();
  main_cursor_ = main_.front();
  const std::size_t wanted = victims.size() + count;
  while (victims.size() < wanted) {  // ends: each step takes a victim or uses up touches
    const bool small_first = small_.size() >= small_wished_;
    const bool stepped = small_first ? step_small(keep, victims) || step_main(keep, victims)
                                     : step_main(keep, victims) || step_small(keep, victims);
    assert(stepped);
    if (!stepped) break;
  }
  return victims.size() == wanted;
}

void S3FifoPolicy::clear() {
  small_.clear();
  main_.clear();
  ghosts_.clear();
  slots_.assign(slots_.size(), Slot{});
}

}  // namespace kv_offload
