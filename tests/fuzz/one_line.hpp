#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace kv_offload::fuzz {

/// Fit for a log: printable ASCII alone, and no longer than that.
inline bool is_one_line(std::string_view text, std::size_t bytes_max) {
  return text.size() <= bytes_max &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace kv_offload::fuzz
