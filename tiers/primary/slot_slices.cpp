#include "kv_offload/tiers/primary/slot_slices.hpp"

#include <cassert>
#include <numeric>
#include <utility>

namespace kv_offload {
namespace {

template <class Total, class Of>
Total sum(const std::vector<SlotSlices::Slice>& slices, Of of) {
  return std::accumulate(
      slices.begin(), slices.end(), Total{},
      [&](Total total, const auto& slice) { return static_cast<Total>(total + of(slice)); });
}

}  // namespace

SlotSlices::SlotSlices(ChunkId num_chunks, std::vector<std::unique_ptr<EvictionPolicy>> policies,
                       const std::atomic<std::uint32_t>* in_use)
    : slice_chunks_(num_chunks / static_cast<ChunkId>(policies.size())) {
  assert(num_chunks % policies.size() == 0);
  slices_.reserve(policies.size());
  ChunkId first = 0;
  for (auto& policy : policies) {
    assert(policy != nullptr);
    slices_.push_back({SlotPool(slice_chunks_, in_use == nullptr ? nullptr : in_use + first),
                       std::move(policy), first, 0, 0});
    first += slice_chunks_;
  }
}

ChunkId SlotSlices::reclaim() {
  ChunkId freed = 0;
  for (auto& slice : slices_) freed += slice.pool.reclaim();
  return freed;
}

ChunkId SlotSlices::free() const {
  return sum<ChunkId>(slices_, [](const Slice& s) { return s.pool.free(); });
}
ChunkId SlotSlices::unused() const {
  return sum<ChunkId>(slices_, [](const Slice& s) { return s.pool.unused(); });
}
ChunkId SlotSlices::quarantined() const {
  return sum<ChunkId>(slices_, [](const Slice& s) { return s.pool.quarantined(); });
}
ChunkId SlotSlices::evictable() const {
  return sum<ChunkId>(slices_, [](const Slice& s) { return s.evictable; });
}
std::uint64_t SlotSlices::met_in_use() const {
  return sum<std::uint64_t>(slices_, [](const Slice& s) { return s.pool.met_in_use(); });
}

bool SlotSlices::counts_match() const {
  for (const auto& slice : slices_)
    if (!slice.pool.counts_match()) return false;
  return true;
}

void SlotSlices::touch(std::span<const OffloadKey> keys, std::span<const ChunkId> chunks) {
  if (slices_.size() == 1) return slices_.front().policy->touch(keys, chunks);
  for (std::size_t s = 0; s < slices_.size(); ++s) {
    touched_keys_.clear();
    touched_chunks_.clear();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (chunks[i] != kNoChunk && slice_of(chunks[i]) != s) continue;  // of another slice
      touched_keys_.push_back(keys[i]);
      touched_chunks_.push_back(chunks[i] == kNoChunk ? kNoChunk : within(chunks[i]));
    }
    if (!touched_keys_.empty()) slices_[s].policy->touch(touched_keys_, touched_chunks_);
  }
}

void SlotSlices::reset() {
  for (auto& slice : slices_) {
    slice.policy->clear();
    slice.pool.reset();
    slice.evictable = 0;
  }
}

}  // namespace kv_offload
