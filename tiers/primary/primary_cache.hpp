#pragma once

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/messages/offloading_event.hpp"
#include "kv_offload/tiers/eviction/key_index.hpp"
#include "kv_offload/tiers/eviction_policy.hpp"
#include "kv_offload/tiers/primary/allocation_sizes.hpp"
#include "kv_offload/tiers/primary/primary_event_queue.hpp"
#include "kv_offload/tiers/primary/slot_slices.hpp"

#include <absl/container/flat_hash_set.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kv_offload {

/// Where a key stands in a primary tier.
enum class ChunkState : std::uint8_t { absent, writing, ready };

/// Which keys are in a primary tier, in which slots, and who keeps them there. Bookkeeping only: it
/// never touches the bytes. Owned by one primary_tier actor and called from its thread; no locks, no
/// clock, no I/O.
///
///     absent ── reserve ──► writing ── publish ──► ready ── evict, remove ──► absent  (removed event)
///                              └── drop_writing ──► absent  (no event; slot free or quarantined)
///
/// A ready chunk is *evictable* while it has neither pins (a load, a cascade, a caller's lease reads
/// it) nor holds (somebody wants to read it soon). Pins and holds nest. Becoming evictable gives a chunk
/// its place in the eviction order. Slots go out never-used first, ascending, then most recently freed
/// first; each hand-out raises the slot's generation. A slot that a late transfer may still touch is
/// quarantined: it belongs to no key and is handed out to nobody.
///
/// All members accept slots and keys they do not know: assertions speak up in debug builds, otherwise the
/// call changes nothing. Cost is O(1) per key or slot, plus what the policy says of eviction.
class PrimaryCache {
 public:
  struct Limits {
    ChunkId num_chunks = 0;
    ChunkId first_chunk = 0;  ///< name of the first slot; the others follow it
    ChunkId headroom_chunks =
        0;  ///< promotions leave this much of free + evictable to device stores
    ChunkId hold_chunks_max = 0;      ///< distinct chunks that may be held at a time
    bool events = false;              ///< record stored/removed events
    std::size_t events_max = 65'536;  ///< waiting events, beyond which the oldest is dropped
  };
  struct Found {
    ChunkState state = ChunkState::absent;
    ChunkId chunk = kNoChunk;
    friend bool operator==(const Found&, const Found&) = default;
  };
  /// What `reserve_store` got: for each key that was absent its index in the call and its slot.
  struct StoreReservation {
    std::vector<std::uint32_t> key_idx;
    std::vector<ChunkId> chunks;
    std::uint32_t evicted = 0;
  };
  /// Gauges of this moment and totals since construction (reset does not touch totals).
  struct Counters {
    ChunkId num_chunks = 0;
    ChunkId allocated = 0;  ///< slots handed out at least once since the last reset
    ChunkId free = 0;       ///< never used or given back
    ChunkId resident = 0;   ///< keys: writing and ready
    ChunkId evictable = 0;
    ChunkId write_pending = 0;
    ChunkId pinned = 0;  ///< distinct chunks with pins
    ChunkId held = 0;    ///< distinct chunks with holds, writing ones too
    ChunkId quarantined = 0;
    std::uint64_t holds_refused = 0;
    std::uint64_t events_dropped = 0;
    std::uint64_t evictions = 0;                  ///< chunks
    std::uint64_t promotions_evicted_unread = 0;  ///< promoted, then evicted before any pin
    std::uint64_t reused_in_use = 0;  ///< slots met at hand-out although in use; must stay 0
    AllocationSizes allocation_sizes;
    /// Neither free nor evictable: pinned, held, being written or quarantined.
    [[nodiscard]] ChunkId busy() const { return num_chunks - free - evictable; }
  };

  /// `in_use` (may be null) is PrimaryView::in_use: a slot whose count is above zero is never handed out.
  PrimaryCache(Limits limits, std::unique_ptr<EvictionPolicy> policy,
               const std::atomic<std::uint32_t>* in_use);
  /// With one slice of the slots per policy; their number divides num_chunks.
  PrimaryCache(Limits limits, std::vector<std::unique_ptr<EvictionPolicy>> policies,
               const std::atomic<std::uint32_t>* in_use);

