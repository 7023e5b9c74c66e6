#pragma once

#include "kv_offload/messages/lookup.hpp"
#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/messages/tier_traits.hpp"
#include "kv_offload/tiers/fs/fs_namespace.hpp"
#include "kv_offload/tiers/fs/fs_shared.hpp"
#include "kv_offload/tiers/fs/record_saver.hpp"
#include "kv_offload/tiers/io/lane_storage.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

struct FsCapacityOptions {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t row_bytes = 0;
  /// Bytes that may be on their way out while what takes their place is being written.
  std::uint64_t leaving_bytes_max = 0;
  bool events = false;
  std::optional<Locality> locality;
  std::function<MonotonicTime()> now;
  std::function<void(const std::string&)> log;
};

/// Keeps the chunk files of a tier below a number of allocated bytes: knows them, makes room for stores,
/// removes the victims' files through the lane's I/O. Rules and bounds: README.md beside this file.
/// Lane thread, from its making to the lane's end; then the tier's.
class FsCapacity {
 public:
  enum class Room : std::uint8_t {
    ready,
    later,  ///< something is on its way out or in: ask again at a later turn
    never,
  };

  /// @param older  namespaces of earlier revisions, oldest first
  FsCapacity(FsCapacityOptions options, FsShared& shared, std::unique_ptr<FsNamespace> current,
             std::vector<std::unique_ptr<FsNamespace>> older);

  // --- files of the current namespace ---------------------------------------------------------------
  /// Its file is being removed: it is not there any more, and must not be put there yet.
  [[nodiscard]] bool is_leaving(const OffloadKey& key) const;
  [[nodiscard]] bool knows(const OffloadKey& key) const;
  /// The file was found by a probe or a store: that is a use.
  void seen(const OffloadKey& key, const std::string& path);
  /// The file was looked for and is not there.
  void gone(const OffloadKey& key);
  /// A transfer has to do with the file: a load, which is a use, or a store that will replace it. No
  /// victim until unpin(); kNoChunk if it cannot be known now.
  ChunkId pin_for_load(const OffloadKey& key, int fd);
  ChunkId pin_for_store(const OffloadKey& key);
  void unpin(ChunkId slot) { current_->residency->unpin(slot); }
  /// Makes room for one more chunk. `ready`: it is reserved until stored() or release().
  Room reserve();
  void release() { --reserved_; }
  void stored(const OffloadKey& key, std::uint64_t bytes);
  /// The file got another name, because its bytes were wrong.
  void quarantined(const OffloadKey& key);
  /// The disk is full below the capacity: some chunks go, unless some are going for this already.
  void disk_full();

  /// Chunks of another revision count from now on; what there was counts, too, and goes first.
  void enter(std::unique_ptr<FsNamespace> next);

  // --- the lane's turns -----------------------------------------------------------------------------
  static constexpr std::uint32_t kUnlinksMax = 16;  ///< at the device
  static constexpr std::uint32_t kOwnIoMax = kUnlinksMax + 1;
  bool next_io(OwnIo& io);
  void io_over(std::uint64_t id, const IoEnd& io);
  [[nodiscard]] Duration work_wait() const;

  /// After the lane ended: writes the records. 0 or the errno of the first that could not be written.
  int close();

  [[nodiscard]] const FsNamespace& current() const { return *current_; }
  /// Files known and reserved for, those leaving excluded.
  [[nodiscard]] std::uint64_t counted_bytes() const;
  [[nodiscard]] std::uint64_t leaving_bytes() const { return leaving_bytes_; }

 private:
  enum class Kind : std::uint8_t { chunk, found, quarantined, left_over };
  /// A file whose name is being removed. Slots of chunks stay theirs until that is over.
  struct Leaving {
    Kind kind = Kind::chunk;
    bool is_relief = false;  // because the disk was full
    FsNamespace* ns = nullptr;
    ChunkId slot = kNoChunk;
    OffloadKey key;
    std::uint64_t bytes = 0;
    std::string path;
  };
  static constexpr std::uint64_t kSaveId = ~0ULL;
  static constexpr std::size_t kSetAsideMax = 1024;  ///< quarantined files kept per namespace

  [[nodiscard]] std::uint64_t stamp();
  [[nodiscard]] bool has_queue() const { return !free_leaving_.empty(); }
  std::uint32_t send_off(Leaving leaving);
  bool evict_one();
  bool evict_chunk(FsNamespace& ns);
  bool evict_set_aside(FsNamespace& ns);
  bool make_slot(FsNamespace& ns);
  ChunkId adopt(const OffloadKey& key, std::uint64_t bytes);
  void vanish(FsNamespace& ns, ChunkId slot);
  void set_aside(FsNamespace& ns, const OffloadKey& key, std::uint64_t bytes);
  void unlink_over(std::uint32_t idx, int error);
  void unlink_failed(const Leaving& leaving, int error);

  [[nodiscard]] FsNamespace* searching() const;
  void work_between_turns();
  void search(FsNamespace& ns);
  bool take_found(FsNamespace& ns, ChunkWalk::Found& found);
  void verify(FsNamespace& ns);
  void trim();
  void take_forgotten();
  void drop_empty();
  void flush_removed();
  void publish_counters();
  [[nodiscard]] std::vector<std::string> older_revisions() const;

  const FsCapacityOptions options_;
  FsShared& shared_;
  std::unique_ptr<FsNamespace> current_;
  std::vector<std::unique_ptr<FsNamespace>> older_;

  std::uint64_t estimate_;         // bytes reserved for a store: the most that one took so far
  std::uint64_t reserved_ = 0;     // stores in flight
  std::uint64_t stuck_bytes_ = 0;  // of files that could not be removed and have no slot
  std::vector<Leaving> leaving_;
  std::vector<std::uint32_t> free_leaving_;
  std::deque<std::uint32_t> to_unlink_;
  std::uint32_t unlinks_out_ = 0;
  std::uint64_t leaving_bytes_ = 0;
  std::uint64_t relief_out_ = 0;
  KeyList removed_;  // to be told

  std::optional<ChunkWalk::Found> found_;  // waits for the queue
  MonotonicTime next_piece_;               // of searching
  MonotonicTime next_refresh_;             // of the marker
  RecordSaver saver_;
  std::uint64_t start_us_;  // since 1970
  const MonotonicTime start_;
  std::uint64_t last_stamp_ = 0;
  bool told_unlink_failure_ = false;
  bool told_save_failure_ = false;
};

}  // namespace kv_offload
