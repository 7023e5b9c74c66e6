#pragma once

#include "kv_offload/tiers/extent/extent_volume.hpp"
#include "kv_offload/tiers/io/aligned_buffer.hpp"
#include "kv_offload/tiers/io/lane_storage.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace kv_offload {

/// Who waits for a record to be on disk.
struct RecordWaiter {
  enum class Kind : std::uint8_t { store, copy, erasure };
  Kind kind = Kind::store;
  std::uint32_t id = 0;
};
struct RecordEnd {
  RecordWaiter waiter;
  int error = 0;
};

/// Fills one segment: hands out its slots, keeps its record table in memory and writes the blocks that
/// changed. One write is out at a time; records that come meanwhile go with the next one. The first write
/// is the header's, and no slot is handed out before it is done.
class SegmentWriter {
 public:
  /// Blocks in one write of the table; copied, so that the table may change under it.
  static constexpr std::uint64_t kBlocksPerWrite = 16;

  /// A segment to be filled from its start.
  SegmentWriter(const ExtentVolume& volume, std::uint32_t segment);
  /// One that a restart found partly filled; its header is on disk.
  SegmentWriter(const ExtentVolume& volume, std::uint32_t segment, AlignedBuffer table);

  [[nodiscard]] std::uint32_t segment() const { return segment_; }
  [[nodiscard]] bool is_ready() const { return is_ready_; }
  [[nodiscard]] std::uint32_t num_left() const;
  /// A slot whose row will be written; record() or give_up() follows.
  std::uint32_t take(SegmentTable& segments);
  void give_up() { --open_slots_; }

  void put(std::uint32_t slot, const ChunkRecord& record, RecordWaiter waiter);
  /// Makes the slot's record void.
  void wipe(std::uint32_t slot, RecordWaiter waiter);

  /// The next write, if one is due. `io.id` is left to the caller.
  bool next_write(OwnIo& io);
  /// The write is over; everyone it was for, with its error, is appended to `ended`.
  void write_over(int error, std::vector<RecordEnd>& ended);

  /// Nothing is under way or due.
  [[nodiscard]] bool is_idle() const;
  [[nodiscard]] std::span<const std::byte> table() const { return table_.span(); }

 private:
  struct Waiting {
    RecordWaiter waiter;
    std::uint32_t slot = 0;
    bool is_record = false;  // else: a wipe
  };
  void changed(std::uint32_t slot, RecordWaiter waiter, bool is_record);
  [[nodiscard]] std::span<std::byte> record_bytes(std::uint32_t slot) const;

  const ExtentVolume& volume_;
  const std::uint32_t segment_;
  AlignedBuffer table_;
  AlignedBuffer buffer_;     // what the write that is out writes
  std::vector<bool> dirty_;  // per block
  std::size_t num_dirty_ = 0;
  std::vector<Waiting> waiting_;  // bounded by the transfers, copies and erasures there are
  std::vector<Waiting> flying_;   // the same, of the write that is out
  bool is_ready_ = false;
  bool is_writing_ = false;
  std::uint32_t open_slots_ = 0;  // taken, without a record yet
};

}  // namespace kv_offload
