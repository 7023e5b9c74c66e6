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

}  // namespace

Expected<std::unique_ptr<Region>> Region::create(const RegionOptions& options) {
  if (auto error = size_error(options); !error.empty()) return {OffloadErrc::invalid_config, error};
  const std::uint64_t row = row_bytes(options.chunk_bytes);
  const std::string asked = "cpu_bytes_to_use: " + std::to_string(options.num_chunks) +
                            " rows of " + std::to_string(row) + " bytes (" +
                            mib(row * options.num_chunks) + ")";
  if (options.shared && options.reserve_only)
    return {OffloadErrc::invalid_config,
            "reserve_only: true is not allowed for shared memory; expected false"};
  return options.shared ? create_shared(options, asked) : create_private(options, asked);
}

Expected<std::unique_ptr<Region>> Region::create_private(const RegionOptions& options,
                                                         const std::string& asked) {
  const std::uint64_t row = row_bytes(options.chunk_bytes);
  const std::uint64_t bytes = row * options.num_chunks;
  if (!options.reserve_only)
    if (auto error = memory_error(options, asked)) return *error;
  auto region = std::unique_ptr<Region>(new (std::nothrow) Region);
  if (region != nullptr) region->mapping_ = map_region(-1, whole_pages(bytes));
  if (region == nullptr || region->mapping_.base() == nullptr)
    return {OffloadErrc::io_error, asked + " could not be mapped: " + std::strerror(errno)};
  region->view_ = {region->mapping_.base(), row, options.chunk_bytes, options.num_chunks, nullptr};
  if (auto made = region->make_resident(options, asked); !made) return made.error();
  return region;
}

std::optional<OffloadError> Region::memory_error(const RegionOptions& options,
                                                 const std::string& asked) {
  const std::uint64_t bytes = row_bytes(options.chunk_bytes) * options.num_chunks;
  const auto available = options.available_bytes
                             ? AvailableMemory{*options.available_bytes, "the caller"}
                             : available_memory().value_or(AvailableMemory{kBytesMax, "nothing"});
  if (bytes <= available.bytes) return std::nullopt;
  return OffloadError{OffloadErrc::invalid_config,
                      asked + " do not fit into the " + mib(available.bytes) + " available (" +
                          available.limited_by + "); ask for less or free memory"};
}

Expected<Ok> Region::make_resident(const RegionOptions& options, const std::string& asked) {
  in_use_.reset(new (std::nothrow) std::atomic<std::uint32_t>[options.num_chunks]());
  if (in_use_ == nullptr) return {OffloadErrc::io_error, asked + ": no memory for the use counts"};
  view_.in_use = in_use_.get();
  reserve_only_ = options.reserve_only;
  if (reserve_only_) {
    // A stray touch shall cost 4 KiB, also where the system gives huge pages to whoever does not ask.
    ::madvise(view_.base, bytes(), MADV_NOHUGEPAGE);
    return Ok{};
  }
  // Advice only: without huge pages direct reads of 512 KiB and more run at half speed, but they run.
  huge_pages_ = options.huge_pages && ::madvise(view_.base, bytes(), MADV_HUGEPAGE) == 0;
  touch_threads_ = std::clamp<std::uint32_t>(options.threads, 1, kTouchThreadsMax);
  const MonotonicTime begin = options.now ? options.now() : MonotonicTime{};
  if (auto touched = touch(options, asked); !touched) return touched;
  if (options.now) touch_time_ = options.now() - begin;
  return Ok{};
}

Expected<Ok> Region::touch(const RegionOptions& options, const std::string& asked) {
  if (!options.placement.domains.empty()) {
    auto placed = place_rows(view_, options.placement, {page_bytes_, touch_threads_, options.advise});
    if (!placed) return placed.error();
    placed_ = std::move(*placed);
    return Ok{};
  }
  if (const int e =
          touch_pages(view_.base, bytes(), touch_threads_, kHugePageBytes, options.advise);
      e != 0)
    return {OffloadErrc::io_error,
            asked + " could not be made resident: " + std::strerror(e) +
                (e == EFAULT ? " (the file system or the container's memory is full)" : "")};
  return Ok{};
}

Region::~Region() {
  if (leaked_) static_cast<void>(in_use_.release());
}

double Region::huge_page_share() const {
  return static_cast<double>(huge_page_bytes(view_.base, bytes())) / static_cast<double>(bytes());
}

std::string Region::describe() const {
  char text[256];
  std::snprintf(text, sizeof text, "primary region: %u chunks of %llu bytes in rows of %llu, %s, ",
                view_.num_chunks, static_cast<unsigned long long>(view_.payload_bytes),
                static_cast<unsigned long long>(view_.row_bytes), mib(bytes()).c_str());
  std::string line = text;
  if (reserve_only_) return line + "addresses alone: memory comes when a row is touched";
  std::snprintf(text, sizeof text, "huge pages %s (%.0f %% now), touched by %u thread%s",
                huge_pages_ ? "asked for" : "not in use", huge_page_share() * 100, touch_threads_,
                touch_threads_ == 1 ? "" : "s");
  line += text;
  if (touch_time_) {
    std::snprintf(text, sizeof text, " in %.3f s",
                  std::chrono::duration<double>(*touch_time_).count());
    line += text;
  }
  if (!placed_.empty()) line += "; " + to_string(placed_);
  return line + note_;
}

void Region::leak(const std::function<void(std::string)>& log) {
  if (std::exchange(leaked_, true)) return;
  remove_name();
  mapping_.leak();
  const std::string line =
      "primary region: " + mib(bytes()) +
      " stay mapped until the process ends, because an I/O thread did not return";
  if (log)
    log(line);
  else
    std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace kv_offload
