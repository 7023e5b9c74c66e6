#pragma once

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/offload_key.hpp"

#include <absl/container/flat_hash_set.h>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kv_offload {

/// Which slot a key is in. Each key is kept once, under its slot; the hash table holds slot numbers only
/// (4 bytes) and compares the keys they stand for. Allocated for `capacity` slots, but memory becomes
/// resident only as slots are used.
class KeyIndex {
 public:
  explicit KeyIndex(std::size_t capacity) : capacity_(capacity) {
    keys_.reserve(capacity);
    slots_.reserve(capacity);
  }
  KeyIndex(const KeyIndex&) = delete;
  KeyIndex& operator=(const KeyIndex&) = delete;

  /// kNoChunk if absent.
  [[nodiscard]] ChunkId find(const OffloadKey& key) const {
    const auto it = slots_.find(key);
    return it == slots_.end() ? kNoChunk : *it;
  }
  [[nodiscard]] bool contains(const OffloadKey& key) const { return slots_.contains(key); }
  /// Asks the processor to fetch what `find(key)` will read first.
  void prefetch(const OffloadKey& key) const { slots_.prefetch(key); }

  /// `key` is absent and `chunk` is not in the index.
  void insert(const OffloadKey& key, ChunkId chunk) {
    assert(chunk < capacity_);
    if (chunk >= keys_.size()) keys_.resize(std::size_t{chunk} + 1);
    keys_[chunk] = key;
    [[maybe_unused]] const bool is_new = slots_.insert(chunk).second;
    assert(is_new);
  }
  /// `chunk` is in the index. Its key stays readable until the slot is used again.
  void erase(ChunkId chunk) { slots_.erase(chunk); }
  void clear() {
    slots_.clear();
    slots_.reserve(capacity_);  // clear() gives large tables back
  }

  /// The last key inserted for `chunk`; it was inserted at least once.
  [[nodiscard]] const OffloadKey& key_of(ChunkId chunk) const { return keys_[chunk]; }
  [[nodiscard]] std::size_t size() const { return slots_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    const std::vector<OffloadKey>* keys;
    std::size_t operator()(const OffloadKey& key) const { return key.hash(); }
    std::size_t operator()(ChunkId chunk) const { return (*keys)[chunk].hash(); }
  };
  struct Equal {
    using is_transparent = void;
    const std::vector<OffloadKey>* keys;
    bool operator()(ChunkId a, ChunkId b) const { return (*keys)[a] == (*keys)[b]; }
    bool operator()(ChunkId a, const OffloadKey& b) const { return (*keys)[a] == b; }
    bool operator()(const OffloadKey& a, ChunkId b) const { return a == (*keys)[b]; }
  };

  std::size_t capacity_;
  std::vector<OffloadKey> keys_;  // by slot
  absl::flat_hash_set<ChunkId, Hash, Equal> slots_{0, Hash{&keys_}, Equal{&keys_}};
};

}  // namespace kv_offload
