#pragma once

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/tiers/eviction/compact_keys.hpp"
#include "kv_offload/tiers/eviction/slot_table.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

namespace kv_offload {

/// Which slot a key is in. Each key is kept once, under its slot; the hash table holds slot numbers and half
/// a hash. For keys of 36 bytes 48 bytes a slot; memory becomes resident as slots are used.
/// One owner.
class KeyIndex {
 public:
  explicit KeyIndex(std::size_t capacity)
      : capacity_(capacity), keys_(capacity), slots_(capacity) {}
  KeyIndex(const KeyIndex&) = delete;
  KeyIndex& operator=(const KeyIndex&) = delete;

  /// kNoChunk if absent.
  [[nodiscard]] ChunkId find(const OffloadKey& key) const {
    return find(key, SlotTable::tag_of(key.hash()));
  }
  [[nodiscard]] bool contains(const OffloadKey& key) const { return find(key) != kNoChunk; }

  /// The same for many: `use(i, slot of keys[i])`, in order. Each key passes three stations, several keys
  /// apart, so that what one waits for is fetched while others are worked on: its place in the table, the
  /// key of the slot that stands there, the comparison. `expect(slot)` is called for a slot that `use` will
  /// probably be given soon.
  template <class Expect, class Use>
  void find_all(std::span<const OffloadKey> keys, const Expect& expect, const Use& use) const {
    // About as many cache misses as a core overlaps, at each of the two waits.
    constexpr std::size_t kAhead = 8;
    std::array<std::uint32_t, 2 * kAhead> tags;
    for (std::size_t i = 0; i < keys.size() + 2 * kAhead; ++i) {
      if (i >= 2 * kAhead) {
        const std::size_t at = i - 2 * kAhead;
        use(at, find(keys[at], tags[at % tags.size()]));
      }
      if (i >= kAhead && i - kAhead < keys.size()) {
        const std::uint32_t tag = tags[(i - kAhead) % tags.size()];
        const ChunkId candidate = slots_.find(tag, [](ChunkId) { return true; });
        if (candidate != kNoChunk) {
          keys_.prefetch(candidate);
          expect(candidate);
        }
      }
      if (i < keys.size()) {
        const std::uint32_t tag = tags[i % tags.size()] = SlotTable::tag_of(keys[i].hash());
        slots_.prefetch(tag);
      }
    }
  }

  /// `key` is absent and `chunk` is not in the index.
  void insert(const OffloadKey& key, ChunkId chunk) {
    assert(chunk < capacity_ && !contains(key));
    keys_.set(chunk, key);
    slots_.insert(SlotTable::tag_of(key.hash()), chunk);
  }
  /// `chunk` is in the index. Its key stays readable until the slot is used again.
  void erase(ChunkId chunk) {
    [[maybe_unused]] const bool was_there =
        slots_.erase(SlotTable::tag_of(key_of(chunk).hash()), chunk);
    assert(was_there);
  }
  void clear() { slots_.clear(); }

  /// The last key inserted for `chunk`; it was inserted at least once.
  [[nodiscard]] OffloadKey key_of(ChunkId chunk) const { return keys_.get(chunk); }
  [[nodiscard]] std::size_t size() const { return slots_.size(); }

 private:
  [[nodiscard]] ChunkId find(const OffloadKey& key, std::uint32_t tag) const {
    return slots_.find(tag, [&](ChunkId slot) { return keys_.equals(slot, key); });
  }

  const std::size_t capacity_;
  CompactKeys keys_;
  SlotTable slots_;
};

}  // namespace kv_offload
