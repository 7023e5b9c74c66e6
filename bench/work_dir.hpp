#pragma once

#include "kv_offload/messages/expected.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace kv_offload::bench {

/// Says on standard error which temporary directories exist. For a signal handler that ends the process:
/// makes async-signal-safe calls alone.
void tell_temporary_directories() noexcept;

/// Where a run keeps its files: the directory the user named (kept), or a temporary one that goes with
/// this object. One owner, one thread.
class WorkDir {
 public:
  /// A named directory is made if its parent exists.
  static Expected<WorkDir> open(const std::optional<std::string>& dir);
  WorkDir(WorkDir&& other) noexcept;
  WorkDir& operator=(WorkDir&&) = delete;
  ~WorkDir();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] bool is_temporary() const { return temporary_; }
  /// Makes (if need be) and answers DIR/<name>, with ':' as '-', so that no shell has to quote it.
  [[nodiscard]] Expected<std::filesystem::path> subdirectory(std::string name) const;

 private:
  WorkDir(std::filesystem::path path, bool temporary);

  std::filesystem::path path_;
  bool temporary_;
};

}  // namespace kv_offload::bench
