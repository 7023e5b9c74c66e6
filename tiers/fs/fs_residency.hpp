#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/tiers/eviction/compact_keys.hpp"
#include "kv_offload/tiers/eviction_policy.hpp"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

/// What is known of the chunk files of one directory: key, allocated bytes, last use, and the order in
/// which they go. Knows no paths and touches no file. One owner: the lane's thread, or before the lane
/// starts and after it ended the tier's.
///
/// Chunks used since the start are ordered by an EvictionPolicy, keyed by slot. Those known from before
/// are *cold*: they go first, by the time of their last use, whatever the policy; the first use makes a
/// cold chunk the policy's.
///
/// Memory per slot: 1 + the longest key's bytes, 4 of size, 8 of last use, 1 of state, 5 to 11.4 of hash
/// table (8.4 at 10^7), 12 while cold, and the policy's.
class FsResidency {
 public:
  struct Options {
    std::string policy = "lru";
    ChunkId slots = 0;  ///< chunks known at once, those that are leaving included
  };
  /// Fails if the policy cannot be built or memory is out.
  static Expected<std::unique_ptr<FsResidency>> make(const Options& options);
  FsResidency(const FsResidency&) = delete;
  FsResidency& operator=(const FsResidency&) = delete;

  /// kNoChunk if unknown. Slots that are leaving are found, too.
  [[nodiscard]] ChunkId find(const OffloadKey& key) const;
  [[nodiscard]] OffloadKey key_of(ChunkId slot) const { return keys_.get(slot); }
  [[nodiscard]] std::uint64_t bytes_of(ChunkId slot) const {
    return std::uint64_t{units_[slot]} * kUnit;
  }
  [[nodiscard]] std::uint64_t last_use(ChunkId slot) const { return uses_[slot]; }
  [[nodiscard]] bool is_leaving(ChunkId slot) const { return has(slot, kLeaving); }
  [[nodiscard]] bool is_cold(ChunkId slot) const { return has(slot, kCold); }
  [[nodiscard]] bool is_stuck(ChunkId slot) const { return has(slot, kStuck); }
  [[nodiscard]] bool is_pinned(ChunkId slot) const { return pins_.contains(slot); }

  /// Chunks known, without those that are leaving.
  [[nodiscard]] std::size_t size() const { return used_ - leaving_; }
  /// Their bytes.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] ChunkId num_slots() const { return num_slots_; }
  [[nodiscard]] bool has_free_slot() const { return used_ < num_slots_; }
  [[nodiscard]] bool has_pins() const { return !pins_.empty(); }

  /// A chunk that was stored now, or met for the first time by a use. The key is unknown, a slot free.
  ChunkId insert_used(const OffloadKey& key, std::uint64_t bytes, std::uint64_t use);
  /// One known from before. `unverified`: from a record that may be out of date.
  ChunkId insert_cold(const OffloadKey& key, std::uint64_t bytes, std::uint64_t use,
                      bool unverified);
  void touch(ChunkId slot, std::uint64_t use);
  /// Another file took the place of its file: that is a use, and it may be a victim again.
  void replaced(ChunkId slot, std::uint64_t bytes, std::uint64_t use);
  /// A pinned chunk is no victim until as many unpin() came.
  void pin(ChunkId slot);
  void unpin(ChunkId slot);
  /// The file is gone. A pinned slot is used again only when its pins are gone.
  void remove(ChunkId slot);

  /// Chooses the next victim and marks it as leaving: it counts no more. nullopt: every chunk is pinned
  /// or stuck.
  std::optional<ChunkId> take_victim();
  /// It left: the slot is free.
  void left(ChunkId slot);
  /// It could not leave: known again, and no victim any more.
  void stuck(ChunkId slot);
  /// Last use of the cold chunk that would go next; nullopt without cold ones.
  [[nodiscard]] std::optional<std::uint64_t> oldest_cold();

  // --- for walks and records -----------------------------------------------------------------------
  [[nodiscard]] ChunkId slots_touched() const { return static_cast<ChunkId>(states_.size()); }
  [[nodiscard]] bool is_present(ChunkId slot) const {
    return has(slot, kUsed) && !has(slot, kLeaving) && !has(slot, kGone);
  }
  [[nodiscard]] bool is_unverified(ChunkId slot) const { return has(slot, kUnverified); }
  void verified(ChunkId slot) { clear(slot, kUnverified); }

 private:
  static constexpr std::uint64_t kUnit = 512;  ///< of st_blocks
  static constexpr std::uint32_t kUnitsMax = ~0U - 1;
  enum State : std::uint8_t {
    kUsed = 1,
    kCold = 2,
    kLeaving = 4,
    kStuck = 8,
    kUnverified = 16,
    kGone = 32,  ///< removed while pinned
  };
  struct Hash {
    using is_transparent = void;
    const CompactKeys* keys;
    std::size_t operator()(const OffloadKey& key) const { return key.hash(); }
    std::size_t operator()(ChunkId slot) const { return keys->get(slot).hash(); }
  };
  struct Equal {
    using is_transparent = void;
    const CompactKeys* keys;
    bool operator()(ChunkId a, ChunkId b) const { return a == b; }
    bool operator()(ChunkId a, const OffloadKey& b) const { return keys->equals(a, b); }
    bool operator()(const OffloadKey& a, ChunkId b) const { return keys->equals(b, a); }
  };
  /// 12 bytes, not 16: there may be one for every slot.
  struct ColdNode {
    std::uint32_t use_high, use_low, slot;
    [[nodiscard]] std::uint64_t use() const { return (std::uint64_t{use_high} << 32) | use_low; }
    /// Order of a heap whose top is the oldest.
    friend bool operator<(const ColdNode& a, const ColdNode& b) { return a.use() > b.use(); }
  };

  FsResidency(ChunkId slots, std::unique_ptr<EvictionPolicy> policy);

  [[nodiscard]] bool has(ChunkId slot, State state) const { return (states_[slot] & state) != 0; }
  void set(ChunkId slot, State state) {
    states_[slot] = static_cast<std::uint8_t>(states_[slot] | state);
  }
  void clear(ChunkId slot, State state) {
    states_[slot] = static_cast<std::uint8_t>(states_[slot] & ~state);
  }
  [[nodiscard]] bool is_in_policy(ChunkId slot) const {
    return (states_[slot] & (kCold | kLeaving | kStuck | kGone)) == 0;
  }
  ChunkId take_slot(const OffloadKey& key, std::uint64_t bytes, std::uint64_t use);
  void free_slot(ChunkId slot);
  void enter_policy(ChunkId slot);
  void drop_stale_cold();
  std::optional<ChunkId> take_cold();

  const ChunkId num_slots_;
  const std::unique_ptr<EvictionPolicy> policy_;
  CompactKeys keys_;
  std::vector<std::uint32_t> units_;  // allocated bytes / 512; of a free slot: the next free one
  std::vector<std::uint64_t> uses_;
  std::vector<std::uint8_t> states_;
  absl::flat_hash_set<ChunkId, Hash, Equal> slots_{0, Hash{&keys_}, Equal{&keys_}};
  std::vector<ColdNode> cold_;  // heap; nodes of chunks that were used are stale
  absl::flat_hash_map<ChunkId, std::uint32_t> pins_;  // loads in flight
  std::vector<ChunkId> victims_;                      // scratch
  ChunkId free_ = kNoChunk;
  std::size_t used_ = 0;
  std::size_t leaving_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace kv_offload
