#include "kv_offload/tests/support/tier_fs_fixture.hpp"
#include "kv_offload/tiers/io/scripted_backend.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <sys/xattr.h>

namespace kv_offload {
namespace {

using test::FsFixture;
using test::tier_key;
using test::tier_keys;

TEST_CASE("an empty tier answers miss for every key", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  CHECK(f.probe(tier_keys(0, 5)) == std::vector(5, LookupResult::miss));
  CHECK(f.probe({}).empty());
}

TEST_CASE("verdicts come in the order of the keys, also for keys asked twice", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  f.store_named(2, 2);
  CHECK(
      f.probe({tier_key(9), tier_key(3), tier_key(8), tier_key(2), tier_key(3), tier_key(2, 1)}) ==
      std::vector{LookupResult::miss, LookupResult::hit, LookupResult::miss, LookupResult::hit,
                  LookupResult::hit, LookupResult::miss});
}

TEST_CASE("a file that is gone fails its key as not found, the others are loaded", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  f.store_named(0, 3);
  std::filesystem::remove(f.path_of(tier_key(0)));
  const JobResult result = f.load(tier_keys(0, 3), 8);
  CHECK(result.fates == std::vector{KeyFate::failed, KeyFate::done, KeyFate::done});
  CHECK(result.failure == TransferFailure::not_found);
  CHECK(f.memory.holds(9, 1));
  CHECK(f.memory.holds(10, 2));
  CHECK(f.probe(tier_keys(0, 3)) ==
        std::vector{LookupResult::miss, LookupResult::hit, LookupResult::hit});
  CHECK(f.tier->stats().corrupt_chunks == 0);
}

TEST_CASE("jobs that run together each report their own result", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  f.store_named(0, 2);
  f.memory.fill(4, 4);
  const JobId good_load = f.submit(f.job(true, tier_keys(0, 2), 8));
  const JobId bad_load = f.submit(f.job(true, tier_keys(90, 2), 10));
  const JobId store = f.submit(f.job(false, tier_keys(4, 1), 4));
  const JobId outside = f.submit(f.job(false, tier_keys(5, 1), 99));
  CHECK(f.end_of(good_load).success);
  CHECK(f.end_of(bad_load).failure == TransferFailure::not_found);
  CHECK(f.end_of(store).success);
  const JobResult refused = f.end_of(outside);
  CHECK(refused.failure == TransferFailure::io_error);
  CHECK(refused.error_number == EINVAL);
  CHECK(f.probe(tier_keys(4, 2)) == std::vector{LookupResult::hit, LookupResult::miss});
  CHECK(f.sink.violations().empty());
}

TEST_CASE("a reader beside a writer gets the whole chunk or none", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture::Options options;
  options.num_chunks = 32;
  FsFixture f(options);
  f.start();
  for (std::uint64_t round = 0; round < 40; ++round) {
    for (ChunkId i = 0; i < 8; ++i) f.memory.fill(i, 8 * round + i);
    const KeyList keys = tier_keys(8 * round, 8);
    const JobId early = f.submit(f.job(true, keys, 8));
    const JobId store = f.submit(f.job(false, keys));
    const JobId late = f.submit(f.job(true, keys, 16));
    CHECK(f.end_of(store).success);
    for (const auto& [id, first] : {std::pair{early, ChunkId{8}}, {late, ChunkId{16}}}) {
      const JobResult read = f.end_of(id);
      for (ChunkId i = 0; i < 8; ++i)
        if (read.fates[i] == KeyFate::done) CHECK(f.memory.holds(first + i, 8 * round + i));
      CHECK((read.success || read.failure == TransferFailure::not_found));
    }
  }
  CHECK(f.tier->stats().corrupt_chunks == 0);
  CHECK(f.directory.files(".quarantined").empty());
}

// --- a store that fails late ----------------------------------------------------------------------

/// Stores key 0, interrupted before its bytes are taken for written.
JobResult store_interrupted_by(FsFixture& f,
                               const std::function<void(const std::string&)>& interrupt) {
  f.faults->hang = true;
  const JobId id = f.submit(f.job(false, tier_keys(0, 1)));
  while (f.directory.files(".tmp").empty()) f.probe(tier_keys(50, 1));
  interrupt(f.directory.files(".tmp").front());
  f.faults->hang = false;
  return f.end_of(id);
}

TEST_CASE("a directory that disappears under a running store fails the key and leaves nothing",
          "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  const std::size_t before = test::open_descriptors();
  const JobResult result = store_interrupted_by(f, [](const std::string& temp) {
    std::filesystem::remove_all(std::filesystem::path(temp).parent_path());
  });
  CHECK(result.failure == TransferFailure::io_error);
  CHECK(result.error_number == ENOENT);
  CHECK(test::open_descriptors() == before);
  CHECK(f.memory.uses() == 0);
  CHECK(f.store(tier_keys(0, 1)).success);
}

TEST_CASE("a digest that finds no room fails the key and leaves nothing", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  const std::size_t before = test::open_descriptors();
  bool is_full = false;
  const JobResult result = store_interrupted_by(f, [&](const std::string& temp) {
    // The file system's room for attributes, filled to the last byte.
    for (std::size_t size = 32768; size > 0; size /= 2)
      for (int i = 0; i < 64; ++i) {
        const std::string name = "user.fill." + std::to_string(size) + "." + std::to_string(i);
        const std::string value(size, 'x');
        if (::setxattr(temp.c_str(), name.c_str(), value.data(), value.size(), 0) == 0) continue;
        is_full = true;
        break;
      }
  });
  if (!is_full || result.success) {
    WARN("skipped: this file system has more room for attributes than can be filled");
    return;
  }
  CHECK(result.fates == std::vector{KeyFate::failed});
  CHECK(f.directory.files(".bin").empty());
  CHECK(f.directory.files(".tmp").empty());
  CHECK(test::open_descriptors() == before);
  CHECK(f.memory.uses() == 0);
  CHECK(f.store(tier_keys(0, 1)).success);
}

TEST_CASE("a name that cannot be made durable fails the store, of whichever sync it was", "[fs]") {
  const std::uint64_t bad_sync = GENERATE(1U, 2U);  // of the file, of its directory
  FsFixture::Options options;
  std::atomic<std::uint64_t> syncs{0};
  options.make_backend = [&](const LaneOptions&) {
    return std::make_unique<ScriptedBackend>([&](const IoRequest& r, std::uint64_t) {
      ScriptedResult result;
      if (r.op == IoOp::sync_file && ++syncs == bad_sync) result.result = -EIO;
      return result;
    });
  };
  FsFixture f(options);
  f.config.durability = Durability::full;
  f.start();
  const std::size_t before = test::open_descriptors();
  const JobResult result = f.store(tier_keys(0, 1));
  CHECK(result.failure == TransferFailure::io_error);
  CHECK(result.error_number == EIO);
  CHECK(f.directory.files(".tmp").empty());
  CHECK(test::open_descriptors() == before);
  CHECK(f.memory.uses() == 0);
}

}  // namespace
}  // namespace kv_offload
