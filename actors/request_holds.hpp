#pragma once

#include "kv_offload/messages/ids.hpp"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace kv_offload {

/// The chunks that are held for one request, each once. Plain state of the primary_tier actor. A prompt's hundreds come
/// with one lookup, mostly in slot order, and many go with the request's end: neither takes more than a walk over one
/// array. Who asks for one chunk, or adds one out of order, has the array indexed first.
class RequestHolds {
 public:
  struct Hold {
    ChunkId chunk = kNoChunk;  ///< kNoChunk: dropped
    /// Of the slot; another one now: the hold went with what was in it.
    std::uint32_t generation = 0;
    bool unread = false;  ///< of a promotion that landed for this request and was not read yet
  };

  /// Room for that many more. Grows by doubling: a request that asks key by key moves each hold a few times, not each time.
  void reserve(std::size_t more) {
    if (holds_.size() + more > holds_.capacity())
      holds_.reserve(std::max(holds_.size() + more, 2 * holds_.capacity()));
  }
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] std::size_t size() const { return holds_.size() - dropped_; }
  /// Null: not held. Valid until the next call that adds.
  [[nodiscard]] Hold* find(ChunkId chunk) {
    index();
    const auto it = place_.find(chunk);
    return it == place_.end() ? nullptr : &holds_[it->second];
  }
  /// The hold of that chunk, and whether it is new: then it is `hold`. Valid until the next call that adds.
  std::pair<Hold*, bool> try_put(const Hold& hold) {
    if (hold.chunk < above_all_)
      if (auto* own = find(hold.chunk)) return {own, false};
    above_all_ = std::max(above_all_, hold.chunk + 1);
    holds_.push_back(hold);
    return {&holds_.back(), true};
  }
  void drop(ChunkId chunk) {
    Hold* hold = find(chunk);
    if (hold == nullptr) return;
    *hold = {};
    ++dropped_;
    place_.erase(chunk);
    if (dropped_ > kDroppedMax + size()) close_gaps();
  }
  [[nodiscard]] std::span<const Hold> all() const { return holds_; }  ///< and gaps
  /// The last call. In slot order, so that eviction order never depends on who came when.
  [[nodiscard]] std::vector<Hold> take_in_slot_order() && {
    std::erase_if(holds_, [](const Hold& hold) { return hold.chunk == kNoChunk; });
    const auto by_slot = [](const Hold& a, const Hold& b) { return a.chunk < b.chunk; };
    if (!std::is_sorted(holds_.begin(), holds_.end(), by_slot))
      std::sort(holds_.begin(), holds_.end(), by_slot);
    return std::move(holds_);
  }

 private:
  // Gaps are closed when they are this many more than holds.
  static constexpr std::size_t kDroppedMax = 64;

  void index() {
    for (; indexed_ < holds_.size(); ++indexed_) place_[holds_[indexed_].chunk] = indexed_;
  }
  void close_gaps() {
    std::erase_if(holds_, [](const Hold& hold) { return hold.chunk == kNoChunk; });
    dropped_ = 0;
    indexed_ = 0;
    index();
  }

  std::vector<Hold> holds_;  // in the order in which they came
  absl::flat_hash_map<ChunkId, std::uint32_t> place_;  // of the first indexed_
  std::uint32_t indexed_ = 0;
  std::size_t dropped_ = 0;
  ChunkId above_all_ = 0;  // no chunk from here on was ever held
};

}  // namespace kv_offload
