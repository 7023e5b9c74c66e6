#pragma once

#include "kv_offload/tiers/eviction/slot_list.hpp"
#include "kv_offload/tiers/eviction_policy.hpp"

#include <cstdint>
#include <vector>

namespace kv_offload {

/// Least recently used. One list of the *evictable* chunks, oldest first.
///
/// A chunk gets its position when it becomes evictable (published, last pin or hold gone): it is then
/// the most recent one. `touch` moves evictable chunks only, from the last key to the first; a chunk
/// that is pinned or being written ignores it. Victims are taken from the old end, skipping kept ones.
/// No allocation after construction; eviction costs victims + skipped, everything else O(1) per chunk.
class LruPolicy final : public EvictionPolicy {
 public:
  explicit LruPolicy(ChunkId num_chunks);

  void insert(const OffloadKey& key, ChunkId chunk) override;
  void remove(const OffloadKey& key, ChunkId chunk) override;
  void mark_evictable(ChunkId chunk) override;
  void mark_non_evictable(ChunkId chunk) override;
  void touch(std::span<const OffloadKey> keys, std::span<const ChunkId> chunks) override;
  bool evict(std::size_t count, const ProtectedSlots& keep, std::vector<ChunkId>& victims) override;
  void clear() override;
  [[nodiscard]] std::string_view name() const override { return "lru"; }

 private:
  SlotLinks links_;
  SlotList evictable_{links_};
  std::vector<std::uint8_t> listed_;  // per slot: in evictable_
};

}  // namespace kv_offload
