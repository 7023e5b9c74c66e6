#pragma once

#include "kv_offload/tiers/extent/extent_shared.hpp"
#include "kv_offload/tiers/extent/row_digester.hpp"
#include "kv_offload/tiers/extent/segment_filler.hpp"
#include "kv_offload/tiers/io/aligned_buffer.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace kv_offload {

/// Makes segments free, one at a time: rewrites the rows of the victim that were loaded since they were
/// written (a bounded share), drops the other keys, waits for the victim's readers and wipes its header.
/// Stores leave it room and wait for it, it never waits for stores: rows for which there is no room all the
/// same are dropped. Lane thread.
class SegmentCleaner {
 public:
  struct Options {
    SegmentEviction eviction = SegmentEviction::fifo;
    double rewrite_share = 0;
    bool syncs = false;   ///< what was rewritten is durable before the old copy goes
    bool events = false;  ///< tells which keys went
    std::optional<Locality> locality;
  };
  /// In the upper half of OwnIo::id.
  static constexpr std::uint64_t kTableIo = 8, kCopyIo = 9, kWipeIo = 10;

  SegmentCleaner(ExtentVolume& volume, SegmentFiller& filler, ExtentShared& shared, Options options)
      : volume_(volume), filler_(filler), shared_(shared), options_(options) {}

  /// Does what can be done without I/O, then names the next request if there is one.
  bool next_io(OwnIo& io, const ExtentNamespace& name_space, const RowDigester& digester);
  void io_over(std::uint64_t id, const IoEnd& end);
  void recorded(std::uint32_t copy, int error);

  /// Starts no copies from now on; what is under way ends.
  void pause_copies(bool paused) { paused_ = paused; }
  [[nodiscard]] bool is_copying() const { return copies_out_ > 0; }
  /// Rows that are to be rewritten and have no slot yet; stores leave so much room.
  [[nodiscard]] std::uint32_t rows_without_slot() const {
    return static_cast<std::uint32_t>(rows_.size()) + copies_without_slot_;
  }
  [[nodiscard]] bool is_active() const { return stage_ != Stage::idle; }
  /// Number of victims that were finished; a victim under way is the next.
  [[nodiscard]] std::uint64_t cycle() const { return cycle_; }
  /// A segment will become free without any store's help.
  [[nodiscard]] bool can_free() const {
    return is_active() || volume_.segments.victim(options_.eviction).has_value();
  }

 private:
  enum class Stage : std::uint8_t {
    idle,
    read_table,  // to be read
    reading_table,
    copying,
    syncing,
    draining,  // the last readers end
    wiping,
  };
  struct Copy {
    enum class State : std::uint8_t { idle, reading, read, writing, written, recording };
    State state = State::idle;
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    ChunkRecord record;
    AlignedBuffer row;
  };
  /// Bytes of rows being copied at once, but at least one row.
  static constexpr std::uint64_t kCopyBytes = 1U << 20;
  static constexpr std::uint64_t kCopiesMax = 8;
  static constexpr std::uint32_t kSyncWaiter = ~0U;

  void begin();
  bool next_copy_io(OwnIo& io, const ExtentNamespace& name_space, const RowDigester& digester);
  bool begin_copy(Copy& copy, const ExtentNamespace& name_space);
  void end_copy(Copy& copy, bool is_rewritten);
  void choose_rows();
  void drop_all();
  void finish(bool is_wiped);
  [[nodiscard]] std::optional<ChunkRecord> record_of(std::uint32_t slot) const;
  [[nodiscard]] static constexpr std::uint64_t io_id(std::uint64_t kind, std::uint64_t n = 0) {
    return (kind << 32) | n;
  }

  ExtentVolume& volume_;
  SegmentFiller& filler_;
  ExtentShared& shared_;
  const Options options_;
  Stage stage_ = Stage::idle;
  std::uint32_t victim_ = 0;
  std::uint64_t cycle_ = 0;
  bool paused_ = false;
  AlignedBuffer table_;  // the victim's record table, if it was needed and readable
  bool has_table_ = false;
  std::vector<std::uint32_t> rows_;  // slots to rewrite, the hottest last
  std::vector<Copy> copies_;
  std::size_t copies_out_ = 0;
  std::uint32_t copies_without_slot_ = 0;
};

}  // namespace kv_offload
