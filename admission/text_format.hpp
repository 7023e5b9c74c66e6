#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <string>

namespace kv_offload {

/// printf into a string, checked by the compiler; what is too long for a line of a report is cut.
[[gnu::format(printf, 1, 2)]] inline std::string formatted(const char* pattern, ...) {
  char text[512];
  std::va_list args;
  va_start(args, pattern);
  const int length = std::vsnprintf(text, sizeof text, pattern, args);
  va_end(args);
  return length < 0 ? std::string() : std::string(text);
}

/// A count as `%llu` wants it.
inline unsigned long long count(std::uint64_t n) { return n; }

}  // namespace kv_offload
