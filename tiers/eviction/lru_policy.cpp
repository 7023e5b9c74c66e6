#include "kv_offload/tiers/eviction/lru_policy.hpp"

namespace kv_offload {

LruPolicy::LruPolicy(ChunkId num_chunks) : links_(num_chunks), listed_(num_chunks, 0) {}

void LruPolicy::insert(const OffloadKey&, ChunkId chunk) {
  assert(listed_[chunk] == 0);
  static_cast<void>(chunk);
}

void LruPolicy::remove(const OffloadKey&, ChunkId chunk) { mark_non_evictable(chunk); }

void LruPolicy::mark_evictable(ChunkId chunk) {
  if (listed_[chunk] != 0) return;
  listed_[chunk] = 1;
  evictable_.push_back(chunk);
}

void LruPolicy::mark_non_evictable(ChunkId chunk) {
  if (listed_[chunk] == 0) return;
  listed_[chunk] = 0;
  evictable_.erase(chunk);
}

void LruPolicy::touch(std::span<const OffloadKey>, std::span<const ChunkId> chunks) {
  for (std::size_t i = chunks.size(); i-- > 0;)
    if (chunks[i] != kNoChunk && listed_[chunks[i]] != 0) evictable_.move_to_back(chunks[i]);
}

bool LruPolicy::evict(std::size_t count, const ProtectedSlots& keep,
                      std::vector<ChunkId>& victims) {
  if (count > evictable_.size()) return false;
  const std::size_t before = victims.size();
  for (ChunkId c = evictable_.front(); c != kNoChunk && victims.size() - before < count;
       c = evictable_.next(c))
    if (!keep.contains(c)) victims.push_back(c);
  if (victims.size() - before < count) return victims.resize(before), false;
  for (std::size_t i = before; i < victims.size(); ++i) mark_non_evictable(victims[i]);
  return true;
}

void LruPolicy::clear() {
  evictable_.clear();
  listed_.assign(listed_.size(), 0);
}

}  // namespace kv_offload
