#pragma once

#include "kv_offload/tiers/digest.hpp"
#include "kv_offload/tiers/extent/extent_config.hpp"
#include "kv_offload/tiers/extent/extent_shared.hpp"
#include "kv_offload/tiers/extent/record_eraser.hpp"
#include "kv_offload/tiers/extent/row_digester.hpp"
#include "kv_offload/tiers/extent/segment_cleaner.hpp"
#include "kv_offload/tiers/extent/segment_filler.hpp"
#include "kv_offload/tiers/io/lane_storage.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace kv_offload {

/// One extent file for a lane: a store takes a slot, writes its row, then its record, then enters the
/// index; a load reads a slot and compares the digest. README.md has the order of writes.
class ExtentStorage final : public LaneStorage {
 public:
  ExtentStorage(ExtentConfig config, ExtentNamespace name_space, std::uint64_t payload_bytes,
                std::shared_ptr<ExtentShared> shared);

  void reserve_slots(std::uint32_t count) override { transfers_.resize(count); }
  LookupResult probe(const OffloadKey& key) override;
  StorageStep begin(const ChunkContext& chunk) override;
  void overlap(const ChunkContext& chunk) override;
  StorageStep proceed(const ChunkContext& chunk, const IoEnd& io) override;
  void job_ended(const TransferJob& job, const JobResult& result) override;

  /// Nothing but memory is touched: 1 us each, measured with 4 KiB rows.
  [[nodiscard]] StorageCosts costs() const override { return {1, 1, 1, 1}; }
  [[nodiscard]] std::uint32_t own_io_max() const override { return 16; }
  bool next_own_io(OwnIo& io) override;
  void own_io_over(std::uint64_t id, const IoEnd& io) override;
  bool next_resumed(TransferSlot& slot, StorageStep& step) override;

 private:
  /// Everything that works on the open file; made by the lane once the start has opened it.
  struct Parts {
    Parts(ExtentShared& shared, const ExtentConfig& config);
    ExtentVolume& volume;
    SegmentFiller filler;
    SegmentCleaner cleaner;
    RecordEraser eraser;
  };
  struct Transfer {
    KeyHash hash;
    OffloadKey key;
    ChunkDigest digest;
    std::uint32_t slot = 0;
    std::uint64_t generation = 0;
  };

  Parts* parts();
  void adopt_news();
  StorageStep begin_load(const ChunkContext& chunk);
  StorageStep begin_store(const ChunkContext& chunk);
  StorageStep finish_load(const ChunkContext& chunk, const IoEnd& io);
  StorageStep write_row(TransferSlot slot);
  StorageStep stored(TransferSlot slot, int error);
  bool next_filler_io(OwnIo& io);
  void resume_stores();
  void deliver_ended();
  bool has_room();
  [[nodiscard]] bool room_can_come() const;
  void publish_gauges();

  const ExtentConfig config_;
  const std::uint64_t payload_bytes_;
  const std::shared_ptr<ExtentShared> shared_;
  ExtentNamespace namespace_;
  RowDigester digester_;
  std::unique_ptr<Parts> parts_;
  std::vector<Transfer> transfers_;   // indexed by slot
  std::deque<TransferSlot> waiting_;  // stores without room, in order; at most one entry per slot
  std::deque<std::pair<TransferSlot, StorageStep>> resumed_;  // the same
};

}  // namespace kv_offload
