#pragma once

#include "kv_offload/tiers/eviction/ghost_list.hpp"
#include "kv_offload/tiers/eviction/slot_list.hpp"
#include "kv_offload/tiers/eviction_policy.hpp"

#include <cstdint>
#include <vector>

namespace kv_offload {

/// S3-FIFO: three first-in-first-out queues that let one-hit chunks leave quickly.
///
/// New chunks enter the *small* queue, chunks whose key is a ghost enter *main*. A touch adds one to a
/// 2-bit count and moves nothing. Details chosen here, where descriptions differ:
/// - small is worth evicting from while it holds at least a tenth of the slots (at least one); otherwise
///   main is asked first, and either list stands in when the other has no candidate;
/// - a chunk leaving small goes to main (count back to zero) if it was touched more than once, because
///   the touch of the request that stored it is one; else it is a victim and its key becomes a ghost;
/// - a chunk at the end of main with a count re-enters at the front with one less; else it is a victim,
///   without a ghost;
/// - ghosts are as many as main has slots (nine tenths); touching a ghost does nothing, storing it does;
/// - pinned, held, unwritten and kept chunks are passed over without losing place or count.
///
/// All or nothing is decided by counting candidates first. Eviction costs victims + skipped, plus the
/// moves that earlier touches paid for; every other operation is O(1) per chunk.
class S3FifoPolicy final : public EvictionPolicy {
 public:
  explicit S3FifoPolicy(ChunkId num_chunks);

  void insert(const OffloadKey& key, ChunkId chunk) override;
  void remove(const OffloadKey& key, ChunkId chunk) override;
  void mark_evictable(ChunkId chunk) override;
  void mark_non_evictable(ChunkId chunk) override;
  void touch(std::span<const OffloadKey> keys, std::span<const ChunkId> chunks) override;
  bool evict(std::size_t count, const ProtectedSlots& keep, std::vector<ChunkId>& victims) override;
  void clear() override;
  [[nodiscard]] std::string_view name() const override { return "s3fifo"; }

  // Observers for tests and dumps.
  [[nodiscard]] std::size_t small_size() const { return small_.size(); }
  [[nodiscard]] std::size_t main_size() const { return main_.size(); }
  [[nodiscard]] const GhostList& ghosts() const { return ghosts_; }
  [[nodiscard]] unsigned touches(ChunkId chunk) const { return slots_[chunk].touches; }

 private:
  static constexpr std::uint8_t kTouchesMax = 3;  // two bits
  enum class Place : std::uint8_t { none, small, main };
  struct Slot {
    std::uint64_t key = 0;  // its hash: what a ghost remembers
    Place place = Place::none;
    bool evictable = false;
    std::uint8_t touches = 0;
  };

  [[nodiscard]] bool is_candidate(ChunkId chunk, const ProtectedSlots& keep) const {
    return slots_[chunk].evictable && !keep.contains(chunk);
  }
  [[nodiscard]] bool has_candidates(std::size_t count, const ProtectedSlots& keep) const;
  /// One step of a scan: handles the first candidate at or after the cursor. True if there was one; it
  /// became a victim, or moved and lost touches.
  bool step_small(const ProtectedSlots& keep, std::vector<ChunkId>& victims);
  bool step_main(const ProtectedSlots& keep, std::vector<ChunkId>& victims);
  void leave(ChunkId chunk);
  void enter_main(ChunkId chunk);
  void take(ChunkId chunk, std::vector<ChunkId>& victims);

  SlotLinks links_;
  SlotList small_{links_};
  SlotList main_{links_};
  GhostList ghosts_;
  std::vector<Slot> slots_;
  std::size_t small_wished_;
  ChunkId small_cursor_ = kNoChunk;  // where the running eviction has got to; kNoChunk: at the end
  ChunkId main_cursor_ = kNoChunk;
};

}  // namespace kv_offload
