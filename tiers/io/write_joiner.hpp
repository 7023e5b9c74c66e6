#pragma once

#include "kv_offload/tiers/io/aligned_buffer.hpp"
#include "kv_offload/tiers/io/chunk_transfer.hpp"
#include "kv_offload/tiers/io/lane_storage.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace kv_offload {

/// Makes one write of rows that are neighbours in a file, from one copy of them. Few such writes are out at a
/// time, so that rows gather while the device works. Owner: a lane's thread.
class WriteJoiner {
 public:
  /// @param writes_max  out at a time, at least 1; each has a buffer of `bytes_max`, made on first use
  WriteJoiner(std::uint32_t writes_max, std::uint64_t bytes_max);

  /// Whether two rows of this length fit one write.
  [[nodiscard]] bool takes(std::uint64_t row_bytes) const { return 2 * row_bytes <= bytes_max_; }
  [[nodiscard]] std::uint32_t writes_max() const {
    return static_cast<std::uint32_t>(writes_.size());
  }

  /// A row that waits for its write, in the order of their places in the file where there is one.
  void add(TransferSlot slot, const ChunkTransfer::Plan& row) { waiting_.push_back({slot, row}); }
  /// Begins the write of the rows in front that are neighbours, and answers its number. A row without
  /// neighbours, or without memory for a copy, goes as it is. Nothing if no row waits or all writes are out.
  std::optional<std::uint32_t> begin_next();
  /// Of a write that was begun, until end().
  [[nodiscard]] const ChunkTransfer::Plan& plan(std::uint32_t write) const {
    return writes_[write].plan;
  }
  [[nodiscard]] const std::vector<TransferSlot>& members(std::uint32_t write) const {
    return writes_[write].members;
  }
  void end(std::uint32_t write) { free_.push_back(write); }

  /// The device may still read the copies: they are never freed.
  void leak();

 private:
  struct Row {
    TransferSlot slot = 0;
    ChunkTransfer::Plan plan;
  };
  struct Write {
    std::vector<TransferSlot> members;
    ChunkTransfer::Plan plan;
    AlignedBuffer copy;
  };

  /// How many rows in front are neighbours and fit one write.
  [[nodiscard]] std::size_t count_neighbours() const;
  [[nodiscard]] bool has_memory(Write& write) const;

  const std::uint64_t bytes_max_;
  std::vector<Write> writes_;
  std::vector<std::uint32_t> free_;
  std::deque<Row> waiting_;  // at most one entry per transfer
};

}  // namespace kv_offload
