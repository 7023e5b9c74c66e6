#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <system_error>

namespace kv_offload::test {

/// Bytes on the disk of chunk files, whole, half written or quarantined: what `du` counts of them.
inline std::uint64_t chunk_bytes_on_disk(const std::string& root) {
  namespace fs = std::filesystem;
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(root, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.find(".bin") == std::string::npos) continue;
    struct stat info {};
    if (::lstat(at->path().c_str(), &info) == 0)
      bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  return bytes;
}
inline std::uint64_t allocated(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_blocks) * 512 : 0;
}

}  // namespace kv_offload::test
