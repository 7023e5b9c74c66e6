#pragma once

#include "kv_offload/tiers/extent/extent_config.hpp"
#include "kv_offload/tiers/extent/segment_writer.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace kv_offload {

/// Where rows go: opens segments, hands out slots in order, writes records and syncs them. Lane thread.
/// At most one segment hands out slots; others live until their last record is written.
class SegmentFiller {
 public:
  enum class Room : std::uint8_t {
    ready,
    later,  ///< a segment is being opened
    none,   ///< no segment is free
  };
  /// Names of its own I/O, in the upper half of OwnIo::id.
  static constexpr std::uint64_t kTableIo = 1, kSyncIo = 2, kRecencyIo = 3;

  SegmentFiller(ExtentVolume& volume, bool syncs);

  /// Opens the next segment if it must and can.
  /// @param kept  slots that are for others; while no more than those are left: later
  Room make_room(std::uint32_t kept = 0);
  /// After make_room() answered ready.
  std::uint32_t take();
  /// The row of a slot taken could not be written.
  void give_up(std::uint32_t slot);
  /// The row is written; `waiter` is told by ended() once the record is, and durable if that is asked for.
  void put(std::uint32_t slot, const ChunkRecord& record, RecordWaiter waiter);

  [[nodiscard]] SegmentWriter* writer_of(std::uint32_t segment);
  void wipe(std::uint32_t slot, RecordWaiter waiter) {
    writer_of(volume_.geometry.segment_of(slot))->wipe(slot, waiter);
  }
  /// Tells `waiter` when everything written before this call is durable.
  void sync(RecordWaiter waiter) { to_sync_.push_back({waiter, 0}); }

  bool next_io(OwnIo& io);
  void io_over(std::uint64_t id, int error);
  /// Waiters that are through, oldest first; taken by the call.
  std::vector<RecordEnd> take_ended() { return std::exchange(ended_, {}); }
  /// errno of a header that could not be written since the last call; 0 if none.
  int take_open_error() { return std::exchange(open_error_, 0); }
  [[nodiscard]] bool has_writers() const { return !writers_.empty(); }

 private:
  void table_write_over(std::uint32_t segment, int error);
  void retire(std::uint32_t segment);

  ExtentVolume& volume_;
  const bool syncs_;
  std::map<std::uint32_t, std::unique_ptr<SegmentWriter>> writers_;  // by segment
  SegmentWriter* open_ = nullptr;
  bool recency_due_ = false;
  AlignedBuffer recency_;            // of the write that is out
  std::vector<RecordEnd> recorded_;  // scratch
  std::vector<RecordEnd> to_sync_;
  std::vector<RecordEnd> syncing_;
  std::vector<RecordEnd> ended_;
  bool is_syncing_ = false;
  int open_error_ = 0;
};

}  // namespace kv_offload
