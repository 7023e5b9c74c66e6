#include "kv_offload/tiers/primary/available_memory.hpp"
#include "kv_offload/tiers/primary/huge_page_bytes.hpp"
#include "kv_offload/tiers/primary/region.hpp"
#include "kv_offload/tiers/primary/touch_pages.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdlib.h>
#include <sys/mman.h>

namespace kv_offload::test {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;

/// A folder of its own that goes away with the test.
struct TempDir {
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "kv_offload_XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~TempDir() { std::filesystem::remove_all(path); }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((path + file).substr(0, (path + file).find_last_of('/')));
    std::ofstream(path + file) << text;
  }
  std::string path;
};

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

TEST_CASE("rows are payloads rounded up to 4096 bytes, zeroed and aligned", "[primary][io]") {
  auto made = Region::create({.num_chunks = 3, .chunk_bytes = 5000, .threads = 2});
  REQUIRE(made.has_value());
  const Region& region = **made;
  const PrimaryView view = region.view();
  CHECK(view.num_chunks == 3);
  CHECK(view.payload_bytes == 5000);
  CHECK(view.row_bytes == 8192);
  CHECK(region.bytes() == 3 * 8192);
  CHECK(reinterpret_cast<std::uintptr_t>(view.base) % Region::kHugePageBytes == 0);
  for (ChunkId c = 0; c < 3; ++c) {
    CHECK(all_zero(view.row(c)));
    CHECK(view.in_use[c].load() == 0);
    std::memset(view.payload(c).data(), 0x5a + static_cast<int>(c), view.payload_bytes);
  }
  for (ChunkId c = 0; c < 3; ++c) {
    CHECK(view.row(c)[0] == static_cast<std::byte>(0x5a + c));
    CHECK(all_zero(view.row(c).subspan(view.payload_bytes)));  // padding
  }
  view.begin_use(1);
  CHECK(view.in_use[1].load() == 1);
  view.end_use(1);
}

TEST_CASE("a region that cannot be is refused in one line that says why", "[primary][io]") {
  struct Case {
    RegionOptions options;
    std::string says;
  };
  const auto c = GENERATE(values<Case>({
      {{.num_chunks = 0, .chunk_bytes = 4096}, "cpu_bytes_to_use: holds 0 chunks of 4096 bytes"},
      {{.num_chunks = 4, .chunk_bytes = 0}, "chunk_bytes: 0 is not allowed"},
      {{.num_chunks = 1'000'000, .chunk_bytes = 1ULL << 50}, "exceed the address space"},
      {{.num_chunks = 1, .chunk_bytes = ~0ULL}, "exceed the address space"},
      {{.num_chunks = 512, .chunk_bytes = 4096, .available_bytes = kMiB},
       "cpu_bytes_to_use: 512 rows of 4096 bytes (2 MiB) do not fit into the 1 MiB available"},
      {{.num_chunks = 4096, .chunk_bytes = 1ULL << 40}, "do not fit into the"},
  }));
  const auto made = Region::create(c.options);
  REQUIRE_FALSE(made.has_value());
  CHECK(made.error().code == OffloadErrc::invalid_config);
  INFO(made.error().detail);
  CHECK(made.error().detail.find(c.says) != std::string::npos);
  CHECK(made.error().detail.find('\n') == std::string::npos);
}

