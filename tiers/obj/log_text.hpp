#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kv_offload {

/// What a stranger wrote, fit for one line of a log: at most `bytes_max` bytes, and every byte that is not
/// printable ASCII is a '?'. (An escape sequence or a line of one's own would speak in the log's name.)
[[nodiscard]] inline std::string log_text(std::string_view text, std::size_t bytes_max) {
  const bool is_cut = text.size() > bytes_max;
  std::string printable(text.substr(0, bytes_max));
  for (char& c : printable)
    if (c < ' ' || c > '~') c = '?';
  if (is_cut && bytes_max >= 3) printable.replace(bytes_max - 3, 3, "...");
  return printable;
}

}  // namespace kv_offload
