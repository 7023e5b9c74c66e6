#include "kv_offload/bench/work_dir.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdlib.h>
#include <system_error>
#include <utility>

namespace kv_offload::bench {
namespace fs = std::filesystem;
namespace {

Expected<fs::path> make_directory(fs::path path) {
  std::error_code error;
  fs::create_directory(path, error);
  if (error) return OffloadError{OffloadErrc::io_error, path.string() + ": " + error.message()};
  return path;
}

}  // namespace

WorkDir::WorkDir(fs::path path, bool temporary) : path_(std::move(path)), temporary_(temporary) {}

WorkDir::WorkDir(WorkDir&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, false)) {}

WorkDir::~WorkDir() {
  std::error_code ignored;
  if (temporary_) fs::remove_all(path_, ignored);
}

Expected<WorkDir> WorkDir::open(const std::optional<std::string>& dir) {
  std::error_code error;
  if (dir) {
    auto made = make_directory(*dir);
    if (!made) return OffloadError{made.error().code, "--dir: " + made.error().detail};
    auto absolute = fs::absolute(*made, error);
    if (error) return OffloadError{OffloadErrc::io_error, "--dir: " + error.message()};
    return WorkDir(std::move(absolute), false);
  }
  const fs::path parent = fs::temp_directory_path(error);
  std::string name = ((error ? fs::path("/tmp") : parent) / "kv-offload-bench-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    return OffloadError{OffloadErrc::io_error, name + ": " + std::strerror(errno)};
  return WorkDir(name, true);
}

Expected<fs::path> WorkDir::subdirectory(std::string name) const {
  std::replace(name.begin(), name.end(), ':', '-');
  return make_directory(path_ / name);
}

}  // namespace kv_offload::bench
