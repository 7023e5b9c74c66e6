#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/fs/file_mapper.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace kv_offload {

/// What the directory of a namespace can do, found out at start.
struct FsDirectory {
  bool is_direct = false;      ///< O_DIRECT works
  std::string why_not_direct;  ///< for the log, if it does not
};

/// nullopt if the root is a directory in which files can be created; else one line for the operator.
/// Creates nothing.
std::optional<OffloadError> check_root_dir(const std::string& root_dir);

/// Creates the namespace's directories and config.json if they are missing, compares config.json if it
/// is there, and tries direct I/O and user attributes on a scratch file.
/// The length of a chunk's file is no part of the public identity, so the chunk directory carries it as
/// an attribute of its own: an engine with rows of another length is refused at start, not told chunk
/// by chunk that everything is corrupt.
/// @param needs_attributes  checksums are on: without user attributes this is an error
Expected<FsDirectory> open_fs_directory(const FileMapper& mapper, bool needs_attributes,
                                        std::uint64_t row_bytes);

/// Decimal digits, on the chunk directory.
inline constexpr const char* kRowBytesAttribute = "user.kv_offload.row_bytes";

}  // namespace kv_offload
