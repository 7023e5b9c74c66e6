#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tests/workers/left_behind.hpp"
#include "kv_offload/tiers/primary/joined_region.hpp"
#include "kv_offload/tiers/primary/region.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kv_offload::test {
namespace {

RegionOptions options_for(const std::string& file = "", std::uint32_t world_size = 2) {
  RegionOptions options;
  options.num_chunks = 4;
  options.chunk_bytes = 10000;
  options.threads = 1;
  RegionSharing sharing;
  sharing.record.engine_id = "engine-a";
  sharing.record.world_size = world_size;
  sharing.record.fingerprint = "f1";
  sharing.record.revision = "r1";
  sharing.file = file;
  options.shared = sharing;
  return options;
}

std::unique_ptr<Region> make(const RegionOptions& options) {
  auto made = Region::create(options);
  INFO((made ? "" : made.error().detail));
  REQUIRE(made.has_value());
  return std::move(*made);
}

Expected<std::unique_ptr<JoinedRegion>> adopt(int fd, const RegionRecord& record,
                                              const JoinedRegion::Who& who, bool is_sealed = true) {
  return JoinedRegion::adopt({UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)), record, is_sealed}, who);
}

TEST_CASE("a shared region is zeroed rows behind a page that says whose they are",
          "[primary][io]") {
  const auto region = make(options_for());
  const PrimaryView view = region->view();
  CHECK(view.row_bytes == 12288);
  CHECK(view.payload_bytes == 10000);
  CHECK(reinterpret_cast<std::uintptr_t>(view.base) % Region::kHugePageBytes == 0);
  for (ChunkId c = 0; c < 4; ++c) {
    CHECK(view.in_use[c] == 0);
    for (const auto byte : view.row(c))
      if (byte != std::byte{0}) FAIL("a row is not zeroed");
  }
  struct stat file {};
  REQUIRE(::fstat(region->fd(), &file) == 0);
  CHECK(static_cast<std::uint64_t>(file.st_size) == kRegionRowsOffset + 4 * 12288);
  CHECK(file.st_nlink == 0);  // no name anywhere
  std::array<std::byte, kRegionHeaderBytes> page{};
  REQUIRE(::pread(region->fd(), page.data(), page.size(), 0) == 4096);
  const auto header = parse_header(page);
  REQUIRE(header);
  CHECK(header->ready);
  CHECK(header->record->engine_id == "engine-a");
  CHECK(header->record->owner == mark_of_this_process());
  CHECK(header->record->num_chunks == 4);
  CHECK(header->record->row_bytes == 12288);
  CHECK(region->describe().find("shared, in memory without a name") != std::string::npos);
}

