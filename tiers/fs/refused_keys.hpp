#pragma once

#include "kv_offload/messages/offload_key.hpp"

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <deque>

namespace kv_offload {

/// Keys whose file is there but cannot be served: foreign, or corrupt and not removable. A probe of
/// them is a miss and a store of them replaces the file. Bounded: the oldest is forgotten, which costs
/// one more refused load. One owner.
class RefusedKeys {
 public:
  enum class Reason : std::uint8_t { foreign, corrupt };

  explicit RefusedKeys(std::size_t keys_max) : keys_max_(keys_max) {}

  void add(const OffloadKey& key, Reason reason) {
    if (!reasons_.emplace(key, reason).second) return;
    order_.push_back(key);
    if (order_.size() <= keys_max_) return;
    reasons_.erase(order_.front());
    order_.pop_front();
  }
  /// nullptr if the key is not refused.
  [[nodiscard]] const Reason* find(const OffloadKey& key) const {
    if (reasons_.empty()) return nullptr;
    const auto it = reasons_.find(key);
    return it == reasons_.end() ? nullptr : &it->second;
  }
  void remove(const OffloadKey& key) {
    if (reasons_.erase(key) == 0) return;
    std::erase(order_, key);  // rare: a refused file was replaced
  }
  [[nodiscard]] std::size_t size() const { return reasons_.size(); }

 private:
  std::size_t keys_max_;
  absl::flat_hash_map<OffloadKey, Reason> reasons_;
  std::deque<OffloadKey> order_;
};

}  // namespace kv_offload
