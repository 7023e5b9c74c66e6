#pragma once

#include "kv_offload/messages/offload_key.hpp"

#include <cstddef>
#include <cstdint>
#include <dirent.h>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv_offload {

/// What the name of a file in a chunk directory says.
struct ChunkName {
  OffloadKey key;
  bool is_quarantined = false;
};
/// nullopt for names that no chunk has. The key's path need not be this one: compare it.
/// @param group_dir  "<hh>_g<group>", the directory the file lies in
[[nodiscard]] std::optional<ChunkName> parse_chunk_name(std::string_view group_dir,
                                                        std::string_view file);

/// Looks at every file below a chunk directory, a few at a time, so that a lane can do it between its
/// turns. Holds at most two open directories. One owner.
class ChunkWalk {
 public:
  struct Found {
    enum class Kind : std::uint8_t { chunk, quarantined, left_over } kind = Kind::chunk;
    OffloadKey key;  ///< not of what a dead writer left over
    std::string path;
    std::uint64_t bytes = 0;
    std::uint64_t modified_us = 0;  ///< since 1970
  };
  /// Chunks for which it answers true are passed over without a look at the file.
  using IsKnown = std::function<bool(const OffloadKey&)>;

  explicit ChunkWalk(std::string chunk_dir) : chunk_dir_(std::move(chunk_dir)) {}

  /// Goes over at most `entries_max` entries and stops at the first that counts. nullopt: none among
  /// them, or the end.
  std::optional<Found> next(std::size_t entries_max, const IsKnown& is_known);
  [[nodiscard]] bool is_over() const { return is_over_; }
  /// Share of the directories that were looked at, 0 to 1.
  [[nodiscard]] double progress() const;
  /// Directories that could not be read.
  [[nodiscard]] std::uint64_t unreadable() const { return unreadable_; }

 private:
  struct Close {
    void operator()(DIR* directory) const { ::closedir(directory); }
  };
  using Directory = std::unique_ptr<DIR, Close>;

  void list_tops();
  bool open_next_top();
  bool open_next_group();
  Directory open_directory(const std::string& path);
  std::optional<Found> look_at(const char* name, const IsKnown& is_known);

  const std::string chunk_dir_;
  bool is_listed_ = false;
  bool is_over_ = false;
  std::vector<std::string> tops_;  // names of the first level: 4096 in the usual layout
  std::size_t next_top_ = 0;
  Directory top_;
  Directory group_;
  std::string top_path_;
  std::string group_name_;
  std::string group_path_;
  std::uint64_t unreadable_ = 0;
};

}  // namespace kv_offload
