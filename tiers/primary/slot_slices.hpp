#pragma once

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/tiers/eviction_policy.hpp"
#include "kv_offload/tiers/primary/slot_pool.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace kv_offload {

/// The slots of a primary tier in equal slices, one per memory they may lie in. Each slice has its own free slots and
/// its own eviction order, so that a chunk finds room near its device for as long as there is any. Slots are numbered
/// through. With one slice, what SlotPool and EvictionPolicy do and nothing else. Owned by PrimaryCache, on its thread.
class SlotSlices {
 public:
  struct Slice {
    SlotPool pool;
    std::unique_ptr<EvictionPolicy> policy;
    ChunkId first = 0;
    ChunkId evictable = 0;
    std::uint64_t evicted = 0;  ///< since construction
  };

  /// `policies.size()` divides `num_chunks`.
  SlotSlices(ChunkId num_chunks, std::vector<std::unique_ptr<EvictionPolicy>> policies,
             const std::atomic<std::uint32_t>* in_use);

  [[nodiscard]] std::size_t count() const { return slices_.size(); }
  [[nodiscard]] Slice& operator[](std::size_t slice) { return slices_[slice]; }
  [[nodiscard]] const Slice& operator[](std::size_t slice) const { return slices_[slice]; }
  [[nodiscard]] std::size_t slice_of(ChunkId chunk) const {
    return slices_.size() == 1 ? 0 : chunk / slice_chunks_;
  }

  // -- as SlotPool ---------------------------------------------------------------------------------
  ChunkId take(std::size_t slice) { return slices_[slice].first + slices_[slice].pool.take(); }
  void give_back(ChunkId chunk) { of(chunk).pool.give_back(within(chunk)); }
  void quarantine(ChunkId chunk) { of(chunk).pool.quarantine(within(chunk)); }
  void release(ChunkId chunk) { of(chunk).pool.release(within(chunk)); }
  ChunkId reclaim();
  [[nodiscard]] bool is_taken(ChunkId chunk) const {
    return of(chunk).pool.is_taken(within(chunk));
  }
  [[nodiscard]] std::uint32_t generation(ChunkId chunk) const {
    return of(chunk).pool.generation(within(chunk));
  }
  [[nodiscard]] ChunkId free() const;
  [[nodiscard]] ChunkId unused() const;
  [[nodiscard]] ChunkId quarantined() const;
  [[nodiscard]] std::uint64_t met_in_use() const;
  [[nodiscard]] bool counts_match() const;

  // -- as EvictionPolicy -----------------------------------------------------------------------------
  void insert(const OffloadKey& key, ChunkId chunk) {
    of(chunk).policy->insert(key, within(chunk));
  }
  void remove(const OffloadKey& key, ChunkId chunk) {
    of(chunk).policy->remove(key, within(chunk));
  }
  void mark_evictable(ChunkId chunk) {
    ++of(chunk).evictable;
    of(chunk).policy->mark_evictable(within(chunk));
  }
  void mark_non_evictable(ChunkId chunk) {
    --of(chunk).evictable;
    of(chunk).policy->mark_non_evictable(within(chunk));
  }
  /// It is gone, without the policy's doing or by it.
  void no_longer_evictable(ChunkId chunk) { --of(chunk).evictable; }
  void touch(std::span<const OffloadKey> keys, std::span<const ChunkId> chunks);
  [[nodiscard]] ChunkId evictable() const;

  /// All slots unused or quarantined, no order.
  void reset();

 private:
  [[nodiscard]] Slice& of(ChunkId chunk) { return slices_[slice_of(chunk)]; }
  [[nodiscard]] const Slice& of(ChunkId chunk) const { return slices_[slice_of(chunk)]; }
  [[nodiscard]] ChunkId within(ChunkId chunk) const { return chunk - of(chunk).first; }

  ChunkId slice_chunks_;
  std::vector<Slice> slices_;
  std::vector<OffloadKey> touched_keys_;  // scratch of one call
  std::vector<ChunkId> touched_chunks_;
};

}  // namespace kv_offload
