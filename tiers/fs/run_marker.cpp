#include "kv_offload/tiers/fs/run_marker.hpp"

#include "kv_offload/tiers/fs/temp_files.hpp"

#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace kv_offload {

namespace {

constexpr std::string_view kStart = "residency_";
constexpr std::string_view kEnd = ".run";
constexpr std::string_view kEnded = ".end";

std::vector<std::string> markers_in(const std::string& chunk_dir) {
  std::vector<std::string> paths;
  DIR* directory = ::opendir(chunk_dir.c_str());
  if (directory == nullptr) return paths;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name.starts_with(kStart) && (name.ends_with(kEnd) || name.ends_with(kEnded)))
      paths.push_back(chunk_dir + '/' + entry->d_name);
  }
  ::closedir(directory);
  return paths;
}

}  // namespace

bool RunMarker::find_others(const std::string& chunk_dir) {
  const auto paths = markers_in(chunk_dir);
  for (const std::string& path : paths)
    if (path.ends_with(kEnded) || is_left_over_temp_file(path)) ::unlink(path.c_str());
  return !paths.empty();
}

int RunMarker::create(const std::string& chunk_dir) {
  std::string path = chunk_dir + "/residency";
  TempNames().append_to(path, kEnd);
  const int fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  ::close(fd);
  path_ = std::move(path);
  return 0;
}

bool RunMarker::has_others(const std::string& chunk_dir) const {
  for (const std::string& path : markers_in(chunk_dir))
    if (path != path_) return true;
  return false;
}

void RunMarker::refresh() const {
  if (!path_.empty()) ::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0);
}

void RunMarker::leave() {
  if (path_.empty()) return;
  std::string ended = path_.substr(0, path_.size() - kEnd.size());
  ended += kEnded;
  if (::rename(path_.c_str(), ended.c_str()) == 0) path_.clear();
}

void RunMarker::remove() {
  if (!path_.empty()) ::unlink(path_.c_str());
  path_.clear();
}

}  // namespace kv_offload
