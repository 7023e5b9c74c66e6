#pragma once

#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/tiers/digest.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>

namespace kv_offload {

/// 128 bits that stand for a key in one namespace and revision.
struct KeyHash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const KeyHash&, const KeyHash&) = default;
};
[[nodiscard]] KeyHash key_hash(std::uint64_t namespace_tag, const OffloadKey& key);

/// Which slot of an extent file holds a key's row, and the digest that the row must have. Keys are not
/// kept: the digest covers the key, so that a collision of hashes reads as damage and never as data.
///
/// Per slot of the file, whatever the length of keys: 16 bytes of hash, 16 of digest, 1 of use count, and
/// 5/4 of a 4-byte cell of the table (open addressing, at most 4/5 full): 38 bytes. Fixed at creation.
///
/// The lane's thread owns it; `contains` is for any thread. Hence changes hold a mutex, reads by the
/// owner need none.
class ExtentIndex {
 public:
  static constexpr std::uint8_t kUsesMax = 3;

  /// Memory is taken as it is used. Throws std::bad_alloc.
  explicit ExtentIndex(std::uint64_t num_slots);

  [[nodiscard]] bool contains(const KeyHash& hash) const {
    const std::lock_guard lock(mutex_);
    return find(hash).has_value();
  }

  // --- the owner --------------------------------------------------------------------------------
  [[nodiscard]] std::optional<std::uint32_t> find(const KeyHash& hash) const;
  /// The slot is not in use. False: the key has another slot, which it keeps.
  bool insert(const KeyHash& hash, const ChunkDigest& digest, std::uint32_t slot);
  /// Forgets what the slot holds, if anything.
  bool erase(std::uint32_t slot);
  /// The row was copied; its use count starts anew.
  void move(std::uint32_t from, std::uint32_t to);

  [[nodiscard]] bool is_used(std::uint32_t slot) const { return (states_[slot] & kPresent) != 0; }
  [[nodiscard]] const ChunkDigest& digest(std::uint32_t slot) const { return digests_[slot]; }
  [[nodiscard]] const KeyHash& hash(std::uint32_t slot) const { return hashes_[slot]; }
  /// Loads since the row was written, at most kUsesMax.
  [[nodiscard]] std::uint8_t uses(std::uint32_t slot) const {
    return static_cast<std::uint8_t>(states_[slot] & ~kPresent);
  }
  void count_use(std::uint32_t slot) {
    if (uses(slot) < kUsesMax) ++states_[slot];
  }

  // --- any thread -------------------------------------------------------------------------------
  [[nodiscard]] std::uint64_t size() const { return size_.load(std::memory_order_relaxed); }
  /// Memory when every slot is in use.
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  static constexpr std::uint8_t kPresent = 0x80;
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  template <class T>
  using Array = std::unique_ptr<T[], Free>;
  template <class T>
  static Array<T> make_array(std::uint64_t count);

  [[nodiscard]] std::uint64_t home(const KeyHash& hash) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((Wide{hash.low} * num_cells_) >> 64);
  }
  [[nodiscard]] std::uint64_t next(std::uint64_t cell) const {
    return cell + 1 == num_cells_ ? 0 : cell + 1;
  }
  [[nodiscard]] std::uint64_t cell_of(std::uint32_t slot) const;
  void close_gap(std::uint64_t cell);

  const std::uint64_t num_slots_;
  const std::uint64_t num_cells_;
  Array<std::uint32_t> cells_;  // slot + 1; 0: empty
  Array<KeyHash> hashes_;       // the rest: indexed by slot
  Array<ChunkDigest> digests_;
  Array<std::uint8_t> states_;
  std::atomic<std::uint64_t> size_{0};
  mutable std::mutex mutex_;
};

}  // namespace kv_offload
