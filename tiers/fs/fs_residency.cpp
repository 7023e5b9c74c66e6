#include "kv_offload/tiers/fs/fs_residency.hpp"

#include "kv_offload/tiers/eviction/eviction_registry.hpp"

#include <algorithm>
#include <cassert>
#include <new>
#include <span>
#include <utility>

namespace kv_offload {

Expected<std::unique_ptr<FsResidency>> FsResidency::make(const Options& options) {
  try {
    auto policy = eviction_policies().make(options.policy, options.slots);
    if (!policy) return policy.error();
    return std::unique_ptr<FsResidency>(new FsResidency(options.slots, std::move(*policy)));
  } catch (const std::bad_alloc&) {
    return {OffloadErrc::no_space,
            "no memory for the index of " + std::to_string(options.slots) + " chunks"};
  }
}

FsResidency::FsResidency(ChunkId slots, std::unique_ptr<EvictionPolicy> policy)
    : num_slots_(slots), policy_(std::move(policy)), keys_(slots) {
  units_.reserve(slots);
  uses_.reserve(slots);
  states_.reserve(slots);
  slots_.reserve(slots);  // growing later would stop the lane for a second at 10^7 chunks
}

ChunkId FsResidency::find(const OffloadKey& key) const {
  const auto it = slots_.find(key);
  return it == slots_.end() ? kNoChunk : *it;
}

// --- slots ----------------------------------------------------------------------------------------

ChunkId FsResidency::take_slot(const OffloadKey& key, std::uint64_t bytes, std::uint64_t use) {
  assert(has_free_slot());
  ChunkId slot = free_;
  if (slot == kNoChunk) {
    slot = static_cast<ChunkId>(states_.size());
    units_.push_back(0);
    uses_.push_back(0);
    states_.push_back(0);
  } else {
    free_ = units_[slot];
  }
  keys_.set(slot, key);
  units_[slot] = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / kUnit, kUnitsMax));
  uses_[slot] = use;
  states_[slot] = kUsed;
  slots_.insert(slot);
  ++used_;
  bytes_ += bytes_of(slot);
  return slot;
}

void FsResidency::free_slot(ChunkId slot) {
  states_[slot] = 0;
  units_[slot] = std::exchange(free_, slot);
  --used_;
}

void FsResidency::enter_policy(ChunkId slot) {
  policy_->insert(key_of(slot), slot);
  policy_->mark_evictable(slot);
  if (is_pinned(slot)) policy_->mark_non_evictable(slot);
}

ChunkId FsResidency::insert_used(const OffloadKey& key, std::uint64_t bytes, std::uint64_t use) {
  const ChunkId slot = take_slot(key, bytes, use);
  enter_policy(slot);
  return slot;
}

ChunkId FsResidency::insert_cold(const OffloadKey& key, std::uint64_t bytes, std::uint64_t use,
                                 bool unverified) {
  const ChunkId slot = take_slot(key, bytes, use);
  set(slot, kCold);
  if (unverified) set(slot, kUnverified);
  if (cold_.capacity() == 0) cold_.reserve(num_slots_);  // resident as it fills
  cold_.push_back({static_cast<std::uint32_t>(use >> 32), static_cast<std::uint32_t>(use), slot});
  std::push_heap(cold_.begin(), cold_.end());
  return slot;
}

// --- use ------------------------------------------------------------------------------------------

void FsResidency::touch(ChunkId slot, std::uint64_t use) {
  uses_[slot] = use;
  clear(slot, kUnverified);
  if (has(slot, kCold)) {
    clear(slot, kCold);
    enter_policy(slot);
  }
  if (!is_in_policy(slot)) return;
  const OffloadKey key = key_of(slot);
  policy_->touch(std::span(&key, 1), std::span(&slot, 1));
}

void FsResidency::replaced(ChunkId slot, std::uint64_t bytes, std::uint64_t use) {
  bytes_ -= bytes_of(slot);
  units_[slot] = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / kUnit, kUnitsMax));
  bytes_ += bytes_of(slot);
  if (has(slot, kStuck)) {
    clear(slot, kStuck);
    enter_policy(slot);
  }
  touch(slot, use);
}

void FsResidency::pin(ChunkId slot) {
  if (pins_[slot]++ == 0 && is_in_policy(slot)) policy_->mark_non_evictable(slot);
}

void FsResidency::unpin(ChunkId slot) {
  const auto it = pins_.find(slot);
  assert(it != pins_.end());
  if (--it->second > 0) return;
  pins_.erase(it);
  if (has(slot, kGone))
    free_slot(slot);
  else if (is_in_policy(slot))
    policy_->mark_evictable(slot);
}

void FsResidency::remove(ChunkId slot) {
  assert(is_present(slot));
  if (is_in_policy(slot)) policy_->remove(key_of(slot), slot);
  slots_.erase(slot);
  bytes_ -= bytes_of(slot);
  if (is_pinned(slot))
    states_[slot] = kUsed | kGone;
  else
    free_slot(slot);
}

// --- victims --------------------------------------------------------------------------------------

/// Takes nodes off the top whose chunk was used, or is gone.
void FsResidency::drop_stale_cold() {
  while (!cold_.empty()) {
    const ColdNode& top = cold_.front();
    if (has(top.slot, kCold) && uses_[top.slot] == top.use()) return;
    std::pop_heap(cold_.begin(), cold_.end());
    cold_.pop_back();
  }
  if (cold_.capacity() > 0) std::vector<ColdNode>().swap(cold_);
}

std::optional<std::uint64_t> FsResidency::oldest_cold() {
  drop_stale_cold();
  if (cold_.empty()) return std::nullopt;
  return cold_.front().use();
}

std::optional<ChunkId> FsResidency::take_cold() {
  drop_stale_cold();
  if (cold_.empty()) return std::nullopt;
  const ChunkId slot = cold_.front().slot;
  std::pop_heap(cold_.begin(), cold_.end());
  cold_.pop_back();
  clear(slot, kCold);
  return slot;
}

std::optional<ChunkId> FsResidency::take_victim() {
  auto slot = take_cold();  // never pinned: a load is a use
  if (!slot) {
    victims_.clear();
    // Nothing besides pins needs protection, and no size has this value.
    if (!policy_->evict(1, ProtectedSlots(units_, ~0U), victims_)) return std::nullopt;
    slot = victims_.front();
  }
  assert(!is_pinned(*slot));
  set(*slot, kLeaving);
  ++leaving_;
  bytes_ -= bytes_of(*slot);
  return slot;
}

void FsResidency::left(ChunkId slot) {
  assert(is_leaving(slot));
  --leaving_;
  slots_.erase(slot);
  free_slot(slot);
}

void FsResidency::stuck(ChunkId slot) {
  assert(is_leaving(slot));
  --leaving_;
  clear(slot, kLeaving);
  set(slot, kStuck);
  bytes_ += bytes_of(slot);
}

}  // namespace kv_offload
