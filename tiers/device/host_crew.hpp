#pragma once

#include "kv_offload/tiers/device/device_backend.hpp"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace kv_offload {

/// The threads that copy for one stream: the stream's own, and helpers that share its batches.
class HostCrew {
 public:
  /// Throws std::system_error if a helper cannot be started; those that were are ended.
  HostCrew(std::uint32_t helpers, const std::string& label);
  ~HostCrew();
  HostCrew(const HostCrew&) = delete;
  HostCrew& operator=(const HostCrew&) = delete;
  /// Copies all of it; returns when the last thread is done. One caller.
  void copy(std::span<const CopyFragment> fragments);

 private:
  void help(const std::string& label);
  void end();
  bool take_piece(std::vector<CopyFragment>& piece);  // under the lock
  void copy_pieces(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;  // guards the rest
  std::condition_variable has_work_, is_done_;
  std::span<const CopyFragment> batch_;
  std::size_t next_ = 0;           // fragment of the batch that nobody has taken, or not all of
  std::uint64_t next_offset_ = 0;  // of it
  std::uint32_t copying_ = 0;      // threads with a piece
  bool is_over_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace kv_offload