  // -- looking -------------------------------------------------------------------------------------
  /// Changes no order.
  [[nodiscard]] Found find(const OffloadKey& key) const;
  /// The same for many keys: `found[i]` belongs to `keys[i]`. Overlaps the memory accesses, which is
  /// what a lookup costs once the index outgrows the processor's caches.
  void find_all(std::span<const OffloadKey> keys, std::vector<Found>& found) const;
  /// Recency hint for keys in prefix order; unknown keys are allowed (they may be ghosts).
  void touch(std::span<const OffloadKey> keys);

  // -- writing -------------------------------------------------------------------------------------
  /// Reserves slots for the keys that are absent, evicting others if needed, but never a key of the
  /// call. All or nothing: nullopt changes nothing except for the allocation-size sample. Keys being
  /// written by somebody else count as present; a key named twice is stored once. Free slots are used
  /// before anything is evicted, both in slice `near` first.
  [[nodiscard]] std::optional<StoreReservation> reserve_store(std::span<const OffloadKey> keys,
                                                              std::size_t near = 0);
  /// Slots that reserve_promotion could give now.
  [[nodiscard]] std::size_t promotion_room() const;
  /// Slots that it could give if none were in use.
  [[nodiscard]] std::size_t promotion_room_when_idle() const;
  /// Reserves slots for the longest prefix of `keys` that leaves the headroom, appends them to `chunks`
  /// and says how many. The keys are absent and distinct. `near` as for reserve_store.
  std::uint32_t reserve_promotion(std::span<const OffloadKey> keys, std::vector<ChunkId>& chunks,
                                  std::size_t near = 0);
  /// writing → ready, in this order, with one stored event. Others in `chunks` are ignored.
  void publish(std::span<const ChunkId> chunks);
  /// writing → absent, without an event; holds on them end. With `quarantine` the slots wait for
  /// release_quarantined. Others in `chunks` are ignored.
  void drop_writing(std::span<const ChunkId> chunks, bool quarantine);

  // -- keeping -------------------------------------------------------------------------------------
  /// False if the chunk is not ready.
  bool pin(ChunkId chunk);
  void unpin(ChunkId chunk);
  /// As unpin, unless the slot has been handed out again since that generation.
  void unpin(ChunkId chunk, std::uint32_t generation);
  /// False, and counted, beyond hold_chunks_max; false for slots without a key. Writing chunks can be
  /// held, too.
  bool try_hold(ChunkId chunk);
  void release_hold(ChunkId chunk);
  void release_hold(ChunkId chunk, std::uint32_t generation);

  // -- forgetting ----------------------------------------------------------------------------------
  /// Forgets a ready chunk that nothing keeps, with a removed event. False if there is none.
  bool remove(const OffloadKey& key);
  /// Forgets the key whatever its chunk is used for, and says in which state it was. From now on nobody
  /// finds it, and the key may be stored anew in another slot. A chunk that is pinned, held or being
  /// written is *detached*: its slot is freed when the last use ends (drop_writing, if it was written).
  ChunkState forget(const OffloadKey& key);
  [[nodiscard]] bool is_detached(ChunkId chunk) const {
    return known(local(chunk)) && slots_[local(chunk)].detached;
  }
  /// Forgets every key, pin and hold; numbering restarts at 0. Slots that are quarantined or in use are
  /// passed over until released. Queued events stay.
  void reset();
  /// The last transfer that could touch the slot has ended.
  void release_quarantined(ChunkId chunk);
  /// Frees slots that were quarantined only because they were found in use and no longer are.
  ChunkId reclaim_quarantined() { return slices_.reclaim(); }