TEST_CASE("memory without a name cannot be cut or grown, and goes to no program that is started",
          "[primary][io]") {
  const auto region = make(options_for());
  CHECK(::ftruncate(region->fd(), 4096) != 0);
  CHECK(errno == EPERM);
  CHECK(::ftruncate(region->fd(), 1 << 30) != 0);
  CHECK((::fcntl(region->fd(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(::fcntl(region->fd(), F_ADD_SEALS, 0) != 0);  // nor sealed further
}

TEST_CASE("a private region has neither descriptor nor record", "[primary][io]") {
  auto made = Region::create({.num_chunks = 1, .chunk_bytes = 4096});
  REQUIRE(made);
  CHECK((*made)->fd() == -1);
  CHECK((*made)->record() == nullptr);
  CHECK_FALSE((*made)->all_joined());
  CHECK((*made)->describe().find("shared") == std::string::npos);
}

TEST_CASE("what owner and joiner write, the other reads", "[primary][io]") {
  const auto region = make(options_for());
  auto joined = adopt(region->fd(), *region->record(),
                      {1, {"engine-a", 0, 2, 1, ChunkLayout::sharded, "f1", "r1"}});
  REQUIRE(joined);
  const PrimaryView there = (*joined)->view();
  CHECK(there.in_use == nullptr);
  CHECK(there.row_bytes == 12288);
  CHECK(there.num_chunks == 4);
  REQUIRE(there.base != region->view().base);
  REQUIRE((*joined)->populate(5000, 5000));
  std::memset(region->view().row(2).data(), 0x11, 100);
  std::memset(there.row(3).data() + 5000, 0x22, 100);
  CHECK(there.row(2)[99] == std::byte{0x11});
  CHECK(region->view().row(3)[5099] == std::byte{0x22});
  CHECK(region->view().row(3)[4999] == std::byte{0});
  CHECK(region->view().row(3)[5100] == std::byte{0});
}

TEST_CASE("a joiner's slots become resident and keep their bytes", "[primary][io]") {
  static int refuse_the_advice = 0;
  const auto advise = [](void* at, std::size_t bytes, int advice) {
    if (refuse_the_advice == 0) return ::madvise(at, bytes, advice);
    errno = refuse_the_advice;
    return -1;
  };
  refuse_the_advice = GENERATE(0, EINVAL, ENOMEM);
  CAPTURE(refuse_the_advice);
  const auto region = make(options_for());
  for (ChunkId c = 0; c < 4; ++c)
    std::memset(region->view().row(c).data(), 0x30 + static_cast<int>(c), 10000);
  auto joined = adopt(region->fd(), *region->record(), {0, {}});
  REQUIRE(joined);
  const auto populated = (*joined)->populate(0, 5000, advise);
  CHECK(populated.has_value() == (refuse_the_advice != ENOMEM));
  if (!populated)
    CHECK(populated.error().detail.find("Cannot allocate memory") != std::string::npos);
  for (ChunkId c = 0; c < 4; ++c)
    for (std::size_t i = 0; i < 10000; ++i)
      if (region->view().row(c)[i] != static_cast<std::byte>(0x30 + c))
        FAIL("byte " << i << " of row " << c << " changed");
  CHECK_FALSE((*joined)->populate(8000, 5000));  // beyond the row
}

TEST_CASE("the owner's pages fall back alike, and an unexpected error leaves nothing",
          "[primary][io]") {
  TierDirectory dir;
  const std::string file = dir.path() + "/rows";
  static int code = 0;
  auto options = options_for(GENERATE(true, false) ? file : "");
  options.advise = [](void*, std::size_t, int) {
    errno = code;
    return -1;
  };
  const auto before = Holdings::now(dir.path(), "engine-a");
  code = EINVAL;
  {
    const auto region = make(options);
    CHECK(region->view().row(3)[0] == std::byte{0});
  }
  code = GENERATE(ENOMEM, EFAULT);
  const auto failed = Region::create(options);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().detail.find("could not be made resident: " +
                                   std::string(std::strerror(code))) != std::string::npos);
  CHECK(Holdings::now(dir.path(), "engine-a").beyond(before) == "");
}

TEST_CASE("each thing that is not as the joiner insists is a named error, and nothing is adopted",
          "[primary][io]") {
  const auto region = make(options_for());
  struct Case {
    std::function<void(JoinedRegion::Who&, RegionRecord&)> change;
    std::string says;
  };
  const auto c = GENERATE(values<Case>({
      {[](auto& w, auto&) { w.expected.engine_id = "engine-b"; },
       "engine_id: found \"engine-a\", expected \"engine-b\""},
      {[](auto& w, auto&) { w.expected.revision = "r2"; },
       "revision: found \"r1\", expected \"r2\""},
      {[](auto& w, auto&) { w.expected.fingerprint = "f2"; },
       "fingerprint: found \"f1\", expected \"f2\""},
      {[](auto& w, auto&) { w.expected.world_size = 4; }, "world_size: found 2, expected 4"},
      {[](auto& w, auto&) { w.expected.blocks_per_chunk = 9; },
       "blocks_per_chunk: found 1, expected 9"},
      {[](auto& w, auto&) { w.expected.chunk_bytes = 1; }, "chunk_bytes: found 10000, expected 1"},
      {[](auto& w, auto&) { w.expected.layout = ChunkLayout::replicated; },
       "layout: found \"sharded\", expected \"replicated\""},
      {[](auto& w, auto&) { w.rank = 2; }, "rank: 2; expected 0 to 1"},
      {[](auto&, auto& sent) { sent.owner.start_ticks += 1; }, "owner: found pid"},
      {[](auto&, auto& sent) { sent.engine_id = "x"; },
       "engine_id: found \"engine-a\", expected \"x\""},
      {[](auto&, auto& sent) { sent.num_chunks = 3; }, "num_chunks: found 4, expected 3"},
  }));
  JoinedRegion::Who who;
  RegionRecord sent = *region->record();
  c.change(who, sent);
  const auto before = Holdings::now("", "engine-a");
  const auto joined = adopt(region->fd(), sent, who);
  REQUIRE_FALSE(joined);
  INFO(joined.error().detail);
  CHECK(joined.error().detail.find("region: " + c.says) == 0);
  CHECK(Holdings::now("", "engine-a").beyond(before) == "");
}

TEST_CASE("a descriptor that could be cut under a joiner is not mapped", "[primary][io]") {
  const auto region = make(options_for());
  std::array<std::byte, kRegionHeaderBytes> page{};
  REQUIRE(::pread(region->fd(), page.data(), page.size(), 0) == 4096);
  const RegionRecord record = *region->record();
  const auto copy = [&](std::uint64_t bytes) {
    UniqueFd fd(::memfd_create("kv_offload copy", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
    if (bytes >= 4096) REQUIRE(::pwrite(fd.get(), page.data(), page.size(), 0) == 4096);
    return fd;
  };
  const std::uint64_t whole = kRegionRowsOffset + 4 * 12288;
  auto unsealed = copy(whole);
  auto joined = adopt(unsealed.get(), record, {});
  REQUIRE_FALSE(joined);
  CHECK(joined.error().detail == "region: the descriptor is not sealed against shrinking");
  CHECK(adopt(unsealed.get(), record, {}, false));  // one with a name never is
  joined = adopt(copy(whole - 4096).get(), record, {}, false);
  REQUIRE_FALSE(joined);
  CHECK(joined.error().detail.find("file size: found") != std::string::npos);
  joined = adopt(copy(1000).get(), record, {}, false);
  REQUIRE_FALSE(joined);
  CHECK(joined.error().detail.find("shorter than its first page") != std::string::npos);
  page[300] ^= std::byte{1};
  joined = adopt(copy(whole).get(), record, {}, false);
  REQUIRE_FALSE(joined);
  CHECK(joined.error().detail.find("checksum") != std::string::npos);
  page[0] = std::byte{'X'};
  joined = adopt(copy(whole).get(), record, {}, false);
  REQUIRE_FALSE(joined);
  CHECK(joined.error().detail.find("is not one of ours") != std::string::npos);
  joined =
      JoinedRegion::adopt({UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC)), record, false}, {});
  REQUIRE_FALSE(joined);
}

TEST_CASE("a new revision is what later joiners find", "[primary][io]") {
  const auto region = make(options_for());
  region->set_revision("r2");
  RegionExpectation expected;
  expected.revision = "r1";
  CHECK_FALSE(adopt(region->fd(), *region->record(), {0, expected}));
  expected.revision = "r2";
  CHECK(adopt(region->fd(), *region->record(), {0, expected}));
}

TEST_CASE("a region's end takes mapping and descriptor, in its owner and in its joiner",
          "[primary][io]") {
  const auto before = Holdings::now("", "engine-a");
  {
    auto region = make(options_for());
    auto joined = adopt(region->fd(), *region->record(), {});
    REQUIRE(joined);
    CHECK(Holdings::now("", "engine-a").beyond(before) != "");
    const auto there = (*joined)->view();
    std::memset(region->view().row(1).data(), 0x77, 8);
    region.reset();
    CHECK(there.row(1)[7] == std::byte{0x77});  // those who have it keep it
  }
  CHECK(Holdings::now("", "engine-a").beyond(before) == "");
}

TEST_CASE("reserved huge pages are taken where there are some, and said where not",
          "[primary][io]") {
  auto options = options_for();
  options.shared->explicit_huge_pages = true;
  const auto region = make(options);
  const std::string line = region->describe();
  INFO(line);
  auto joined = adopt(region->fd(), *region->record(), {});
  INFO((joined ? "" : joined.error().detail));
  REQUIRE(joined);
  REQUIRE((*joined)->populate(5000, 5000));
  std::memset((*joined)->view().row(3).data() + 5000, 0x44, 5000);
  CHECK(region->view().row(3)[9999] == std::byte{0x44});
  if (line.find("in reserved huge pages") != std::string::npos) {
    struct stat file {};
    REQUIRE(::fstat(region->fd(), &file) == 0);
    CHECK(file.st_size == 4 << 20);  // the first page's and the rows'
    CHECK(region->huge_page_share() == 1.0);
  } else {
    CHECK(line.find("ordinary pages: reserved huge pages are not to be had (") !=
          std::string::npos);
  }
  options.shared->file = "/tmp/x";
  const auto refused = Region::create(options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().detail.find("cannot have reserved ones") != std::string::npos);
}

TEST_CASE("more reserved huge pages than there are become ordinary ones", "[primary][io]") {
  auto options = options_for();
  options.shared->explicit_huge_pages = true;
  options.num_chunks = 1 << 30;  // 12 TiB: reserved nowhere
  options.available_bytes = 1 << 20;
  const auto refused = Region::create(options);
  REQUIRE_FALSE(refused);  // and then there is not enough memory
  CHECK(refused.error().detail.find("do not fit into the 1 MiB available") != std::string::npos);
}

TEST_CASE("a leaked region stays for a late transfer, under no name", "[primary][io]") {
  TierDirectory dir;
  std::byte* base = nullptr;
  std::atomic<std::uint32_t>* in_use = nullptr;
  {
    const auto region = make(options_for(dir.path() + "/rows"));
    base = region->view().base;
    in_use = region->view().in_use;
    region->leak([](const std::string&) {});
    CHECK(std::filesystem::is_empty(dir.path()));
  }
  std::memset(base, 1, 4 * 12288);
  ++in_use[0];
  ::munmap(base - kRegionRowsOffset, kRegionRowsOffset + 4 * 12288);
  delete[] in_use;
}

}  // namespace
}  // namespace kv_offload::test
