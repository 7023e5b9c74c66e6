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

int touch_part(std::byte* base, std::uint64_t bytes, Madvise advise) {
  while (advise(base, bytes, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR) continue;
    if (errno != EINVAL) return errno;
    // The kernel does not know the advice. Others may write to the page at this moment, so the byte is written
    // back in one step with being read.
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    for (std::uint64_t at = 0; at < bytes; at += page) {
      const std::atomic_ref<unsigned char> byte(*reinterpret_cast<unsigned char*>(base + at));
      for (auto seen = byte.load(); !byte.compare_exchange_weak(seen, seen);) {
      }
    }
    return 0;
  }
  return 0;
}

}  // namespace

int touch_pages(std::byte* base, std::uint64_t bytes, std::uint32_t threads,
                std::uint64_t part_alignment, Madvise advise) {
  if (advise == nullptr) advise = &::madvise;
  const std::uint64_t units = (bytes + part_alignment - 1) / part_alignment;
  const std::uint64_t parts =
      std::clamp<std::uint64_t>(threads, 1, std::max<std::uint64_t>(units, 1));
  const std::uint64_t part = (units + parts - 1) / parts * part_alignment;
  std::atomic<int> error{0};
  const auto work = [&](std::uint64_t begin) {
    if (begin >= bytes) return;
    if (const int e = touch_part(base + begin, std::min(part, bytes - begin), advise); e != 0)
      error = e;
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

int touch_slots(std::byte* base, const SlotPages& slots, Madvise advise) {
  if (advise == nullptr) advise = &::madvise;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  for (std::uint64_t row = 0; row < slots.num_rows; ++row) {
    const std::uint64_t begin = row * slots.row_bytes + slots.slot_offset;
    const std::uint64_t floor = begin / page * page;
    if (const int e = touch_part(base + floor, begin + slots.slot_bytes - floor, advise); e != 0)
      return e;
  }
  return 0;
}

}  // namespace kv_offload
