#pragma once

#include "kv_offload/tiers/io/lane_storage.hpp"

#include <atomic>
#include <cerrno>
#include <functional>
#include <map>
#include <set>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace kv_offload::test {

/// The smallest storage for a lane: one file in memory, a row per key in order of arrival. No digests; keys can be
/// declared broken. Lane thread only, except for the observers.
class FlatStorage final : public LaneStorage {
 public:
  explicit FlatStorage(std::uint64_t row_bytes)
      : row_bytes_(row_bytes), fd_(::memfd_create("rows", MFD_CLOEXEC)) {}
  ~FlatStorage() override { ::close(fd_); }

  void reserve_slots(std::uint32_t /*count*/) override {}
  LookupResult probe(const OffloadKey& key) override {
    return present_.contains(key) ? LookupResult::hit : LookupResult::miss;
  }
  StorageStep begin(const ChunkContext& chunk) override {
    if (on_begin) on_begin(chunk);
    if (refused_.contains(*chunk.key))
      return StorageStep::over(KeyEnd::failed(TransferFailure::io_error, EACCES));
    if (chunk.is_load && !present_.contains(*chunk.key))
      return StorageStep::over(KeyEnd::failed(TransferFailure::not_found, ENOENT));
    if (!chunk.is_load && present_.contains(*chunk.key))
      return StorageStep::over({KeyFate::already_present, TransferFailure::none, 0, false});
    const auto row = rows_.emplace(*chunk.key, rows_.size()).first->second;
    return StorageStep::io(chunk.is_load ? IoOp::read : IoOp::write, fd_, row * row_bytes_);
  }
  void overlap(const ChunkContext& chunk) override { overlapped_.insert(chunk.slot); }
  StorageStep proceed(const ChunkContext& chunk, const IoEnd& io) override {
    if (on_proceed) on_proceed(chunk);
    if (io.error != 0) {
      overlapped_.erase(chunk.slot);
      return StorageStep::over(KeyEnd::failed(TransferFailure::io_error, io.error));
    }
    if (io.is_short) return StorageStep::over(KeyEnd::failed(TransferFailure::corrupt, EIO));
    if (!chunk.is_load) {
      if (overlapped_.erase(chunk.slot) == 0) ++missed_overlaps;
      if (syncs && synced_.insert(*chunk.key).second) {
        overlapped_.insert(chunk.slot);  // asked again after the sync
        return StorageStep::io(IoOp::sync_data, fd_);
      }
      present_.insert(*chunk.key);
    }
    return StorageStep::over({KeyFate::done, TransferFailure::none, 0, false});
  }
  void job_ended(const TransferJob& /*job*/, const JobResult& /*result*/) override { ++jobs_ended; }

  /// Before the lane starts.
  void refuse(const OffloadKey& key) { refused_.insert(key); }
  bool syncs = false;
  /// Set while the lane has nothing to do.
  std::function<void(const ChunkContext&)> on_begin, on_proceed;
  std::atomic<int> missed_overlaps{0};
  std::atomic<int> jobs_ended{0};

 private:
  const std::uint64_t row_bytes_;
  const int fd_;
  std::map<OffloadKey, std::uint64_t> rows_;
  std::set<OffloadKey> present_;
  std::set<OffloadKey> refused_;
  std::set<OffloadKey> synced_;
  std::set<TransferSlot> overlapped_;
};

}  // namespace kv_offload::test
