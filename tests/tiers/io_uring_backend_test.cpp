#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tests/support/tier_fs_fixture.hpp"
#include "kv_offload/tests/support/tier_memory.hpp"
#include "kv_offload/tiers/io/uring_backend.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <set>
#include <sys/resource.h>
#include <unistd.h>

namespace kv_offload {
namespace {

using test::TierDirectory;
using test::TierMemory;

constexpr Duration kWait = std::chrono::seconds(5);

struct OpenFile {
  explicit OpenFile(const TierDirectory& directory)
      : fd(::open((directory.path() + "/file").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {}
  ~OpenFile() { ::close(fd); }
  int fd;
};

std::vector<IoCompletion> reap(UringBackend& ring, std::size_t count) {
  std::vector<IoCompletion> all;
  for (int i = 0; i < 100 && all.size() < count; ++i) REQUIRE(ring.reap(all, kWait) == 0);
  REQUIRE(all.size() == count);
  return all;
}

TEST_CASE("bytes written through the ring are read back, registered or not", "[io][uring]") {
  KV_OFFLOAD_NEEDS_URING();
  const bool registered = GENERATE(true, false);
  const TierDirectory directory;
  const OpenFile file(directory);
  TierMemory memory(4, 65536);
  UringBackend ring({8, memory.view(), registered});
  const auto opened = ring.open();
  REQUIRE(opened);
  INFO(*opened);
  CHECK((ring.buffer_index(memory.row(1).data(), 65536) >= 0) == registered);
  memory.fill(0, 1);
  REQUIRE(ring.push({IoOp::write, file.fd, 0, memory.row(0).data(), 65536,
                     ring.buffer_index(memory.row(0).data(), 65536), 1}));
  CHECK(reap(ring, 1)[0].result == 65536);
  REQUIRE(ring.push({IoOp::sync_data, file.fd, 0, nullptr, 0, -1, 2}));
  CHECK(reap(ring, 1)[0].result == 0);
  REQUIRE(ring.push({IoOp::read, file.fd, 0, memory.row(2).data(), 65536,
                     ring.buffer_index(memory.row(2).data(), 65536), 3}));
  CHECK(reap(ring, 1)[0].result == 65536);
  CHECK(memory.holds(2, 1));
  CHECK(ring.in_flight() == 0);
}

TEST_CASE("a full ring says no and takes the request after a reap", "[io][uring]") {
  KV_OFFLOAD_NEEDS_URING();
  const TierDirectory directory;
  const OpenFile file(directory);
  TierMemory memory(1, 4096);
  UringBackend ring({4, memory.view(), true});
  REQUIRE(ring.open());
  const auto request = [&](std::uint64_t tag) {
    return IoRequest{IoOp::write, file.fd, 0, memory.row(0).data(), 4096, -1, tag};
  };
  for (std::uint64_t tag = 0; tag < 4; ++tag) REQUIRE(ring.push(request(tag)));
  CHECK_FALSE(ring.push(request(4)));
  const auto completions = reap(ring, 4);
  std::set<std::uint64_t> tags;
  for (const auto& c : completions) tags.insert(c.tag);
  CHECK(tags == std::set<std::uint64_t>{0, 1, 2, 3});
  CHECK(ring.push(request(4)));
  reap(ring, 1);
}

TEST_CASE("a range outside the registered rows has no buffer index", "[io][uring]") {
  KV_OFFLOAD_NEEDS_URING();
  TierMemory memory(4, 65536);
  UringBackend ring({4, memory.view(), true});
  REQUIRE(ring.open());
  std::byte elsewhere{};
  CHECK(ring.buffer_index(memory.row(0).data(), 4 * 65536) == 0);
  CHECK(ring.buffer_index(memory.row(3).data(), 2 * 65536) == -1);
  CHECK(ring.buffer_index(&elsewhere, 1) == -1);
}

TEST_CASE("a dead ring leaves no descriptor open", "[io][uring]") {
  KV_OFFLOAD_NEEDS_URING();
  TierMemory memory(4, 65536);
  const auto cycle = [&] {
    UringBackend ring({4, memory.view(), true});
    REQUIRE(ring.open());
  };
  cycle();
  const std::size_t before = test::open_descriptors();
  for (int i = 0; i < 10; ++i) cycle();
  CHECK(test::open_descriptors() == before);
}

TEST_CASE("a ring that cannot be had says why and what to do", "[io][uring]") {
  KV_OFFLOAD_NEEDS_URING();
  rlimit old{};
  ::getrlimit(RLIMIT_NOFILE, &old);
  rlimit none{3, old.rlim_max};
#ifdef __SANITIZE_ADDRESS__
  SUCCEED("not under sanitizers: their own checks need descriptors");
  return;
#endif
  const int limited = ::setrlimit(RLIMIT_NOFILE, &none);
  UringBackend ring({4, {}, true});
  const auto opened = ring.open();
  ::setrlimit(RLIMIT_NOFILE, &old);
  REQUIRE(limited == 0);
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == OffloadErrc::unsupported);
  CHECK(opened.error().detail.find("io_uring is not available") == 0);
  CHECK(opened.error().detail.find("ulimit -n") != std::string::npos);
  CHECK(opened.error().detail.find('\n') == std::string::npos);
}

}  // namespace
}  // namespace kv_offload
