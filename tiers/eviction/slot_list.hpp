#pragma once

#include "kv_offload/messages/ids.hpp"

#include <cassert>
#include <cstddef>
#include <vector>

namespace kv_offload {

/// Links of doubly linked lists over slot numbers: two arrays, allocated once. Several SlotLists may
/// share one SlotLinks, because a slot is in at most one of them at a time.
struct SlotLinks {
  explicit SlotLinks(ChunkId num_chunks) : prev(num_chunks, kNoChunk), next(num_chunks, kNoChunk) {}
  std::vector<ChunkId> prev;
  std::vector<ChunkId> next;
};

/// An ordered list of slots, front = oldest. Every operation is O(1) and allocates nothing. The caller
/// knows which list a slot is in. `links` outlives the list.
class SlotList {
 public:
  explicit SlotList(SlotLinks& links) : links_(&links) {}

  void push_back(ChunkId chunk) {
    links_->prev[chunk] = back_;
    links_->next[chunk] = kNoChunk;
    (back_ == kNoChunk ? front_ : links_->next[back_]) = chunk;
    back_ = chunk;
    ++size_;
  }
  void erase(ChunkId chunk) {
    assert(size_ > 0);
    const ChunkId prev = links_->prev[chunk];
    const ChunkId next = links_->next[chunk];
    (prev == kNoChunk ? front_ : links_->next[prev]) = next;
    (next == kNoChunk ? back_ : links_->prev[next]) = prev;
    --size_;
  }
  void move_to_back(ChunkId chunk) {
    if (chunk == back_) return;
    erase(chunk);
    push_back(chunk);
  }
  void clear() {
    front_ = back_ = kNoChunk;
    size_ = 0;
  }

  [[nodiscard]] ChunkId front() const { return front_; }
  /// The slot after `chunk`, towards the back; kNoChunk at the end.
  [[nodiscard]] ChunkId next(ChunkId chunk) const { return links_->next[chunk]; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

 private:
  SlotLinks* links_;
  ChunkId front_ = kNoChunk;
  ChunkId back_ = kNoChunk;
  std::size_t size_ = 0;
};

}  // namespace kv_offload