TEST_CASE("a region says what it got", "[primary][io]") {
  MonotonicTime time;
  auto made = Region::create(
      {.num_chunks = 8, .chunk_bytes = kMiB, .threads = 100, .huge_pages = true, .now = [&] {
         return time += std::chrono::milliseconds(250);
       }});
  REQUIRE(made.has_value());
  const std::string line = (*made)->describe();
  INFO(line);
  CHECK(line.find("8 chunks of 1048576 bytes") != std::string::npos);
  CHECK(line.find("8 MiB") != std::string::npos);
  CHECK(line.find("16 threads in 0.250 s") != std::string::npos);
  CHECK((*made)->huge_page_share() >= 0.0);
  CHECK((*made)->huge_page_share() <= 1.0);

  std::ifstream thp("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string mode;
  std::getline(thp, mode);
  if (mode.find("[madvise]") != std::string::npos || mode.find("[always]") != std::string::npos)
    WARN("huge pages: " << (*made)->huge_page_share() * 100 << " %");  // the kernel promises none
}

TEST_CASE("a region that is only reserved has addresses for more rows than there is memory",
          "[primary][io]") {
  // 1 TiB. Whoever asks the kernel to make pages of it resident is refused.
  constexpr ChunkId kRows = 1U << 20;
  RegionOptions options{.num_chunks = kRows, .chunk_bytes = kMiB, .reserve_only = true};
  options.available_bytes = kMiB;
  options.advise = [](void*, std::size_t, int) { return errno = ENOMEM, -1; };
  auto made = Region::create(options);
  REQUIRE(made.has_value());
  const PrimaryView view = (*made)->view();
  unsigned char resident = 1;
  REQUIRE(::mincore(view.row(0).data(), 4096, &resident) == 0);
  CHECK((resident & 1) == 0);
  // Whoever touches a row all the same finds memory: zeroed, kept, and a page at a time.
  std::byte* last = view.row(kRows - 1).data();
  CHECK(last[0] == std::byte{0});
  last[4095] = std::byte{7};
  CHECK(last[4095] == std::byte{7});
  REQUIRE(::mincore(last + 4096, 4096, &resident) == 0);
  CHECK((resident & 1) == 0);
  CHECK(view.in_use[kRows - 1].load() == 0);
  const std::string line = (*made)->describe();
  INFO(line);
  CHECK(line.find("addresses alone: memory comes when a row is touched") != std::string::npos);
}

TEST_CASE("shared memory is not only reserved: whoever maps it relies on it", "[primary][io]") {
  RegionOptions options{.num_chunks = 4, .chunk_bytes = kMiB, .reserve_only = true};
  options.shared = RegionSharing{};
  const auto made = Region::create(options);
  REQUIRE_FALSE(made.has_value());
  CHECK(made.error().detail ==
        "reserve_only: true is not allowed for shared memory; expected false");
}

TEST_CASE("without huge pages the region has none", "[primary][io]") {
  auto made = Region::create({.num_chunks = 4, .chunk_bytes = kMiB, .huge_pages = false});
  REQUIRE(made.has_value());
  CHECK((*made)->describe().find("huge pages not in use") != std::string::npos);
}

TEST_CASE("the mapping ends with the region, unless it was leaked", "[primary][io]") {
  // Whether a page is mapped is asked of the kernel: it refuses to advise on memory that is not there.
  const auto is_mapped = [](std::byte* at) { return ::madvise(at, 4096, MADV_NORMAL) == 0; };
  std::byte* base = nullptr;
  std::atomic<std::uint32_t>* in_use = nullptr;
  std::vector<std::string> log;
  {
    auto made = Region::create({.num_chunks = 2, .chunk_bytes = kMiB});
    REQUIRE(made.has_value());
    base = (*made)->view().base;
    CHECK(is_mapped(base));
  }
  CHECK_FALSE(is_mapped(base));
  {
    auto made = Region::create({.num_chunks = 2, .chunk_bytes = kMiB});
    REQUIRE(made.has_value());
    base = (*made)->view().base;
    in_use = (*made)->view().in_use;
    (*made)->leak([&](std::string line) { log.push_back(std::move(line)); });
    (*made)->leak([&](std::string line) { log.push_back(std::move(line)); });
  }
  REQUIRE(log.size() == 1);
  CHECK(log[0].find("2 MiB stay mapped") != std::string::npos);
  REQUIRE(is_mapped(base));
  std::memset(base, 1, 2 * kMiB);  // what a late transfer would do
  ++in_use[1];
  ::munmap(base, 2 * kMiB);
  delete[] in_use;
}

TEST_CASE("registered buffers are at most 1 GiB and cut no row", "[primary][unit]") {
  constexpr std::uint64_t kGiB = 1ULL << 30;
  struct Case {
    std::uint64_t row;
    ChunkId chunks;
    std::size_t buffers;
  };
  const auto c = GENERATE(values<Case>({
      {4096, 1, 1},
      {2 * kMiB, 512, 1},
      {2 * kMiB, 513, 2},
      {3 * kMiB, 2000, 6},  // 341 rows to a buffer
      {kGiB, 4, 4},
      {kGiB + 4096, 4, 0},  // a row alone is too large
      {16384, 0, 0},
  }));
  CAPTURE(c.row, c.chunks);
  PrimaryView view;
  view.base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);  // never touched
  view.row_bytes = c.row;
  view.payload_bytes = c.row;
  view.num_chunks = c.chunks;
  const RegistrationPlan plan = registration_plan(view);
  REQUIRE(plan.buffers.size() == c.buffers);
  std::uint64_t total = 0;
  for (const auto& b : plan.buffers) {
    CHECK(b.iov_len <= kGiB);
    CHECK(b.iov_len % c.row == 0);
    CHECK(static_cast<std::byte*>(b.iov_base) == view.base + total);  // no gap, no overlap
    total += b.iov_len;
  }
  if (c.buffers == 0) return;
  CHECK(total == c.row * c.chunks);
  for (ChunkId chunk = 0; chunk < c.chunks; ++chunk) {
    const auto& b = plan.buffers.at(plan.buffer_of(chunk));
    REQUIRE(view.row(chunk).data() >= static_cast<std::byte*>(b.iov_base));
    REQUIRE(view.row(chunk).data() + c.row <= static_cast<std::byte*>(b.iov_base) + b.iov_len);
  }
}

