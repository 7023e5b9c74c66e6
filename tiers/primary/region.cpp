#include "kv_offload/tiers/primary/region.hpp"

#include "kv_offload/tiers/primary/available_memory.hpp"
#include "kv_offload/tiers/primary/huge_page_bytes.hpp"
#include "kv_offload/tiers/primary/touch_pages.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace kv_offload {
namespace {

constexpr std::uint64_t kBytesMax = std::numeric_limits<std::int64_t>::max();

std::string mib(std::uint64_t bytes) {
  if (bytes < 1024 * 1024) return std::to_string(bytes / 1024) + " KiB";
  return std::to_string(bytes / (1024 * 1024)) + " MiB";
}

/// What the sizes alone forbid; empty if nothing.
std::string size_error(const RegionOptions& o) {
  if (o.chunk_bytes == 0) return "chunk_bytes: 0 is not allowed; expected at least 1";
  if (o.num_chunks == 0 || o.num_chunks == kNoChunk)
    return "cpu_bytes_to_use: holds " + std::to_string(o.num_chunks) + " chunks of " +
           std::to_string(o.chunk_bytes) + " bytes; expected 1 to " + std::to_string(kNoChunk - 1);
  if (o.chunk_bytes > kBytesMax - Region::kRowAlignment ||
      Region::row_bytes(o.chunk_bytes) > (kBytesMax - Region::kHugePageBytes) / o.num_chunks)
    return "cpu_bytes_to_use: " + std::to_string(o.num_chunks) + " chunks of " +
           std::to_string(o.chunk_bytes) + " bytes exceed the address space";
  return {};
}

std::uint64_t whole_pages(std::uint64_t bytes) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

/// Maps `bytes` (whole pages), 2 MiB aligned; nullptr with errno if the system refuses.
std::byte* map_aligned(std::uint64_t bytes) {
  const std::uint64_t asked = bytes + Region::kHugePageBytes;
  void* got = ::mmap(nullptr, asked, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(got);
  const std::uintptr_t aligned =
      (begin + Region::kHugePageBytes - 1) / Region::kHugePageBytes * Region::kHugePageBytes;
  if (aligned > begin) ::munmap(got, aligned - begin);
  const std::uintptr_t end = aligned + bytes;
  if (begin + asked > end) ::munmap(reinterpret_cast<void*>(end), begin + asked - end);
  return reinterpret_cast<std::byte*>(aligned);
}

}  // namespace

Expected<std::unique_ptr<Region>> Region::create(const RegionOptions& options) {
  if (auto error = size_error(options); !error.empty()) return {OffloadErrc::invalid_config, error};
  const std::uint64_t row = row_bytes(options.chunk_bytes);
  const std::uint64_t bytes = row * options.num_chunks;
  const std::string asked = "cpu_bytes_to_use: " + std::to_string(options.num_chunks) +
                            " rows of " + std::to_string(row) + " bytes (" + mib(bytes) + ")";
  const auto available = options.available_bytes
                             ? AvailableMemory{*options.available_bytes, "the caller"}
                             : available_memory().value_or(AvailableMemory{kBytesMax, "nothing"});
  if (bytes > available.bytes)
    return {OffloadErrc::invalid_config, asked + " do not fit into the " + mib(available.bytes) +
                                             " available (" + available.limited_by +
                                             "); ask for less or free memory"};

  auto region = std::unique_ptr<Region>(new (std::nothrow) Region);
  std::byte* base = region == nullptr ? nullptr : map_aligned(whole_pages(bytes));
  if (base == nullptr)
    return {OffloadErrc::io_error, asked + " could not be mapped: " + std::strerror(errno)};
  region->mapped_bytes_ = whole_pages(bytes);
  region->view_ = {base, row, options.chunk_bytes, options.num_chunks, nullptr};
  region->in_use_.reset(new (std::nothrow) std::atomic<std::uint32_t>[options.num_chunks]());
  if (region->in_use_ == nullptr)
    return {OffloadErrc::io_error, asked + ": no memory for the use counts"};
  region->view_.in_use = region->in_use_.get();

  // Advice only: without huge pages direct reads of 512 KiB and more run at half speed, but they run.
  region->huge_pages_ = options.huge_pages && ::madvise(base, bytes, MADV_HUGEPAGE) == 0;
  ::madvise(base, bytes, MADV_DONTDUMP);  // a core file should not be as large as the cache
  ::madvise(base, bytes, MADV_DONTFORK);  // a child of fork must not copy pages under running I/O
  region->touch_threads_ = std::clamp<std::uint32_t>(options.threads, 1, kTouchThreadsMax);
  const MonotonicTime begin = options.now ? options.now() : MonotonicTime{};
  if (const int e = touch_pages(base, bytes, region->touch_threads_, kHugePageBytes); e != 0)
    return {OffloadErrc::io_error, asked + " could not be made resident: " + std::strerror(e)};
  if (options.now) region->touch_time_ = options.now() - begin;
  return region;
}

Region::~Region() {
  if (leaked_)
    static_cast<void>(in_use_.release());
  else if (view_.base != nullptr)
    ::munmap(view_.base, mapped_bytes_);
}

double Region::huge_page_share() const {
  return static_cast<double>(huge_page_bytes(view_.base, mapped_bytes_)) /
         static_cast<double>(mapped_bytes_);
}

std::string Region::describe() const {
  char text[256];
  std::snprintf(
      text, sizeof text,
      "primary region: %u chunks of %llu bytes in rows of %llu, %s, huge pages %s (%.0f %% now), "
      "touched by %u thread%s",
      view_.num_chunks, static_cast<unsigned long long>(view_.payload_bytes),
      static_cast<unsigned long long>(view_.row_bytes), mib(bytes()).c_str(),
      huge_pages_ ? "asked for" : "not in use", huge_page_share() * 100, touch_threads_,
      touch_threads_ == 1 ? "" : "s");
  std::string line = text;
  if (touch_time_) {
    std::snprintf(text, sizeof text, " in %.3f s",
                  std::chrono::duration<double>(*touch_time_).count());
    line += text;
  }
  return line;
}

void Region::leak(const std::function<void(std::string)>& log) {
  if (std::exchange(leaked_, true)) return;
  const std::string line =
      "primary region: " + mib(bytes()) +
      " stay mapped until the process ends, because an I/O thread did not return";
  if (log)
    log(line);
  else
    std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace kv_offload
