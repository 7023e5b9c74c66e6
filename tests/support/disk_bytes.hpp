#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <vector>

namespace kv_offload::test {

/// Allocated bytes of a file; 0 if there is none.
inline std::uint64_t allocated(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_blocks) * 512 : 0;
}

/// Bytes on the disk of chunk files, whole, half written or quarantined: what `du` counts of them, but
/// only of those that were all there at one moment. Files that come, go or get their name meanwhile would
/// be counted together although they never were.
inline std::uint64_t chunk_bytes_on_disk(const std::string& root) {
  namespace fs = std::filesystem;
  struct Seen {
    std::string path;
    struct stat info {};
  };
  std::vector<Seen> all;
  std::error_code error;
  for (fs::recursive_directory_iterator at(root, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    Seen seen{at->path().string(), {}};
    if (name.find(".bin") != std::string::npos && ::lstat(seen.path.c_str(), &seen.info) == 0)
      all.push_back(std::move(seen));
  }
  // The moment is now. What was seen before it and is seen again was there.
  std::vector<ino_t> counted;
  std::uint64_t bytes = 0;
  for (const Seen& seen : all) {
    const std::string destination = seen.path.substr(0, seen.path.find(".bin") + 4);
    for (const std::string& path : {seen.path, destination}) {
      struct stat info {};
      if (::lstat(path.c_str(), &info) != 0 || info.st_ino != seen.info.st_ino) continue;
      if (std::find(counted.begin(), counted.end(), info.st_ino) != counted.end()) continue;
      counted.push_back(info.st_ino);
      bytes += static_cast<std::uint64_t>(std::min(info.st_blocks, seen.info.st_blocks)) * 512;
    }
  }
  return bytes;
}

}  // namespace kv_offload::test