TEST_CASE("touching reports what the kernel says", "[primary][io]") {
  auto made = Region::create({.num_chunks = 1, .chunk_bytes = 4096});
  REQUIRE(made.has_value());
  std::byte* base = (*made)->view().base;
  CHECK(touch_pages(base, 4096, 0, Region::kHugePageBytes) == 0);
  made = Region::create({.num_chunks = 2, .chunk_bytes = 4096});
  base = (*made)->view().base;
  ::munmap(base + 4096, 4096);  // a hole
  CHECK(touch_pages(base, 2 * 4096, 1, Region::kHugePageBytes) == ENOMEM);
}

TEST_CASE("available memory is the least that machine and cgroups leave", "[primary][unit]") {
  struct Case {
    std::vector<std::pair<std::string, std::string>> files;
    std::optional<std::uint64_t> bytes;
    std::string limited_by;
  };
  const std::pair<std::string, std::string> meminfo{"/proc/meminfo",
                                                    "MemTotal: 900 kB\nMemAvailable:   800 kB\n"};
  const auto c = GENERATE_COPY(values<Case>({
      {{}, std::nullopt, ""},
      {{meminfo}, 800 * 1024, "MemAvailable"},
      {{meminfo, {"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/memory.max", "max\n"}},
       800 * 1024,
       "MemAvailable"},
      {{meminfo,
        {"/proc/self/cgroup", "0::/a/b\n"},
        {"/sys/fs/cgroup/a/b/memory.max", "max\n"},
        {"/sys/fs/cgroup/a/memory.max", "500000\n"},
        {"/sys/fs/cgroup/a/memory.current", "300000\n"},
        {"/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 100000\n"}},
       300000,
       "/a/memory.max"},
      {{meminfo,
        {"/proc/self/cgroup", "4:cpu,memory:/box\n2:pids:/box\n"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "100\n"},
        {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "400\n"}},
       0,
       "memory.limit_in_bytes"},
      {{meminfo, {"/proc/self/cgroup", "nonsense\n0::\n::\n"}}, 800 * 1024, "MemAvailable"},
  }));
  const TempDir dir;
  for (const auto& [file, text] : c.files) dir.write(file, text);
  const auto got = available_memory(dir.path);
  REQUIRE(got.has_value() == c.bytes.has_value());
  if (!got) return;
  CHECK(got->bytes == *c.bytes);
  CHECK(got->limited_by.find(c.limited_by) != std::string::npos);
}

TEST_CASE("this machine says what is available", "[primary][io]") {
  const auto got = available_memory();
  REQUIRE(got.has_value());
  CHECK(got->bytes > 0);
}

TEST_CASE("huge page bytes are summed over the mappings of a range", "[primary][unit]") {
  const TempDir dir;
  dir.write("/smaps",
            "100000-400000 rw-p 00000000 00:00 0 \nSize: 3072 kB\nAnonHugePages:      2048 kB\n"
            "400000-600000 rw-p 00000000 00:00 0 [anon]\nAnonHugePages:      2048 kB\n"
            "800000-a00000 rw-p 00000000 00:00 0\nAnonHugePages:      2048 kB\n");
  const auto* base = reinterpret_cast<const std::byte*>(std::uintptr_t{0x300000});
  CHECK(huge_page_bytes(base, 0x300000, dir.path + "/smaps") == 0x100000 + 2 * kMiB);
  CHECK(huge_page_bytes(base, 0x300000, dir.path + "/none") == 0);
}

}  // namespace
}  // namespace kv_offload::test
