#pragma once

#include <optional>
#include <string>
#include <vector>

namespace kv_offload::bench {

using TableRows = std::vector<std::vector<std::string>>;  ///< the first row is the heading

/// Appends tables to a file, if one is named. Error text if it cannot be written.
std::optional<std::string> append_markdown(const std::optional<std::string>& file,
                                           const std::vector<TableRows>& tables);

}  // namespace kv_offload::bench
