#include "kv_offload/tiers/topology/place_memory.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kv_offload {
namespace {

constexpr std::size_t kBatchPages = 1024;
constexpr std::size_t kWordBits = sizeof(unsigned long) * CHAR_BIT;

int set_policy(std::byte* base, std::uint64_t bytes, std::uint32_t node, int policy) {
  if (node >= kNodesMax) return EINVAL;
  if (bytes == 0) return 0;
  std::array<unsigned long, kNodesMax / kWordBits> nodes{};
  nodes[node / kWordBits] = 1UL << (node % kWordBits);
  // The kernel takes one bit less than it is told.
  const long done = ::syscall(SYS_mbind, base, bytes, policy, nodes.data(), kNodesMax + 1UL, 0U);
  return done == 0 ? 0 : errno;
}

}  // namespace

int bind_memory(std::byte* base, std::uint64_t bytes, std::uint32_t node) {
  return set_policy(base, bytes, node, MPOL_BIND);
}

int loosen_memory(std::byte* base, std::uint64_t bytes, std::uint32_t node) {
  return set_policy(base, bytes, node, MPOL_PREFERRED);
}

PagesFound find_pages(const std::byte* base, std::uint64_t bytes, std::uint32_t node,
                      std::uint64_t pages_max) {
  PagesFound found;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t pages = (bytes + page - 1) / page;
  const std::uint64_t asked = std::min(pages, std::max<std::uint64_t>(pages_max, 1));
  std::array<void*, kBatchPages> addresses{};
  std::array<int, kBatchPages> where{};
  for (std::uint64_t begin = 0; begin < asked; begin += kBatchPages) {
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(kBatchPages, asked - begin));
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t n = begin + i;
      const std::uint64_t at = pages / asked * n + pages % asked * n / asked;
      addresses[i] = const_cast<std::byte*>(base) + at * page;
    }
    if (::syscall(SYS_move_pages, 0, count, addresses.data(), nullptr, where.data(), 0) != 0)
      return {.error = errno};
    for (std::size_t i = 0; i < count; ++i) {
      ++found.asked;
      if (where[i] < 0)
        ++found.absent;
      else if (static_cast<std::uint32_t>(where[i]) == node)
        ++found.on_node;
      else
        ++found.elsewhere;
    }
  }
  return found;
}

}  // namespace kv_offload
