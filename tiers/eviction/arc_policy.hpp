#pragma once

#include "kv_offload/tiers/eviction/ghost_list.hpp"
#include "kv_offload/tiers/eviction/slot_list.hpp"
#include "kv_offload/tiers/eviction_policy.hpp"

#include <cstdint>
#include <vector>

namespace kv_offload {

/// Adaptive replacement between recency and frequency.
///
/// T1 holds chunks seen once, T2 those touched again; B1 and B2 remember the keys evicted from each, at
/// most one capacity each. `target` is the wished size of T1 and moves only when a ghost is touched.
/// Differences from the textbook, all on purpose: a ghost that is stored again enters T1; only `touch`
/// adapts the target; a batch of victims is chosen by one simulated scan of each list. Where the list
/// that the target points at has no candidate left, the other one is used, so eviction fails only when
/// there are too few evictable chunks.
///
/// Chunks keep their place while pinned or held and are skipped by eviction, which costs victims +
/// skipped; every other operation is O(1) per chunk.
class ArcPolicy final : public EvictionPolicy {
 public:
  explicit ArcPolicy(ChunkId num_chunks);

  void insert(const OffloadKey& key, ChunkId chunk) override;
  void remove(const OffloadKey& key, ChunkId chunk) override;
  void mark_evictable(ChunkId chunk) override;
  void mark_non_evictable(ChunkId chunk) override;
  void touch(std::span<const OffloadKey> keys, std::span<const ChunkId> chunks) override;
  bool evict(std::size_t count, const ProtectedSlots& keep, std::vector<ChunkId>& victims) override;
  void clear() override;
  [[nodiscard]] std::string_view name() const override { return "arc"; }

  // Observers for tests and dumps.
  [[nodiscard]] std::size_t t1_size() const { return t1_.size(); }
  [[nodiscard]] std::size_t t2_size() const { return t2_.size(); }
  [[nodiscard]] const GhostList& b1() const { return b1_; }
  [[nodiscard]] const GhostList& b2() const { return b2_; }
  [[nodiscard]] double target() const { return target_; }

 private:
  enum class Place : std::uint8_t { none, t1, t2 };
  struct Slot {
    std::uint64_t key = 0;  // its hash: what a ghost remembers
    Place place = Place::none;
    bool ready = false;  // its bytes are there: it has been evictable at least once
    bool evictable = false;
  };

  void leave(ChunkId chunk);
  void touch_resident(ChunkId chunk);
  void touch_ghost(const OffloadKey& key);
  /// Next candidate at or after `cursor`; moves the cursor past it. kNoChunk: the list is exhausted.
  ChunkId next_candidate(const SlotList& list, ChunkId& cursor, const ProtectedSlots& keep) const;

  SlotLinks links_;
  SlotList t1_{links_};
  SlotList t2_{links_};
  GhostList b1_;
  GhostList b2_;
  std::vector<Slot> slots_;
  double target_ = 0;
};

}  // namespace kv_offload
