#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace kv_offload {

/// SHA-256 of the bytes, for names and signatures; chunks have their own digest (digest.hpp).
[[nodiscard]] std::array<std::byte, 32> sha256(std::span<const std::byte> bytes);

/// The same as 64 lower-case hex digits.
[[nodiscard]] std::string sha256_hex(std::span<const std::byte> bytes);
[[nodiscard]] std::string sha256_hex(std::string_view text);

}  // namespace kv_offload
