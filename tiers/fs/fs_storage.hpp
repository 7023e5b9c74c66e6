#pragma once

#include "kv_offload/messages/offloading_event.hpp"
#include "kv_offload/tiers/digest.hpp"
#include "kv_offload/tiers/fs/file_mapper.hpp"
#include "kv_offload/tiers/fs/fs_config.hpp"
#include "kv_offload/tiers/fs/refused_keys.hpp"
#include "kv_offload/tiers/fs/temp_files.hpp"
#include "kv_offload/tiers/io/lane_storage.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

/// What the lane tells the tier's actor about its files. Any thread.
struct FsShared {
  /// Events that nobody took; an engine takes them at every step.
  static constexpr std::size_t kEventsMax = 1U << 16;

  std::atomic<std::uint64_t> corrupt_chunks{0};
  std::atomic<std::uint64_t> foreign_refused{0};
  std::atomic<bool> is_direct{
      true};  ///< O_DIRECT works in this directory; set before the first job

  std::atomic<bool> namespace_changed{false};  ///< `next_mapper` waits for the lane
  std::mutex mutex;                            // guards the rest
  std::optional<FileMapper> next_mapper;
  std::vector<OffloadingEvent> events;
  std::uint64_t events_dropped = 0;  // since they were taken last
};

/// One file per chunk. Stores write a private temporary file, attach the digest and rename it into
/// place, so that readers see whole chunks only. Loads compare the bytes with the digest; a file that
/// is short is removed, one whose bytes differ is renamed to "<path>.quarantined".
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

 private:
  enum class Stage : std::uint8_t { moving_row, syncing_file, syncing_directory };
  /// A transfer's files; the strings keep their memory from one transfer to the next.
  struct OpenFile {
    int fd = -1;
    Stage stage = Stage::moving_row;
    bool has_digest = false;  // loads: the file carries one; stores: it was computed
    ChunkDigest digest;
    std::string path;
    std::string temp_path;  // empty: no temporary file exists
  };

  /// Takes over a namespace that set_revision left behind; no transfer of the old one is open then.
  void adopt_namespace();
  StorageStep begin_store(const ChunkContext& chunk);
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
  std::string scratch_path_;
  bool can_preallocate_ = true;
};

}  // namespace kv_offload
