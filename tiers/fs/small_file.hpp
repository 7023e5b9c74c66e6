#pragma once

#include "kv_offload/messages/expected.hpp"

#include <optional>
#include <string>

namespace kv_offload {

/// The text of a small regular file, nullopt where there is none. Others may have put something else there:
/// never waits for the writer of a pipe, never reads a device, at most 1 MiB. The error names the path.
Expected<std::optional<std::string>> read_small_file(const std::string& path);

}  // namespace kv_offload
