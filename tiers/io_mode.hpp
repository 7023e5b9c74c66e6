#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kv_offload {

/// How a tier's lanes do their I/O: the key `io` of the configuration.
enum class IoMode : std::uint8_t {
  automatic,  ///< "auto": io_uring, and threads where the kernel or the container forbids it
  uring,      ///< io_uring, or no start
  threads,    ///< plain system calls on a pool of threads
};

/// Its words in the configuration, in the order of the values.
inline constexpr std::array<std::string_view, 3> kIoModeNames{{"auto", "uring", "threads"}};

inline std::optional<IoMode> io_mode_of(std::string_view name) {
  for (std::size_t i = 0; i < kIoModeNames.size(); ++i)
    if (kIoModeNames[i] == name) return static_cast<IoMode>(i);
  return std::nullopt;
}

}  // namespace kv_offload
