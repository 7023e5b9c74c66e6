#include "kv_offload/tiers/eviction/arc_policy.hpp"

#include <algorithm>

namespace kv_offload {
namespace {

/// How far one ghost hit moves the target: by the ratio of the lists, at least by one chunk.
double step(const GhostList& other, const GhostList& hit) {
  return std::max(1.0, static_cast<double>(other.size()) / static_cast<double>(hit.size()));
}

}  // namespace

ArcPolicy::ArcPolicy(ChunkId num_chunks)
    : links_(num_chunks), b1_(num_chunks), b2_(num_chunks), slots_(num_chunks) {}

void ArcPolicy::insert(const OffloadKey& key, ChunkId chunk) {
  assert(slots_[chunk].place == Place::none);
  b1_.erase(key);
  b2_.erase(key);
  slots_[chunk] = {key.hash(), Place::t1, false, false};
  t1_.push_back(chunk);
}

void ArcPolicy::remove(const OffloadKey&, ChunkId chunk) { leave(chunk); }

void ArcPolicy::leave(ChunkId chunk) {
  Slot& slot = slots_[chunk];
  if (slot.place == Place::none) return;
  (slot.place == Place::t1 ? t1_ : t2_).erase(chunk);
  slot.place = Place::none;
  slot.evictable = false;
}

void ArcPolicy::mark_evictable(ChunkId chunk) {
  slots_[chunk].ready = slots_[chunk].evictable = true;
}

void ArcPolicy::mark_non_evictable(ChunkId chunk) { slots_[chunk].evictable = false; }

void ArcPolicy::touch(std::span<const OffloadKey> keys, std::span<const ChunkId> chunks) {
  for (std::size_t i = keys.size(); i-- > 0;) {
    if (chunks[i] != kNoChunk && slots_[chunks[i]].place != Place::none)
      touch_resident(chunks[i]);
    else
      touch_ghost(keys[i]);
  }
}

void ArcPolicy::touch_resident(ChunkId chunk) {
  Slot& slot = slots_[chunk];
  if (slot.place == Place::t2) return t2_.move_to_back(chunk);
  if (!slot.ready) return t1_.move_to_back(chunk);
  t1_.erase(chunk);
  t2_.push_back(chunk);
  slot.place = Place::t2;
}

void ArcPolicy::touch_ghost(const OffloadKey& key) {
  if (b1_.refresh(key))
    target_ = std::min(static_cast<double>(slots_.size()), target_ + step(b2_, b1_));
  else if (b2_.refresh(key))
    target_ = std::max(0.0, target_ - step(b1_, b2_));
}

ChunkId ArcPolicy::next_candidate(const SlotList& list, ChunkId& cursor,
                                  const ProtectedSlots& keep) const {
  while (cursor != kNoChunk) {
    const ChunkId chunk = cursor;
    cursor = list.next(chunk);
    if (slots_[chunk].evictable && !keep.contains(chunk)) return chunk;
  }
  return kNoChunk;
}

bool ArcPolicy::evict(std::size_t count, const ProtectedSlots& keep,
                      std::vector<ChunkId>& victims) {
  const std::size_t before = victims.size();
  ChunkId t1_cursor = t1_.front();
  ChunkId t2_cursor = t2_.front();
  std::size_t t1_left = t1_.size();  // as if the victims so far were gone
  const auto wished = static_cast<std::size_t>(target_);
  while (victims.size() - before < count) {
    const bool from_t1 = t1_left >= wished;
    ChunkId chunk = from_t1 ? next_candidate(t1_, t1_cursor, keep) : kNoChunk;
    if (chunk == kNoChunk) chunk = next_candidate(t2_, t2_cursor, keep);
    if (chunk == kNoChunk && !from_t1) chunk = next_candidate(t1_, t1_cursor, keep);
    if (chunk == kNoChunk) return victims.resize(before), false;
    if (slots_[chunk].place == Place::t1) --t1_left;
    victims.push_back(chunk);
  }
  for (std::size_t i = before; i < victims.size(); ++i) {
    const ChunkId chunk = victims[i];
    const bool in_t1 = slots_[chunk].place == Place::t1;
    leave(chunk);
    (in_t1 ? b1_ : b2_).push(slots_[chunk].key);
  }
  return true;
}

void ArcPolicy::clear() {
  t1_.clear();
  t2_.clear();
  b1_.clear();
  b2_.clear();
  slots_.assign(slots_.size(), Slot{});
  target_ = 0;
}

}  // namespace kv_offload