  // -- observing -----------------------------------------------------------------------------------
  /// Oldest first; the queue is empty afterwards.
  [[nodiscard]] std::vector<OffloadingEvent> take_events() { return events_.take(); }
  [[nodiscard]] Counters counters() const;
  /// Empty for slots without a key.
  [[nodiscard]] OffloadKey key_of(ChunkId chunk) const;
  [[nodiscard]] std::uint32_t generation(ChunkId chunk) const;
  [[nodiscard]] std::uint32_t pins(ChunkId chunk) const {
    return known(local(chunk)) ? slots_[local(chunk)].pins : 0;
  }
  [[nodiscard]] std::uint32_t holds(ChunkId chunk) const {
    return known(local(chunk)) ? slots_[local(chunk)].holds : 0;
  }
  [[nodiscard]] const Limits& limits() const { return limits_; }
  [[nodiscard]] const EvictionPolicy& policy() const { return *slices_[0].policy; }
  /// Recounts everything against the counters; false says what is wrong. O(num_chunks): tests, stress.
  [[nodiscard]] bool check_identities(std::string* why) const;

 private:
  struct Slot {
    ChunkState state = ChunkState::absent;
    bool promoted_unread = false;
    bool detached = false;  ///< forgotten while in use: belongs to no key any more
    std::uint32_t pins = 0;
    std::uint32_t holds = 0;
    [[nodiscard]] bool kept() const { return pins > 0 || holds > 0; }
  };
  enum class VictimOrder : std::uint8_t { handed_out_last_first, handed_out_first_first };

  // Outside the class slots have the engine's numbers, inside they are counted from 0.
  [[nodiscard]] ChunkId local(ChunkId chunk) const { return chunk - limits_.first_chunk; }
  [[nodiscard]] ChunkId global(ChunkId slot) const { return slot + limits_.first_chunk; }
  [[nodiscard]] bool known(ChunkId slot) const { return slot < slots_.size(); }
  [[nodiscard]] Found found_at(ChunkId slot) const {
    return slot == kNoChunk ? Found{} : Found{slots_[slot].state, global(slot)};
  }
  void begin_call();
  void keep(ChunkId slot) {
    if (stamps_[slot] == stamp_) return;
    stamps_[slot] = stamp_;
    if (slices_.count() > 1) kept_.push_back(slot);
  }
  /// Makes room for `count` chunks, evicting what `keep` does not name; the evicted ones are in victims_, and
  /// shares_ says how many each slice has for them.
  bool make_room(std::size_t count, VictimOrder order, std::size_t near);
  bool make_room_in(std::size_t slice, std::size_t count, VictimOrder order,
                    OffloadingEvent& removed);
  bool share_out(std::size_t count, std::size_t near);
  /// False if the policy chose a slot it must not.
  bool forget_victim(ChunkId slot, OffloadingEvent& removed);
  /// In the next slot that make_room made. Its number outside.
  ChunkId begin_writing(const OffloadKey& key, bool promoted);
  /// Nothing keeps the ready chunk any more: it is evictable, or free if it was forgotten meanwhile.
  void end_keeping(ChunkId slot);
  void set_evictable(ChunkId slot);
  void set_non_evictable(ChunkId slot);
  bool remove_at(const OffloadKey& key, ChunkId slot);
  void record_removed(OffloadingEvent event);
  void record_stored(OffloadingEvent event);
  [[nodiscard]] OffloadingEvent new_event(bool removed) const;

  const Limits limits_;
  SlotSlices slices_;
  std::vector<Slot> slots_;
  KeyIndex index_;
  PrimaryEventQueue events_;
  std::vector<OffloadingEvent> late_removed_;  // only while promise 7 is broken on purpose
  std::vector<std::uint32_t> stamps_;          // per slot: the last call that must not evict it
  std::uint32_t stamp_ = 0;
  // Scratch of one call, kept for its memory.
  absl::flat_hash_set<OffloadKey> absent_;
  std::vector<ChunkId> victims_;
  std::vector<ChunkId> kept_;        // what keep() named; with several slices
  std::vector<std::size_t> shares_;  // per slice; begin_writing uses them up, from `near` on
  std::size_t next_share_ = 0;
  std::vector<ChunkId> touched_;

  ChunkId evictable_ = 0;
  ChunkId write_pending_ = 0;
  ChunkId pinned_ = 0;
  ChunkId held_ = 0;
  std::uint64_t holds_refused_ = 0;
  std::uint64_t evictions_ = 0;
  std::uint64_t promotions_evicted_unread_ = 0;
  AllocationSizes allocation_sizes_;
};

}  // namespace kv_offload
