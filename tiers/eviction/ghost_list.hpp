#pragma once

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/tiers/eviction/slot_list.hpp"

#include <absl/container/flat_hash_set.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kv_offload {

/// Keys of chunks that are gone, oldest first, at most `capacity` of them: what ARC and S3-FIFO remember
/// of the past. A key is remembered by its 64-bit hash: two keys of one hash are one ghost, which shifts
/// a policy by one chunk and nothing else. Every operation is O(1); allocated once, resident as it fills:
/// 8 bytes of hash, 8 of links and 5 to 11 of table per ghost.
class GhostList {
 public:
  explicit GhostList(ChunkId capacity) : capacity_(capacity), links_(capacity) {
    hashes_.reserve(capacity);
    nodes_.reserve(capacity);
  }
  GhostList(const GhostList&) = delete;
  GhostList& operator=(const GhostList&) = delete;

  [[nodiscard]] bool contains(const OffloadKey& key) const { return nodes_.contains(key.hash()); }
  /// Adds the key of this hash as the newest, or makes it the newest; drops the oldest beyond the
  /// capacity.
  void push(std::uint64_t key_hash) {
    if (capacity_ == 0 || refresh(key_hash)) return;
    if (size() == capacity_) drop(order_.front());
    const ChunkId node = take_node();
    if (node >= hashes_.size()) hashes_.resize(std::size_t{node} + 1);
    hashes_[node] = key_hash;
    nodes_.insert(node);
    order_.push_back(node);
  }
  /// Makes `key` the newest; false if it is no ghost.
  bool refresh(const OffloadKey& key) { return refresh(key.hash()); }
  bool erase(const OffloadKey& key) {
    const auto it = nodes_.find(key.hash());
    if (it == nodes_.end()) return false;
    drop(*it);
    return true;
  }
  void clear() {
    nodes_.clear();
    nodes_.reserve(capacity_);  // clear() gives large tables back
    order_.clear();
    unused_.clear();
    next_node_ = 0;
  }

  [[nodiscard]] std::size_t size() const { return order_.size(); }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  /// Hashes of the keys, oldest first; for tests and dumps.
  [[nodiscard]] std::vector<std::uint64_t> keys() const {
    std::vector<std::uint64_t> out;
    for (ChunkId n = order_.front(); n != kNoChunk; n = order_.next(n)) out.push_back(hashes_[n]);
    return out;
  }

 private:
  struct Hash {
    using is_transparent = void;
    const std::vector<std::uint64_t>* hashes;
    std::size_t operator()(std::uint64_t hash) const { return hash; }
    std::size_t operator()(ChunkId node) const { return (*hashes)[node]; }
  };
  struct Equal {
    using is_transparent = void;
    const std::vector<std::uint64_t>* hashes;
    bool operator()(ChunkId a, ChunkId b) const { return a == b; }
    bool operator()(ChunkId a, std::uint64_t b) const { return (*hashes)[a] == b; }
    bool operator()(std::uint64_t a, ChunkId b) const { return a == (*hashes)[b]; }
  };

  bool refresh(std::uint64_t key_hash) {
    const auto it = nodes_.find(key_hash);
    if (it == nodes_.end()) return false;
    order_.move_to_back(*it);
    return true;
  }
  void drop(ChunkId node) {
    nodes_.erase(node);
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
  std::vector<std::uint64_t> hashes_;  // by node
  absl::flat_hash_set<ChunkId, Hash, Equal> nodes_{0, Hash{&hashes_}, Equal{&hashes_}};
  std::vector<ChunkId> unused_;  // nodes given back
  ChunkId next_node_ = 0;
};

}  // namespace kv_offload
