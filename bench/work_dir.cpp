#include "kv_offload/bench/work_dir.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <stdlib.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace kv_offload::bench {
namespace fs = std::filesystem;
namespace {

Expected<fs::path> make_directory(fs::path path) {
  std::error_code error;
  fs::create_directory(path, error);
  if (error) return OffloadError{OffloadErrc::io_error, path.string() + ": " + error.message()};
  return path;
}

/// A temporary directory as a signal handler can read it, without a lock.
struct Shown {
  std::atomic<bool> is_shown{false};
  std::array<char, 4096> path{};
  bool is_taken = false;
};
std::mutex g_shown_mutex;      // of `is_taken`
std::array<Shown, 8> g_shown;  // more at a time are not told of

void show(const std::string& path) {
  const std::lock_guard lock(g_shown_mutex);
  for (Shown& shown : g_shown) {
    if (shown.is_taken || path.size() >= shown.path.size()) continue;
    shown.is_taken = true;
    std::memcpy(shown.path.data(), path.c_str(), path.size() + 1);
    return shown.is_shown.store(true, std::memory_order_release);
  }
}

void hide(const std::string& path) {
  const std::lock_guard lock(g_shown_mutex);
  for (Shown& shown : g_shown) {
    if (!shown.is_taken || path != shown.path.data()) continue;
    shown.is_shown.store(false, std::memory_order_release);
    shown.is_taken = false;
  }
}

void put(const char* text) noexcept {
  std::size_t left = std::strlen(text);
  while (left > 0) {
    const ssize_t written = ::write(STDERR_FILENO, text, left);
    if (written <= 0) return;
    text += written;
    left -= static_cast<std::size_t>(written);
  }
}

// Eight: a file system mounted with `discard` frees one extent at a time; unlinking from eight threads
// measured 60–130 µs a file where one thread took 430–1400.
constexpr std::size_t kRemovers = 8;

void remove_in_parallel(const fs::path& root) {
  std::error_code ignored;
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator it(root, ignored), end; !ignored && it != end;
       it.increment(ignored))
    if (it->is_regular_file(ignored)) files.push_back(it->path());
  std::vector<std::thread> removers;
  for (std::size_t k = 0; k < kRemovers && k < files.size(); ++k)
    removers.emplace_back([&files, k] {
      for (std::size_t i = k; i < files.size(); i += kRemovers) ::unlink(files[i].c_str());
    });
  for (auto& remover : removers) remover.join();
  fs::remove_all(root, ignored);
}

}  // namespace

void tell_temporary_directories() noexcept {
  for (const Shown& shown : g_shown) {
    if (!shown.is_shown.load(std::memory_order_acquire)) continue;
    put("kv-offload-bench: ended at once; what is left stays in ");
    put(shown.path.data());
    put("\n");
  }
}

WorkDir::WorkDir(fs::path path, bool temporary) : path_(std::move(path)), temporary_(temporary) {
  if (temporary_) show(path_.string());
}

WorkDir::WorkDir(WorkDir&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, false)) {}

WorkDir::~WorkDir() {
  if (!temporary_) return;
  remove_in_parallel(path_);
  hide(path_.string());
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
