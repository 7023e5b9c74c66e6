#include "kv_offload/tiers/primary/touch_pages.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <sys/mman.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

namespace kv_offload {
namespace {

#ifndef MADV_POPULATE_WRITE
constexpr int MADV_POPULATE_WRITE = 23;  // Linux 5.14; the C library may be older than the kernel
#endif

int touch_part(std::byte* base, std::uint64_t bytes) {
  while (::madvise(base, bytes, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR) continue;
    if (errno != EINVAL) return errno;
    // The kernel does not know the advice. The mapping is new and ours alone, so that writing the zero
    // that is there already changes nothing.
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    for (std::uint64_t at = 0; at < bytes; at += page)
      *const_cast<volatile std::byte*>(base + at) = std::byte{0};
    return 0;
  }
  return 0;
}

}  // namespace

int touch_pages(std::byte* base, std::uint64_t bytes, std::uint32_t threads,
                std::uint64_t part_alignment) {
  const std::uint64_t units = (bytes + part_alignment - 1) / part_alignment;
  const std::uint64_t parts =
      std::clamp<std::uint64_t>(threads, 1, std::max<std::uint64_t>(units, 1));
  const std::uint64_t part = (units + parts - 1) / parts * part_alignment;
  std::atomic<int> error{0};
  const auto work = [&](std::uint64_t begin) {
    if (begin >= bytes) return;
    if (const int e = touch_part(base + begin, std::min(part, bytes - begin)); e != 0) error = e;
  };
  std::vector<std::thread> workers;
  for (std::uint64_t i = 1; i < parts; ++i) {
    try {
      workers.emplace_back(work, i * part);
    } catch (const std::system_error&) {  // no thread to be had: do it here
      work(i * part);
    }
  }
  work(0);
  for (auto& w : workers) w.join();
  return error;
}

}  // namespace kv_offload
