#pragma once

#include <cstddef>
#include <cstdint>

namespace kv_offload {

/// Highest node number that masks have a bit for: what Linux can be built for.
inline constexpr std::uint32_t kNodesMax = 1024;

/// Says where pages of a mapping come from that nobody has touched yet; private memory and shared (a memfd, a file on
/// tmpfs; for every process that maps it). `base` and `bytes` are multiples of the mapping's page size. 0 or errno:
/// EINVAL for a node that the process's cpuset excludes, EPERM or ENOSYS where a container forbids the call.
///
/// From that node alone, so that the kernel gives up page cache there before it looks elsewhere. If there is nothing to
/// give up it kills a process: ask how much there is first, and `loosen_memory` when every page is there.
[[nodiscard]] int bind_memory(std::byte* base, std::uint64_t bytes, std::uint32_t node);

/// From that node if it has any, else from another: for a page that was swapped out, when it comes back. Moves nothing.
[[nodiscard]] int loosen_memory(std::byte* base, std::uint64_t bytes, std::uint32_t node);

/// Where pages lie.
struct PagesFound {
  std::uint64_t asked = 0;
  std::uint64_t on_node = 0;
  std::uint64_t elsewhere = 0;
  std::uint64_t absent = 0;  ///< not in memory: never touched, or swapped out
  int error = 0;             ///< errno; nothing else counts then
};

/// Asks the kernel (move_pages(2), which moves nothing here) for every page of the range, or, where it has more than
/// `pages_max`, for that many at even distances. One system call for 1024 pages; about 0.1 us per page. Any thread.
[[nodiscard]] PagesFound find_pages(const std::byte* base, std::uint64_t bytes, std::uint32_t node,
                                    std::uint64_t pages_max = 1ULL << 18);

}  // namespace kv_offload
