#pragma once

#include "kv_offload/tiers/extent/extent_shared.hpp"
#include "kv_offload/tiers/extent/segment_cleaner.hpp"
#include "kv_offload/tiers/extent/segment_filler.hpp"
#include "kv_offload/tiers/io/aligned_buffer.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

/// Makes records void on disk, so that a restart does not bring back what was forgotten or found damaged;
/// answers forgets. One block or table at a time. Lane thread.
class RecordEraser {
 public:
  /// In the upper half of OwnIo::id.
  static constexpr std::uint64_t kBlockIo = 16, kScanIo = 17;

  RecordEraser(ExtentVolume& volume, SegmentFiller& filler, SegmentCleaner& cleaner,
               ExtentShared& shared)
      : volume_(volume), filler_(filler), cleaner_(cleaner), shared_(shared) {}

  /// Erases the record of a slot that the index does not know any more. More than kErasuresMax at once:
  /// left out, a restart may find the record.
  void erase(std::uint32_t slot);
  void forget(ForgetWork work) { waiting_.push_back(std::move(work)); }

  bool next_io(OwnIo& io);
  void io_over(std::uint64_t id, const IoEnd& end);
  /// A record of a segment that is being filled was wiped.
  void recorded(int error);

 private:
  static constexpr std::size_t kErasuresMax = 1U << 20;
  struct Forget {
    ForgetWork work;
    std::uint64_t chunks = 0;
    std::uint64_t erasures = 0;  // not yet done
    std::string error;
    std::uint32_t next_segment = ~0U;            // of the search for a tenant's keys
    std::optional<std::uint64_t> behind_victim;  // cycle of the cleaner that holds old copies
  };

  enum class Stage : std::uint8_t { idle, reading, read, writing, wiping };

  void take_superseded();
  void begin_forget();
  bool next_scan_io(OwnIo& io);
  void scan(std::uint32_t segment, std::span<const std::byte> table);
  void forget_slot(std::uint32_t slot);
  bool next_batch_io(OwnIo& io);
  void begin_batch();
  void end_batch(int error);
  void try_answer();
  [[nodiscard]] bool is_searching() const {
    return current_ && current_->next_segment < volume_.geometry.num_segments;
  }
  [[nodiscard]] std::uint64_t block_at() const;

  ExtentVolume& volume_;
  SegmentFiller& filler_;
  SegmentCleaner& cleaner_;
  ExtentShared& shared_;
  std::deque<ForgetWork> waiting_;  // bounded by what ExtentShared takes
  std::optional<Forget> current_;
  AlignedBuffer scan_table_;
  bool is_scanning_ = false;
  Stage stage_ = Stage::idle;
  std::vector<RecordErasure> batch_;  // erasures in one block of records
  AlignedBuffer block_;
  std::size_t wipes_out_ = 0;
  int wipe_error_ = 0;
};

}  // namespace kv_offload
