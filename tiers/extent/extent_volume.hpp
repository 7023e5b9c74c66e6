#pragma once

#include "kv_offload/tiers/extent/extent_file.hpp"
#include "kv_offload/tiers/extent/extent_format.hpp"
#include "kv_offload/tiers/extent/extent_geometry.hpp"
#include "kv_offload/tiers/extent/extent_index.hpp"
#include "kv_offload/tiers/extent/segment_table.hpp"
#include "kv_offload/tiers/io/aligned_buffer.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace kv_offload {

/// A record to be made void on disk.
struct RecordErasure {
  std::uint32_t slot = 0;
  std::uint64_t generation = 0;  ///< of the segment then; another one: it is gone already
  bool is_forget = false;        ///< somebody waits for it
};

/// An open extent file with everything in memory that describes it. Owner: the thread that starts the
/// tier, then the lane's thread, then the thread that stops the tier; only the index may also be asked by
/// others.
struct ExtentVolume {
  explicit ExtentVolume(ExtentFile opened)
      : file(std::move(opened)),
        geometry(file.geometry()),
        codec(file.superblock().file_id),
        index(geometry.num_slots()),
        segments(geometry.num_segments) {}

  [[nodiscard]] int fd() const { return file.fd(); }

  /// Takes the slot's key out of the index.
  bool drop(std::uint32_t slot) {
    if (!index.erase(slot)) return false;
    --segments[geometry.segment_of(slot)].live;
    return true;
  }
  /// False if the key has another slot.
  bool publish(const KeyHash& hash, const ChunkDigest& digest, std::uint32_t slot) {
    if (!index.insert(hash, digest, slot)) return false;
    ++segments[geometry.segment_of(slot)].live;
    return true;
  }
  void move(std::uint32_t from, std::uint32_t to) {
    index.move(from, to);
    --segments[geometry.segment_of(from)].live;
    ++segments[geometry.segment_of(to)].live;
  }

  ExtentFile file;
  const ExtentGeometry geometry;
  const ExtentCodec codec;
  ExtentIndex index;
  SegmentTable segments;
  std::uint64_t recency_epoch = 0;  ///< of the recency that was written last
  /// The youngest segment, if it was left partly filled: goes on being filled.
  struct Partial {
    std::uint32_t segment = 0;
    AlignedBuffer table;
  };
  std::optional<Partial> partial;
  std::deque<RecordErasure> erasures;  ///< not done yet, the oldest first
  std::vector<std::uint32_t>
      superseded;  ///< slots whose records a recovery found replaced; to be erased
};

}  // namespace kv_offload
