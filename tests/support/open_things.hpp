#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <thread>

namespace kv_offload::test {

namespace detail {

inline std::size_t entries(const char* directory) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) ++count;
  return count;
}

}  // namespace detail

/// Of this process, the one of the look itself included.
inline std::size_t open_descriptors() { return detail::entries("/proc/self/fd"); }

/// Of this process. ThreadSanitizer starts a thread of its own beside the first one that a program starts; that must
/// have happened before anybody compares counts.
inline std::size_t running_threads() {
  [[maybe_unused]] static const bool started_one = (std::thread([] {}).join(), true);
  return detail::entries("/proc/self/task");
}

/// A thread that was joined may be listed for another moment.
inline bool threads_come_down_to(std::size_t count) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (running_threads() > count) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace kv_offload::test
