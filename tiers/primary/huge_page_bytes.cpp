#include "kv_offload/tiers/primary/huge_page_bytes.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>

namespace kv_offload {

std::uint64_t huge_page_bytes(const std::byte* base, std::uint64_t bytes,
                              const std::string& smaps) {
  const auto begin = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(base));
  const std::uint64_t end = begin + bytes;
  std::uint64_t overlap = 0;  // of the mapping whose lines are being read
  std::uint64_t total = 0;
  std::ifstream in(smaps);
  for (std::string line; std::getline(in, line);) {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    std::uint64_t kib = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2) {
      from = std::max(from, begin);
      to = std::min(to, end);
      overlap = to > from ? to - from : 0;
    } else if (std::sscanf(line.c_str(), "AnonHugePages: %" SCNu64, &kib) == 1 ||
               std::sscanf(line.c_str(), "ShmemPmdMapped: %" SCNu64, &kib) == 1 ||
               std::sscanf(line.c_str(), "Shared_Hugetlb: %" SCNu64, &kib) == 1 ||
               std::sscanf(line.c_str(), "Private_Hugetlb: %" SCNu64, &kib) == 1) {
      total += std::min(overlap, kib * 1024);
    }
  }
  return total;
}

}  // namespace kv_offload
