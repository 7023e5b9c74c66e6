#pragma once

#include "kv_offload/messages/ids.hpp"

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

namespace kv_offload {

/// Hands out the slots of a primary tier: never-used ones first, in ascending order, then the most
/// recently freed one. A slot is unused, free, taken or quarantined; quarantined slots are handed out to
/// nobody until released. Owned by PrimaryCache, on its thread; O(1) per slot.
class SlotPool {
 public:
  /// `in_use`: per slot, transfers and leases that may touch its bytes right now; null if nobody counts.
  SlotPool(ChunkId num_chunks, const std::atomic<std::uint32_t>* in_use);

  /// Looks at the next `count` slots that `take` would hand out and quarantines those still in use, so
  /// that `free()` may shrink. Such a slot is a broken promise elsewhere: each one is counted.
  void quarantine_candidates_in_use(ChunkId count);
  /// The next slot, now taken, its generation raised. Needs `free() > 0`.
  ChunkId take();
  /// taken → free, to be handed out next.
  void give_back(ChunkId chunk);
  /// taken → free, to be handed out after all that are free now, first one first.
  void give_back_last(std::span<const ChunkId> chunks);
  /// taken → quarantined, until `release`.
  void quarantine(ChunkId chunk);
  /// quarantined → free; stays quarantined, as one found in use, while its count is above zero. Ignored
  /// for slots that are not quarantined.
  void release(ChunkId chunk);
  /// Frees the slots that were found in use and are no longer; how many. For a periodic tick.
  ChunkId reclaim();
  /// All slots unused and numbering from 0 again, except those quarantined or in use: they stay or
  /// become quarantined and are passed over. Generations go on.
  void reset();

  [[nodiscard]] bool is_taken(ChunkId chunk) const { return state_[chunk] == State::taken; }
  [[nodiscard]] bool is_quarantined(ChunkId chunk) const {
    return state_[chunk] == State::quarantined || state_[chunk] == State::found_in_use;
  }
  [[nodiscard]] std::uint32_t generation(ChunkId chunk) const { return generation_[chunk]; }
  [[nodiscard]] ChunkId num_chunks() const { return static_cast<ChunkId>(state_.size()); }
  [[nodiscard]] ChunkId free() const { return unused_ + static_cast<ChunkId>(free_list_.size()); }
  [[nodiscard]] ChunkId unused() const { return unused_; }
  [[nodiscard]] ChunkId quarantined() const { return quarantined_; }
  /// Slots met at hand-out although in use.
  [[nodiscard]] std::uint64_t met_in_use() const { return met_in_use_; }
  /// Recounts everything. For tests and stress.
  [[nodiscard]] bool counts_match() const;

 private:
  enum class State : std::uint8_t { unused, free, taken, quarantined, found_in_use };

  [[nodiscard]] bool in_use(ChunkId chunk) const {
    return in_use_ != nullptr && in_use_[chunk].load(std::memory_order_acquire) != 0;
  }
  void set_found_in_use(ChunkId chunk);
  void set_free(ChunkId chunk);

  const std::atomic<std::uint32_t>* in_use_;
  std::vector<State> state_;
  std::vector<std::uint32_t> generation_;
  std::vector<ChunkId> free_list_;     // handed out from the back
  std::vector<ChunkId> found_in_use_;  // watched by reclaim; normally empty
  ChunkId next_unused_ = 0;            // no unused slot lies below
  ChunkId unused_;
  ChunkId quarantined_ = 0;
  std::uint64_t met_in_use_ = 0;
};

}  // namespace kv_offload
