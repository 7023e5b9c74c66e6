#pragma once

#include "kv_offload/messages/offload_key.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kv_offload {

/// Remembers which keys were seen, in a fixed 4 bytes per slot: a direct-mapped table in which a newer key
/// takes the slot of an older one. After as many keys as it has slots about a third of the old ones are left.
/// Takes a stranger for a known key once in about 4·10⁹ questions.
class RecentKeys {
 public:
  /// Rounded up to a power of two, at least 1.
  explicit RecentKeys(std::size_t slots) : slots_(std::bit_ceil(slots == 0 ? std::size_t{1} : slots)) {}

  void add(const OffloadKey& key) { slots_[slot(key)] = mark(key); }
  [[nodiscard]] bool contains(const OffloadKey& key) const { return slots_[slot(key)] == mark(key); }
  void clear() { slots_.assign(slots_.size(), 0); }

 private:
  [[nodiscard]] std::size_t slot(const OffloadKey& key) const { return key.hash() & (slots_.size() - 1); }
  /// 0 is an empty slot.
  static std::uint32_t mark(const OffloadKey& key) {
    const auto high = static_cast<std::uint32_t>(static_cast<std::uint64_t>(key.hash()) >> 32U);
    return high == 0 ? 1 : high;
  }

  std::vector<std::uint32_t> slots_;
};

}  // namespace kv_offload
