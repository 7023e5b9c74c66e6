#pragma once

#include "kv_offload/messages/ids.hpp"

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace kv_offload {

/// Hash table of slot numbers, 8 bytes each: open addressing, linear probing, no growth. Why not a library's:
/// a lookup of many keys is bound by memory latency, and only a table that gives the candidate before it
/// compares the key lets the accesses of a batch overlap at every step (KeyIndex::find_all).
///
/// An entry is the upper half of the key's hash and the slot; where it belongs follows from that half. Keys are
/// compared by the caller. At most 5 of 7 places are used, so a probe reads one or two cache lines.
/// One owner.
class SlotTable {
 public:
  /// Memory becomes resident as places are used. Throws std::bad_alloc.
  explicit SlotTable(std::size_t slots_max)
      : num_places_(slots_max + slots_max * 2 / 5 + 8), places_(allocate(num_places_)) {
    assert(num_places_ <= 0xffffffffU);
  }

  static std::uint32_t tag_of(std::uint64_t hash) {
    return static_cast<std::uint32_t>(hash >> 32U);
  }

  /// Asks the processor to fetch what find() reads first.
  void prefetch(std::uint32_t tag) const { __builtin_prefetch(&places_[home(tag)]); }
  /// The first slot of that tag for which `is_it(slot)`; kNoChunk if there is none.
  template <class IsIt>
  [[nodiscard]] ChunkId find(std::uint32_t tag, const IsIt& is_it) const {
    for (std::size_t at = home(tag);; at = next(at)) {
      const Place& place = places_[at];
      if (place.slot_and_1 == 0) return kNoChunk;
      if (place.tag == tag && is_it(place.slot_and_1 - 1)) return place.slot_and_1 - 1;
    }
  }
  /// Not in the table yet, and fewer than `slots_max` are.
  void insert(std::uint32_t tag, ChunkId slot) {
    std::size_t at = home(tag);
    while (places_[at].slot_and_1 != 0) at = next(at);
    places_[at] = {tag, slot + 1};
    ++size_;
  }
  /// False if it is not there.
  bool erase(std::uint32_t tag, ChunkId slot) {
    std::size_t at = home(tag);
    while (places_[at].slot_and_1 != slot + 1) {
      if (places_[at].slot_and_1 == 0) return false;
      at = next(at);
    }
    close_gap(at);
    --size_;
    return true;
  }
  void clear() {
    places_.reset();  // first: both at once may be too much
    places_ = allocate(num_places_);
    size_ = 0;
  }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Place {
    std::uint32_t tag;
    ChunkId slot_and_1;  // 0: empty, as the kernel hands memory out
  };
  struct Free {
    void operator()(Place* places) const { std::free(places); }
  };
  using Places = std::unique_ptr<Place[], Free>;

  static Places allocate(std::size_t count) {
    auto* places = static_cast<Place*>(std::calloc(count, sizeof(Place)));
    if (places == nullptr) throw std::bad_alloc();
    return Places(places);
  }
  [[nodiscard]] std::size_t home(std::uint32_t tag) const {
    return static_cast<std::size_t>((std::uint64_t{tag} * num_places_) >> 32U);
  }
  [[nodiscard]] std::size_t next(std::size_t at) const {
    return at + 1 == num_places_ ? 0 : at + 1;
  }
  /// Moves up what was pushed behind the place that is empty now, so that no probe ends too early.
  void close_gap(std::size_t gap) {
    for (std::size_t at = next(gap); places_[at].slot_and_1 != 0; at = next(at)) {
      const std::size_t wanted = home(places_[at].tag);
      // It may move into the gap unless its home lies behind it, on the way round from there to here.
      const bool home_is_between =
          gap < at ? gap < wanted && wanted <= at : gap < wanted || wanted <= at;
      if (home_is_between) continue;
      places_[gap] = places_[at];
      gap = at;
    }
    places_[gap] = {};
  }

  const std::size_t num_places_;
  Places places_;
  std::size_t size_ = 0;
};

}  // namespace kv_offload
