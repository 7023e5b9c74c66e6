#pragma once

#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/tiers/eviction/key_index.hpp"
#include "kv_offload/tiers/eviction/slot_list.hpp"

#include <cstddef>
#include <vector>

namespace kv_offload {

/// Keys of chunks that are gone, oldest first, at most `capacity` of them: what ARC and S3-FIFO remember
/// of the past. Every operation is O(1); allocated once, resident as it fills.
class GhostList {
 public:
  explicit GhostList(ChunkId capacity) : capacity_(capacity), links_(capacity), index_(capacity) {}

  [[nodiscard]] bool contains(const OffloadKey& key) const { return index_.contains(key); }
  /// Adds `key` as the newest, or makes it the newest; drops the oldest beyond the capacity.
  void push(const OffloadKey& key) {
    if (capacity_ == 0 || refresh(key)) return;
    if (size() == capacity_) drop(order_.front());
    const ChunkId node = take_node();
    index_.insert(key, node);
    order_.push_back(node);
  }
  /// Makes `key` the newest; false if it is no ghost.
  bool refresh(const OffloadKey& key) {
    const ChunkId node = index_.find(key);
    if (node == kNoChunk) return false;
    order_.move_to_back(node);
    return true;
  }
  bool erase(const OffloadKey& key) {
    const ChunkId node = index_.find(key);
    if (node == kNoChunk) return false;
    drop(node);
    return true;
  }
  void clear() {
    index_.clear();
    order_.clear();
    unused_.clear();
    next_node_ = 0;
  }

  [[nodiscard]] std::size_t size() const { return order_.size(); }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  /// Oldest first; for tests and dumps.
  [[nodiscard]] KeyList keys() const {
    KeyList out;
    for (ChunkId n = order_.front(); n != kNoChunk; n = order_.next(n))
      out.push_back(index_.key_of(n));
    return out;
  }

 private:
  void drop(ChunkId node) {
    index_.erase(node);
    order_.erase(node);
    unused_.push_back(node);
  }
  ChunkId take_node() {
    if (unused_.empty()) return next_node_++;
    const ChunkId node = unused_.back();
    unused_.pop_back();
    return node;
  }

  ChunkId capacity_;
  SlotLinks links_;  // of nodes: a ghost has no slot, but the same bounded numbering serves
  SlotList order_{links_};
  KeyIndex index_;
  std::vector<ChunkId> unused_;
  ChunkId next_node_ = 0;
};

}  // namespace kv_offload
