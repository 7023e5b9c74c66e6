#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/fs/chunk_walk.hpp"
#include "kv_offload/tiers/fs/file_mapper.hpp"
#include "kv_offload/tiers/fs/fs_residency.hpp"
#include "kv_offload/tiers/fs/residency_file.hpp"
#include "kv_offload/tiers/fs/run_marker.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

/// The chunk directory of one namespace and revision, as far as it counts against a capacity. One owner.
struct FsNamespace {
  struct SetAside {
    OffloadKey key;
    std::uint64_t bytes = 0;
  };

  explicit FsNamespace(FileMapper of) : mapper(std::move(of)) {}

  FileMapper mapper;
  std::string revision;
  std::uint64_t row_bytes = 0;
  std::size_t chunks_max = 0;  ///< known at once, without those that are leaving
  std::unique_ptr<FsResidency> residency;
  std::deque<SetAside> set_aside;  ///< quarantined files, the longest there first
  std::uint64_t set_aside_bytes = 0;
  std::optional<ChunkWalk> walk;  ///< what lies there besides is being looked for
  bool is_verifying = false;      ///< what the record names in vain is being looked for
  ChunkId verify_at = 0;
  RunMarker marker;

  [[nodiscard]] std::uint64_t bytes() const { return residency->bytes() + set_aside_bytes; }
  [[nodiscard]] bool is_searching() const { return walk.has_value() || is_verifying; }
  [[nodiscard]] ResidencyHeader header() const;
  [[nodiscard]] std::vector<ResidencyEntry> set_aside_entries() const;
  [[nodiscard]] std::string record_path() const {
    return mapper.chunk_dir() + "/" + kResidencyFile;
  }
};

struct FsNamespaceWanted {
  std::string policy = "lru";
  std::uint64_t capacity_bytes = 0;
  std::uint64_t row_bytes = 0;
  std::uint64_t now_us = 0;  ///< since 1970
};

/// Files on their way out at once: an eighth of the chunks, 4 to 64. More would not make a disk faster,
/// and each of them keeps its slot.
[[nodiscard]] std::size_t leaving_max(std::uint64_t capacity_bytes, std::uint64_t row_bytes);

/// Reads the record of a chunk directory that exists, and marks the directory as in use. Where the
/// record is missing, damaged or not the last word, a walk follows.
/// @param revisions  gets those whose chunks the record says count, too
/// @param log        one line for operators, where there is something to say
Expected<std::unique_ptr<FsNamespace>> open_fs_namespace(
    const FileMapper& mapper, const std::string& revision, const FsNamespaceWanted& wanted,
    std::vector<std::string>& revisions, const std::function<void(const std::string&)>& log);

/// Writes the record and takes the mark away. 0 or errno; then the mark stays, and the next start looks
/// at every file.
int close_fs_namespace(FsNamespace& ns, const std::vector<std::string>& revisions);

}  // namespace kv_offload
