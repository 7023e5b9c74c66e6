#pragma once

namespace kv_offload {

/// Value of a lower-case hex digit; -1 of any other character.
constexpr int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace kv_offload
