#pragma once

#include "kv_offload/tiers/digest.hpp"
#include "kv_offload/tiers/fs/file_mapper.hpp"
#include "kv_offload/tiers/fs/fs_capacity.hpp"
#include "kv_offload/tiers/fs/fs_config.hpp"
#include "kv_offload/tiers/fs/fs_shared.hpp"
#include "kv_offload/tiers/fs/refused_keys.hpp"
#include "kv_offload/tiers/fs/temp_files.hpp"
#include "kv_offload/tiers/io/lane_storage.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace kv_offload {

/// One file per chunk. Stores write a private temporary file, attach the digest and rename it into
/// place, so that readers see whole chunks only. Loads compare the bytes with the digest; a file that
/// is short is removed, one whose bytes differ is renamed to "<path>.quarantined". With a capacity every
/// step is told to an FsCapacity, and a store waits until there is room for it.
class FsStorage final : public LaneStorage {
 public:
  FsStorage(FileMapper mapper, FsConfig config, std::uint64_t payload_bytes,
            std::shared_ptr<FsShared> shared);
  ~FsStorage() override;
  FsStorage(const FsStorage&) = delete;
  FsStorage& operator=(const FsStorage&) = delete;

  void reserve_slots(std::uint32_t count) override { files_.resize(count); }
  LookupResult probe(const OffloadKey& key) override;
  StorageStep begin(const ChunkContext& chunk) override;
  void overlap(const ChunkContext& chunk) override;
  StorageStep proceed(const ChunkContext& chunk, const IoEnd& io) override;
  void job_ended(const TransferJob& job, const JobResult& result) override;

  [[nodiscard]] std::uint32_t own_io_max() const override {
    return config_.capacity_bytes ? FsCapacity::kOwnIoMax : 0;
  }
  bool next_own_io(OwnIo& io) override;
  void own_io_over(std::uint64_t id, const IoEnd& io) override;
  bool next_resumed(TransferSlot& slot, StorageStep& step) override;
  [[nodiscard]] Duration own_work_wait() const override;

 private:
  enum class Stage : std::uint8_t { moving_row, syncing_file, syncing_directory };
  /// A transfer's files; the strings keep their memory from one transfer to the next.
  struct OpenFile {
    int fd = -1;
    Stage stage = Stage::moving_row;
    bool has_digest = false;  // loads: the file carries one; stores: it was computed
    bool has_room = false;    // stores: reserved with the capacity
    ChunkId pin = kNoChunk;   // with the capacity: the chunk is no victim
    ChunkDigest digest;
    std::string path;
    std::string temp_path;  // empty: no temporary file exists
  };

  /// Takes over a namespace that set_revision left behind; no transfer of the old one is open then.
  void adopt_namespace();
  StorageStep end_of(OpenFile& file, const StorageStep& step);
  StorageStep begin_store(const ChunkContext& chunk);
  /// The same for a store that waited; one that waits again changes nothing.
  StorageStep try_store(const ChunkContext& chunk, bool waited);
  StorageStep write_chunk(const ChunkContext& chunk);
  [[nodiscard]] FsCapacity* capacity();
  StorageStep begin_load(const ChunkContext& chunk);
  int create_temp(OpenFile& file);
  int make_parents(const std::string& path);
  StorageStep proceed_store(const ChunkContext& chunk, const IoEnd& io);
  StorageStep publish(const ChunkContext& chunk);
  StorageStep sync_directory(OpenFile& file);
  StorageStep store_failed(OpenFile& file, int error);
  StorageStep finish_load(const ChunkContext& chunk, const IoEnd& io);
  StorageStep load_corrupt(const ChunkContext& chunk, bool is_short);
  StorageStep load_foreign(const ChunkContext& chunk);
  int close_file(OpenFile& file);
  [[nodiscard]] int direct_flag() const;

  FileMapper mapper_;
  const FsConfig config_;
  const std::uint64_t payload_bytes_;
  const std::shared_ptr<FsShared> shared_;
  ChunkDigester digester_;
  TempNames temp_names_;
  std::vector<OpenFile> files_;  // indexed by slot
  RefusedKeys refused_;
  std::deque<ChunkContext> waiting_;  // stores that wait for room, in order; at most one per slot
  std::string scratch_path_;
  bool can_preallocate_ = true;
};

}  // namespace kv_offload
