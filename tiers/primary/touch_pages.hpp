#pragma once

#include <cstddef>
#include <cstdint>

namespace kv_offload {

/// Makes every page of a fresh, zeroed, private mapping resident, with up to `threads` threads at work on
/// disjoint parts that are multiples of `part_alignment`. Blocks until done. 0, or the errno of the first
/// part that failed.
[[nodiscard]] int touch_pages(std::byte* base, std::uint64_t bytes, std::uint32_t threads,
                              std::uint64_t part_alignment);

}  // namespace kv_offload
