#pragma once

#include "kv_offload/messages/offload_key.hpp"

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

namespace kv_offload {

/// Objects known to be in a bucket, with their lengths, in the order of their last use. Bounded: beyond `keys_max`
/// the coldest is not known any more. One owner; 206 to 316 bytes a key, by the sizes of its parts.
class ObjectIndex {
 public:
  explicit ObjectIndex(std::size_t keys_max) : keys_max_(keys_max) {}

  /// Known and used just now.
  void put(const OffloadKey& key, std::uint64_t bytes, std::uint32_t generation);
  /// Known, and used before all others; one that is known stays where it is.
  void put_coldest(const OffloadKey& key, std::uint64_t bytes, std::uint32_t generation);
  void touch(const OffloadKey& key);
  void erase(const OffloadKey& key);
  [[nodiscard]] bool contains(const OffloadKey& key) const { return entries_.contains(key); }
  [[nodiscard]] std::uint64_t bytes_of(const OffloadKey& key) const;
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  /// Did not fit; what is not known does not count.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  /// Forgets what was not put since `generation`; answers how many.
  std::size_t keep_since(std::uint32_t generation);
  void clear();

  /// The coldest ones for which `may_go`, until they hold `bytes` or are `keys_max`.
  template <class MayGo>
  [[nodiscard]] std::vector<OffloadKey> coldest(std::uint64_t bytes, std::size_t keys_max, MayGo may_go) const {
    std::vector<OffloadKey> victims;
    std::uint64_t found = 0;
    for (const OffloadKey& key : order_) {
      if (found >= bytes || victims.size() >= keys_max) break;
      if (!may_go(key)) continue;
      found += bytes_of(key);
      victims.push_back(key);
    }
    return victims;
  }

 private:
  using Order = std::list<OffloadKey>;  // coldest first
  struct Entry {
    std::uint64_t bytes = 0;
    std::uint32_t generation = 0;
    Order::iterator at;
  };
  void bound();

  const std::size_t keys_max_;
  absl::flat_hash_map<OffloadKey, Entry> entries_;
  Order order_;
  std::uint64_t bytes_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace kv_offload
