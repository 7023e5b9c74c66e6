#pragma once

#include "kv_offload/messages/lookup.hpp"
#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/messages/transfer_job.hpp"
#include "kv_offload/tiers/io/io_request.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace kv_offload {

/// How one key of a job ended.
struct KeyEnd {
  KeyFate fate = KeyFate::failed;
  TransferFailure failure = TransferFailure::none;
  int error_number = 0;
  bool unverified = false;  ///< done, but accepted without a digest of ours

  static KeyEnd failed(TransferFailure failure, int error_number = 0) {
    return {KeyFate::failed, failure, error_number, false};
  }
};

/// What a storage wants next for a transfer: I/O, or to wait for I/O of its own, or it is over.
struct StorageStep {
  bool is_over = true;
  KeyEnd end;            ///< if over
  IoOp op = IoOp::read;  ///< else: read or write of the whole row, or a sync of `fd`
  int fd = -1;
  std::uint64_t offset = 0;
  bool waits = false;  ///< else: until next_resumed() names the transfer
  bool may_join =
      false;  ///< a write that may go to the device together with its neighbours' in the file

  static StorageStep over(KeyEnd end) { return {true, end}; }
  static StorageStep io(IoOp op, int fd, std::uint64_t offset = 0) {
    return {false, {}, op, fd, offset};
  }
  static StorageStep joinable_write(int fd, std::uint64_t offset) {
    return {false, {}, IoOp::write, fd, offset, false, true};
  }
  static StorageStep wait() { return {false, {}, IoOp::read, -1, 0, true, false}; }
};

/// I/O of the storage itself, of no key's row. Buffer, path and descriptor stay valid until own_io_over().
struct OwnIo {
  IoOp op = IoOp::read;
  int fd = -1;
  std::uint64_t offset = 0;
  std::byte* buffer = nullptr;
  std::uint64_t length = 0;    ///< multiple of 4096; 0 for syncs and unlink
  std::uint64_t id = 0;        ///< the storage's own name for it
  const char* path = nullptr;  ///< unlink only
};

/// CPU time that one transfer takes in a storage besides its digest, microseconds; a lane's turn has a
/// budget. The defaults were measured for files on ext4 without contention: creating one 20 to 60,
/// renaming it 25, opening or closing it 2.
struct StorageCosts {
  std::uint64_t start_store_us = 50;
  std::uint64_t start_load_us = 5;
  std::uint64_t finish_store_us = 30;
  std::uint64_t finish_load_us = 2;
};

/// How the I/O of the last step ended. A short read has no error.
struct IoEnd {
  int error = 0;  ///< errno, 0 if none
  bool is_short = false;
};

/// Names one transfer in flight; dense and reused, so a storage keeps its state in a vector.
using TransferSlot = std::uint32_t;

/// One chunk's way into or out of a storage, as its lane sees it.
struct ChunkContext {
  TransferSlot slot = 0;
  bool is_load = false;
  const OffloadKey* key = nullptr;
  std::span<std::byte> row;  ///< the primary tier's bytes, padding included
};

/// What a lane has to know about a kind of storage: where the bytes of a key lie and what must happen
/// before and after their I/O. Called on the lane's thread only. Metadata operations may be plain
/// system calls; the bytes of chunks move through the lane's backend only.
class LaneStorage {
 public:
  virtual ~LaneStorage() = default;

  /// Upper bound of the slots that will be used; called once before anything else.
  virtual void reserve_slots(std::uint32_t count) = 0;
  /// hit, miss, or retry when the storage could not say.
  virtual LookupResult probe(const OffloadKey& key) = 0;
  /// Opens what the transfer needs.
  virtual StorageStep begin(const ChunkContext& chunk) = 0;
  /// Stores only: what can be done while the device writes (the digest). Once, before proceed().
  virtual void overlap(const ChunkContext& chunk) = 0;
  /// The I/O of the last step is over. Leaves nothing open once it answers `over`.
  virtual StorageStep proceed(const ChunkContext& chunk, const IoEnd& io) = 0;
  /// All keys of a job have ended; called before the job's Outcome.
  virtual void job_ended(const TransferJob& job, const JobResult& result) = 0;

  [[nodiscard]] virtual StorageCosts costs() const { return {}; }

  // --- for storages with I/O of their own -----------------------------------------------------------
  /// How much of it may be in flight; asked once.
  [[nodiscard]] virtual std::uint32_t own_io_max() const { return 0; }
  /// The next of it. Asked at every turn until it answers false or own_io_max are in flight; not any
  /// more once the lane was stopped and its last job has ended.
  virtual bool next_own_io(OwnIo& /*io*/) { return false; }
  virtual void own_io_over(std::uint64_t /*id*/, const IoEnd& /*io*/) {}
  /// A transfer that waits and goes on now, with its next step. Asked at every turn until false.
  virtual bool next_resumed(TransferSlot& /*slot*/, StorageStep& /*step*/) { return false; }
  /// How long an idle lane may sleep before next_own_io is asked again: for work that is done in pieces
  /// between turns.
  [[nodiscard]] virtual Duration own_work_wait() const { return Duration::max(); }
};

}  // namespace kv_offload
