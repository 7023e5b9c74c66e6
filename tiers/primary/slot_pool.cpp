#include "kv_offload/tiers/primary/slot_pool.hpp"

#include <algorithm>
#include <cassert>

namespace kv_offload {

SlotPool::SlotPool(ChunkId num_chunks, const std::atomic<std::uint32_t>* in_use)
    : in_use_(in_use),
      state_(num_chunks, State::unused),
      generation_(num_chunks, 0),
      unused_(num_chunks) {}

void SlotPool::quarantine_candidates_in_use(ChunkId count) {
  if (in_use_ == nullptr) return;
  ChunkId left = std::min(count, free());
  for (ChunkId c = next_unused_; c < num_chunks() && left > 0; ++c) {
    if (state_[c] != State::unused) continue;
    if (!in_use(c)) {
      --left;
      continue;
    }
    --unused_;
    ++met_in_use_;
    set_found_in_use(c);
  }
  for (auto i = free_list_.size(); i > 0 && left > 0; --i) {
    const ChunkId c = free_list_[i - 1];
    if (!in_use(c)) {
      --left;
      continue;
    }
    free_list_.erase(free_list_.begin() + static_cast<std::ptrdiff_t>(i - 1));
    ++met_in_use_;
    set_found_in_use(c);
  }
}

ChunkId SlotPool::take() {
  assert(free() > 0);
  ChunkId chunk = kNoChunk;
  if (unused_ > 0) {
    while (state_[next_unused_] != State::unused) ++next_unused_;
    chunk = next_unused_++;
    --unused_;
  } else {
    chunk = free_list_.back();
    free_list_.pop_back();
  }
  state_[chunk] = State::taken;
  ++generation_[chunk];
  return chunk;
}

void SlotPool::set_free(ChunkId chunk) {
  state_[chunk] = State::free;
  free_list_.push_back(chunk);
}

void SlotPool::give_back(ChunkId chunk) {
  assert(is_taken(chunk));
  set_free(chunk);
}

void SlotPool::give_back_last(std::span<const ChunkId> chunks) {
  for (const ChunkId c : chunks) {
    assert(is_taken(c));
    state_[c] = State::free;
  }
  free_list_.insert(free_list_.begin(), chunks.rbegin(), chunks.rend());
}

void SlotPool::quarantine(ChunkId chunk) {
  assert(is_taken(chunk));
  state_[chunk] = State::quarantined;
  ++quarantined_;
}

void SlotPool::set_found_in_use(ChunkId chunk) {
  state_[chunk] = State::found_in_use;
  found_in_use_.push_back(chunk);
  ++quarantined_;
}

void SlotPool::release(ChunkId chunk) {
  if (!is_quarantined(chunk)) return;
  if (state_[chunk] == State::found_in_use) std::erase(found_in_use_, chunk);
  --quarantined_;
  if (in_use(chunk)) return set_found_in_use(chunk);
  if (chunk < next_unused_) return set_free(chunk);
  state_[chunk] = State::unused;  // numbering restarted below it: it is never-used again
  ++unused_;
}

ChunkId SlotPool::reclaim() {
  const auto watched = found_in_use_;  // release() edits the list
  ChunkId reclaimed = 0;
  for (const ChunkId c : watched) {
    if (in_use(c)) continue;
    release(c);
    ++reclaimed;
  }
  return reclaimed;
}

void SlotPool::reset() {
  free_list_.clear();
  next_unused_ = 0;
  unused_ = 0;
  for (ChunkId c = 0; c < num_chunks(); ++c) {
    if (is_quarantined(c)) continue;
    if (in_use(c)) {
      set_found_in_use(c);
    } else {
      state_[c] = State::unused;
      ++unused_;
    }
  }
}

bool SlotPool::counts_match() const {
  std::vector<std::uint8_t> listed(state_.size(), 0);
  for (const ChunkId c : free_list_) {
    if (state_[c] != State::free || listed[c] != 0) return false;
    listed[c] = 1;
  }
  ChunkId unused = 0;
  ChunkId quarantined = 0;
  for (ChunkId c = 0; c < num_chunks(); ++c) {
    if (state_[c] == State::unused) {
      if (c < next_unused_) return false;
      ++unused;
    }
    if (is_quarantined(c)) ++quarantined;
    if (state_[c] == State::free && listed[c] == 0) return false;
  }
  return unused == unused_ && quarantined == quarantined_;
}

}  // namespace kv_offload
