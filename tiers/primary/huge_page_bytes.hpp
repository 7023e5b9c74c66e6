#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kv_offload {

/// Bytes of [base, base + bytes) that huge pages back now, transparent ones or reserved ones, from the lines of
/// `smaps`. A mapping that the kernel merged with a neighbour counts at most with its overlap. 0 if the
/// file cannot be read.
[[nodiscard]] std::uint64_t huge_page_bytes(const std::byte* base, std::uint64_t bytes,
                                            const std::string& smaps = "/proc/self/smaps");

}  // namespace kv_offload
