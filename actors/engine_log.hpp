#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace kv_offload {

using LogFunction = std::function<void(std::string_view level, const std::string& line)>;

/// One line per call to `host`, or to standard error if it is empty; lines below `min_level` ("debug",
/// "info", "warn", "error", "off") are dropped. Callable from any thread.
LogFunction make_log(const std::string& min_level,
                     std::function<void(const std::string& level, const std::string& line)> host);

}  // namespace kv_offload
