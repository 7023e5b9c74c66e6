#pragma once

#include "kv_offload/messages/monotonic_time.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace kv_offload {

/// Names of files that are being written, unique among all writers of a shared directory:
///   <destination>_<host>-<pid>-<number>.tmp      host: 8 hex digits; number: 16 hex digits
/// Host and process tell a later start whether the writer can still be alive. One owner.
class TempNames {
 public:
  TempNames();
  /// Appends the next tag and `ending` to `path`.
  void append_to(std::string& path, std::string_view ending = ".tmp");

 private:
  std::string prefix_;  // "_<host>-<pid>-"
  std::uint64_t number_;
};

/// True for a file that its writer will not finish: of this host whose process is gone, of an earlier
/// process with our pid, of other hosts and programs untouched for an hour. The name ends in ".tmp", or
/// is made likewise with another ending of three letters.
[[nodiscard]] bool is_left_over_temp_file(const std::string& path);

struct SweepResult {
  std::uint64_t removed = 0;
  std::uint64_t kept = 0;    ///< of writers that may be alive
  std::uint64_t failed = 0;  ///< could not be removed
  bool is_complete = true;   ///< false: the time was up before every directory was seen
};

/// Removes what dead writers left below `chunk_dir`: files of this host whose process is gone, files of
/// an earlier process with our pid, and files of other hosts and programs untouched for an hour (no
/// write of one chunk takes that long).
/// @param patience  wall-clock bound; a directory with millions of chunks is swept in part
SweepResult sweep_temp_files(const std::string& chunk_dir, Duration patience);

}  // namespace kv_offload
