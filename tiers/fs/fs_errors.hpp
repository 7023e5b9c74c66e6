#pragma once

#include <cerrno>

namespace kv_offload {

/// The errno says that there is no such file, and not that it could not be looked at.
inline bool is_absent(int error) { return error == ENOENT || error == ENOTDIR; }

}  // namespace kv_offload
