#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/offload_key.hpp"

namespace kv_offload {

/// Slots that one call must not evict: a stamp per slot, so that starting a new set costs nothing.
class ProtectedSlots {
 public:
  ProtectedSlots(std::span<const std::uint32_t> stamps, std::uint32_t current)
      : stamps_(stamps), current_(current) {}
  [[nodiscard]] bool contains(ChunkId chunk) const { return stamps_[chunk] == current_; }

 private:
  std::span<const std::uint32_t> stamps_;
  std::uint32_t current_;
};

/// Orders the resident chunks of a primary tier for eviction. Extension point; built by name through
/// EvictionPolicyRegistry. Owned by one primary tier and called from its thread only.
///
/// A resident chunk is named by its slot; keys are given where a policy may remember them after the
/// chunk is gone (ghosts). A chunk is *evictable* while nothing pins, holds or writes it.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  /// A chunk entered `chunk` and is being written (not evictable yet).
  virtual void insert(const OffloadKey& key, ChunkId chunk) = 0;
  /// A chunk left without having been evicted (failed store, forget): leaves no ghost.
  virtual void remove(const OffloadKey& key, ChunkId chunk) = 0;
  /// Nothing keeps the chunk any more: its position in the order is set now. The first call after insert
  /// also says that its bytes are ready; mark_non_evictable may follow at once.
  virtual void mark_evictable(ChunkId chunk) = 0;
  virtual void mark_non_evictable(ChunkId chunk) = 0;
  /// Recency hint. Processed from the last key to the first, so that the head of a prefix ends up most
  /// recent. `chunks[i]` is kNoChunk for keys that are not resident (they may be ghosts).
  virtual void touch(std::span<const OffloadKey> keys, std::span<const ChunkId> chunks) = 0;
  /// Chooses `count` victims among evictable chunks outside `keep`, in eviction order, forgets them (keeping ghosts where the policy has any) and appends their slots to
  /// `victims`. All or nothing: false changes nothing.
  virtual bool evict(std::size_t count, const ProtectedSlots& keep, std::vector<ChunkId>& victims) = 0;
  virtual void clear() = 0;

  [[nodiscard]] virtual std::string_view name() const = 0;
};

}  // namespace kv_offload
