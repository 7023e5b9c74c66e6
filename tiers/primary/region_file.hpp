#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/primary/region_record.hpp"
#include "kv_offload/tiers/unique_fd.hpp"

#include <cstdint>
#include <string>

namespace kv_offload {

/// A region's file under a name, for workers that find it by that. One owner, which holds its lock for its life; the
/// name goes with it at the latest. What is found under the name is removed only where it is proven to be a dead
/// engine's region.
class RegionFile {
 public:
  /// Makes a file of `bytes` zeroes whose first page names `record` as not ready. Errors leave nothing, and nothing
  /// that was there is touched: no space, a living owner, something that is not ours.
  static Expected<RegionFile> create(const std::string& path, std::uint64_t bytes,
                                     const RegionRecord& record);
  RegionFile(RegionFile&&) noexcept = default;
  RegionFile& operator=(RegionFile&&) = delete;
  ~RegionFile();

  /// To be mapped and lent: it does not hold the lock.
  [[nodiscard]] int fd() const { return data_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// What had to be cleared away first; empty if nothing.
  [[nodiscard]] const std::string& note() const { return note_; }
  /// Nobody finds it any more; those that have it keep it. Idempotent.
  void remove_name();

 private:
  RegionFile() = default;
  std::string path_;
  std::string note_;
  UniqueFd
      lock_;  // of an open file of its own: a descriptor that was lent would keep the lock alive
  UniqueFd data_;
};

/// Locks in a region's file, by open file: they end with the last descriptor of it, whatever happens to its process.
[[nodiscard]] bool region_owner_lives(int fd);
/// 0; EAGAIN if another process holds the rank; errno.
[[nodiscard]] int lock_region_rank(int fd, std::uint32_t rank);
/// Removes `path` if it is the name of the file behind `fd`. True if it did.
bool remove_name_of(const std::string& path, int fd);

}  // namespace kv_offload
