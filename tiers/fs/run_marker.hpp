#pragma once

#include <string>
#include <utility>

namespace kv_offload {

/// A file that says that an engine with a capacity is at work in a chunk directory, or was and did not
/// end: "residency_<host>-<pid>-<number>.run"; with ".end" instead, that one ended while others were at
/// work. One owner.
class RunMarker {
 public:
  RunMarker() = default;
  RunMarker(RunMarker&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  RunMarker& operator=(RunMarker&& other) noexcept {
    path_ = std::exchange(other.path_, {});
    return *this;
  }

  /// Are there markers of others? Removes those whose engine ended or is gone.
  static bool find_others(const std::string& chunk_dir);
  /// 0 or errno.
  int create(const std::string& chunk_dir);
  [[nodiscard]] bool has_others(const std::string& chunk_dir) const;
  /// Tells other hosts that we live; they take a marker untouched for an hour for a left one.
  void refresh() const;
  void remove();
  /// Our engine ends before others: their records are not the last word.
  void leave();

 private:
  std::string path_;  // empty: none
};

}  // namespace kv_offload
