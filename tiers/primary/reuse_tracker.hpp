#pragma once

#include "kv_offload/messages/offload_key.hpp"

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <list>

namespace kv_offload {

/// How often each key was looked up, of the `capacity` keys looked up most recently. Decides whether a
/// chunk has shown enough reuse to be worth storing. Owned by one primary_tier actor; O(1) per key.
class ReuseTracker {
 public:
  /// `threshold` lookups make a key worth storing. Below 2 nothing is tracked and every key is.
  ReuseTracker(std::uint32_t threshold, std::uint32_t capacity) : threshold_(threshold), capacity_(capacity) {}

  [[nodiscard]] bool is_active() const { return threshold_ >= 2 && capacity_ > 0; }
  void count(const OffloadKey& key) {
    if (!is_active()) return;
    if (const auto it = entries_.find(key); it != entries_.end()) {
      ++it->second->lookups;
      order_.splice(order_.end(), order_, it->second);
      return;
    }
    if (entries_.size() >= capacity_) {
      entries_.erase(order_.front().key);
      order_.pop_front();
    }
    entries_.emplace(key, order_.insert(order_.end(), Entry{key, 1}));
  }
  [[nodiscard]] bool is_worth_storing(const OffloadKey& key) const {
    if (!is_active()) return true;
    const auto it = entries_.find(key);
    return it != entries_.end() && it->second->lookups >= threshold_;
  }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    OffloadKey key;
    std::uint64_t lookups = 0;
  };
  std::uint32_t threshold_;
  std::uint32_t capacity_;
  std::list<Entry> order_;  // least recently looked up first
  absl::flat_hash_map<OffloadKey, std::list<Entry>::iterator> entries_;
};

}  // namespace kv_offload
