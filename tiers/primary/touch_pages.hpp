#pragma once

#include <cstddef>
#include <cstdint>

namespace kv_offload {

/// madvise(2), or what stands in for it in tests.
using Madvise = int (*)(void*, std::size_t, int);

/// Makes every page of a mapping resident and writable, with up to `threads` threads at work on disjoint parts that
/// are multiples of `part_alignment`. Changes no byte, whoever else writes there. Blocks until done. 0, or the errno
/// of the first part that failed. A kernel that does not know the advice (EINVAL, and nothing else) is helped by
/// touching each page.
[[nodiscard]] int touch_pages(std::byte* base, std::uint64_t bytes, std::uint32_t threads,
                              std::uint64_t part_alignment, Madvise advise = nullptr);

/// Pages of one rank's slot of each row: from the page that the slot begins in to the slot's end.
struct SlotPages {
  std::uint64_t row_bytes = 0;
  std::uint64_t num_rows = 0;
  std::uint64_t slot_offset = 0;  ///< in the row
  std::uint64_t slot_bytes = 0;
};
/// The same for these pages alone. `base` is the first row.
[[nodiscard]] int touch_slots(std::byte* base, const SlotPages& slots, Madvise advise = nullptr);

}  // namespace kv_offload
