#pragma once

#include "kv_offload/bench/inspect_damage.hpp"
#include "kv_offload/messages/expected.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace kv_offload::bench {

/// Files of one kind, and what they take.
struct FileCount {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;      ///< as long as they say
  std::uint64_t allocated = 0;  ///< on the disk
};

/// One directory of chunks below a root directory.
struct FsNamespaceReport {
  std::string directory;  ///< its name: <model>_<d>_r<rank>
  std::string
      identity;  ///< the fields for people, without the tenant; empty if they cannot be read
  std::uint64_t row_bytes = 0;  ///< as noted on the directory; 0: not noted
  FileCount chunks;             ///< under a chunk's name, those below among them
  FileCount foreign;            ///< without a digest of ours: nothing vouches for them
  FileCount quarantined;
  FileCount being_written;
  FileCount left_over;         ///< by writers that are gone
  FileCount other;             ///< names that no part of a tier gives
  std::uint64_t verified = 0;  ///< digests computed and right
  std::uint64_t purged = 0;
};

struct FsReport {
  std::vector<FsNamespaceReport> namespaces;
  std::uint64_t vanished = 0;  ///< files that went while they were looked at
};

/// Looks below the root directory of a file tier. One-line error if it holds no directory of chunks.
/// @param verify  computes every chunk's digest
/// @param purge   removes quarantined files
Expected<FsReport> inspect_fs(const std::string& root, bool verify, bool purge, DamageList& damage);

}  // namespace kv_offload::bench
