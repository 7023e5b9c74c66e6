#include "kv_offload/tiers/primary/region.hpp"
#include "kv_offload/tiers/primary/touch_pages.hpp"

#include <catch2/catch.hpp>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <sys/mman.h>
#include <utility>
#include <vector>

namespace kv_offload::test {
namespace {

constexpr std::uint64_t kPage = 4096;

/// What was asked of the kernel. A function pointer has no state of its own.
std::mutex asked_mutex;
std::vector<std::pair<void*, std::size_t>> asked;
int note(void* at, std::size_t bytes) {
  const std::scoped_lock lock(asked_mutex);
  asked.emplace_back(at, bytes);
  return 0;
}
std::vector<std::pair<void*, std::size_t>> take_asked() {
  const std::scoped_lock lock(asked_mutex);
  return std::exchange(asked, {});
}
int obey(void* at, std::size_t bytes, int) { return note(at, bytes); }
int not_known(void* at, std::size_t bytes, int) {
  note(at, bytes);
  errno = EINVAL;
  return -1;
}
int no_memory(void* at, std::size_t bytes, int) {
  note(at, bytes);
  errno = ENOMEM;
  return -1;
}
int interrupted_once(void* at, std::size_t bytes, int) {
  note(at, bytes);
  const std::scoped_lock lock(asked_mutex);
  errno = EINTR;
  return asked.size() == 1 ? -1 : 0;
}

struct Memory {
  explicit Memory(std::uint64_t size) : bytes(size) {
    base = static_cast<std::byte*>(
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    // Small pages alone, so that each page is resident for itself.
    ::madvise(base, size, MADV_NOHUGEPAGE);
  }
  ~Memory() { ::munmap(base, bytes); }
  [[nodiscard]] std::vector<bool> resident() const {
    std::vector<unsigned char> in(bytes / kPage);
    ::mincore(base, bytes, in.data());
    return {in.begin(), in.end()};
  }
  std::byte* base;
  std::uint64_t bytes;
};

TEST_CASE("a kernel that knows the advice is asked and nothing else is done", "[primary][unit]") {
  take_asked();
  const Memory memory(16 * kPage);
  CHECK(touch_pages(memory.base, 16 * kPage, 4, kPage, &obey) == 0);
  std::uint64_t bytes = 0;
  for (const auto& [at, size] : take_asked()) bytes += size;
  CHECK(bytes == 16 * kPage);
  for (const bool in : memory.resident()) CHECK_FALSE(in);  // no byte was touched
}

TEST_CASE("a kernel that does not know the advice has every page touched, of the whole region",
          "[primary][unit]") {
  take_asked();
  const Memory memory(16 * kPage);
  std::memset(memory.base + 5 * kPage, 0x5a, kPage);
  CHECK(touch_pages(memory.base, 16 * kPage, 3, kPage, &not_known) == 0);
  for (const bool in : memory.resident()) CHECK(in);
  for (std::uint64_t i = 0; i < 16 * kPage; ++i)
    if (memory.base[i] != (i / kPage == 5 ? std::byte{0x5a} : std::byte{0}))
      FAIL("byte " << i << " changed");
}

TEST_CASE("a kernel that does not know the advice has every page of a rank's slots touched",
          "[primary][unit]") {
  take_asked();
  // Rows of 4 pages; the slot begins in the middle of page 1 and ends in page 2.
  const Memory memory(12 * kPage);
  CHECK(touch_slots(memory.base, {4 * kPage, 3, kPage + 100, kPage}, &not_known) == 0);
  const auto in = memory.resident();
  for (std::size_t page = 0; page < 12; ++page) {
    CAPTURE(page);
    CHECK(in[page] == (page % 4 == 1 || page % 4 == 2));
  }
  const auto ranges = take_asked();
  REQUIRE(ranges.size() == 3);
  for (std::size_t row = 0; row < 3; ++row) {
    CHECK(ranges[row].first ==
          memory.base + (4 * row + 1) * kPage);  // the page that the slot begins in
    CHECK(ranges[row].second == 100 + kPage);    // to the slot's very end
  }
}

TEST_CASE("an error that is not about the advice is told, and no page is touched instead",
          "[primary][unit]") {
  take_asked();
  const Memory memory(4 * kPage);
  CHECK(touch_pages(memory.base, 4 * kPage, 1, kPage, &no_memory) == ENOMEM);
  CHECK(touch_slots(memory.base, {kPage, 4, 0, kPage}, &no_memory) == ENOMEM);
  CHECK(take_asked().size() == 2);  // and the first failure is the last try
  for (const bool in : memory.resident()) CHECK_FALSE(in);
}

TEST_CASE("a signal in the middle is no error", "[primary][unit]") {
  take_asked();
  const Memory memory(kPage);
  CHECK(touch_pages(memory.base, kPage, 1, kPage, &interrupted_once) == 0);
  CHECK(take_asked().size() == 2);
}

TEST_CASE("the kernel makes slots resident as asked", "[primary][io]") {
  const Memory memory(8 * kPage);
  std::memset(memory.base + kPage, 7, 10);
  CHECK(touch_slots(memory.base, {4 * kPage, 2, kPage, 2 * kPage}) == 0);
  const auto in = memory.resident();
  for (std::size_t page = 0; page < 8; ++page) CHECK(in[page] == (page % 4 == 1 || page % 4 == 2));
  CHECK(memory.base[kPage + 9] == std::byte{7});
}

}  // namespace
}  // namespace kv_offload::test
