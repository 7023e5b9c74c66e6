#include "kv_offload/tests/support/tier_fs_fixture.hpp"

#include <catch2/catch.hpp>

#include <sys/stat.h>

namespace kv_offload {
namespace {

using test::FsFixture;
using test::tier_key;
using test::tier_keys;

TEST_CASE("chunks come back byte for byte, whatever their number and size", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture::Options options;
  options.row_bytes = GENERATE(4096, 64 << 10, 1 << 20);
  const auto count = static_cast<ChunkId>(GENERATE(0, 1, 2, 5));
  CAPTURE(options.row_bytes, count);
  FsFixture f(options);
  f.start();
  for (ChunkId i = 0; i < count; ++i) f.memory.fill(i, i);
  const JobResult stored = f.store(tier_keys(0, count));
  CHECK(stored.success);
  CHECK(stored.fates == std::vector(count, KeyFate::done));
  CHECK(stored.transfer_bytes == count * options.row_bytes);
  CHECK(f.directory.files(".bin").size() == count);
  CHECK(f.directory.files(".tmp").empty());
  CHECK(f.probe(tier_keys(0, count)) == std::vector(count, LookupResult::hit));

  for (ChunkId i = 8; i < 8 + count; ++i) f.memory.clear(i);
  const JobResult loaded = f.load(tier_keys(0, count), 8);
  CHECK(loaded.success);
  CHECK(loaded.unverified == 0);
  CHECK(loaded.transfer_bytes == count * options.row_bytes);
  for (ChunkId i = 0; i < count; ++i) CHECK(f.memory.holds(8 + i, i));
  CHECK(f.memory.uses() == 0);
  CHECK(f.sink.violations().empty());
}

TEST_CASE("a file is one row with zeroed padding, private, with its digest beside it", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture::Options options;
  options.row_bytes = 8192;
  options.payload_bytes = 5000;
  FsFixture f(options);
  f.start();
  f.memory.fill(0, 1);
  f.memory.row(0)[8000] = std::byte{0x55};  // somebody wrote behind the payload
  REQUIRE(f.store(tier_keys(1, 1)).success);

  const std::string path = f.path_of(tier_key(1));
  const std::string bytes = test::read_file(path);
  const auto expected = f.memory.expected(1);
  REQUIRE(bytes.size() == 8192);
  CHECK(std::memcmp(bytes.data(), expected.data(), 8192) == 0);
  const ChunkDigester digester(FileMapper::make("/", f.identity)->digest_namespace());
  const DigestAttribute digest = encode_digest(digester.digest(tier_key(1), expected));
  CHECK(test::attribute(path, kDigestAttribute) == std::string(digest.data(), digest.size()));
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0600U);
  REQUIRE(::stat(std::filesystem::path(path).parent_path().c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0700U);
}

TEST_CASE("what is there already is not written again", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  f.store_named(0, 2);
  const auto before = std::filesystem::last_write_time(f.path_of(tier_key(0)));
  f.memory.fill(2, 2);
  const JobResult again = f.store({tier_key(0), tier_key(2), tier_key(1)}, 1);
  CHECK(again.success);
  CHECK(again.fates ==
        std::vector{KeyFate::already_present, KeyFate::done, KeyFate::already_present});
  CHECK(again.transfer_bytes == 64 << 10);
  CHECK(std::filesystem::last_write_time(f.path_of(tier_key(0))) == before);
}

TEST_CASE("chunks outlive the tier that stored them", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  f.store_named(0, 3);
  f.start();  // another tier on the same directory
  CHECK(f.probe(tier_keys(0, 4)) ==
        std::vector{LookupResult::hit, LookupResult::hit, LookupResult::hit, LookupResult::miss});
  REQUIRE(f.load(tier_keys(0, 3), 8).success);
  for (ChunkId i = 0; i < 3; ++i) CHECK(f.memory.holds(8 + i, i));
}

TEST_CASE("another revision, tenant or group does not see the chunks", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  f.store_named(0, 1);
  CHECK(f.probe({tier_key(0, 1)}) == std::vector{LookupResult::miss});
  f.identity.revision = "2";
  f.start();
  CHECK(f.probe({tier_key(0)}) == std::vector{LookupResult::miss});
  f.identity.revision.clear();
  f.identity.tenant = "other";
  f.start();
  CHECK(f.probe({tier_key(0)}) == std::vector{LookupResult::miss});
}

TEST_CASE("two writers of one key both succeed and leave one whole file", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  std::vector<JobId> ids;
  for (ChunkId i = 0; i < 8; ++i) {
    f.memory.fill(i, 5);
    ids.push_back(f.submit(f.job(false, {tier_key(5)}, i)));
  }
  for (const JobId& id : ids) CHECK(f.end_of(id).success);
  CHECK(f.directory.files(".bin").size() == 1);
  CHECK(f.directory.files(".tmp").empty());
  REQUIRE(f.load({tier_key(5)}, 9).success);
  CHECK(f.memory.holds(9, 5));
}

TEST_CASE("a cleared cache directory is filled again without a restart", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  f.store_named(0, 2);
  for (const auto& entry : std::filesystem::directory_iterator(f.directory.path()))
    std::filesystem::remove_all(entry.path());
  CHECK(f.probe(tier_keys(0, 1)) == std::vector{LookupResult::miss});
  CHECK(f.load(tier_keys(0, 1), 8).failure == TransferFailure::not_found);
  CHECK(f.store(tier_keys(0, 2)).success);
  CHECK(f.load(tier_keys(0, 2), 8).success);
}

TEST_CASE("durable stores are stores", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.config.durability = GENERATE(Durability::data, Durability::full);
  f.start();
  const std::size_t before = test::open_descriptors();
  f.store_named(0, 5);
  CHECK(f.directory.files(".tmp").empty());
  REQUIRE(f.load(tier_keys(0, 5), 8).success);
  for (ChunkId i = 0; i < 5; ++i) CHECK(f.memory.holds(8 + i, i));
  CHECK(test::open_descriptors() == before);
}

TEST_CASE("a thousand transfers, good and bad, leave no descriptor open", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  // Syncs are slow where others write, too: a few of them meet every path.
  const auto [durability, count] =
      GENERATE(table<Durability, ChunkId>({{Durability::none, 200}, {Durability::full, 6}}));
  FsFixture::Options options;
  options.row_bytes = 4096;
  options.num_chunks = 200;
  FsFixture f(options);
  f.config.durability = durability;
  f.start();
  f.store_named(0, 5);
  const std::size_t before = test::open_descriptors();
  f.faults->store_error_every = 3;
  f.faults->load_error_every = 5;
  for (std::uint64_t round = 0; round < 3; ++round) {
    f.store(tier_keys(1000 * (round + 1), count));
    f.load(tier_keys(1000 * (round + 1), count));
  }
  test::flip_byte(f.path_of(tier_key(0)), 100);
  std::filesystem::resize_file(f.path_of(tier_key(1)), 512);
  f.load(tier_keys(0, 2));
  CHECK(test::open_descriptors() == before);
  CHECK(f.directory.files(".tmp").empty());
  CHECK(f.memory.uses() == 0);
}

TEST_CASE("a stopped tier leaves no descriptor and no thread", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  const std::size_t threads_before = test::running_threads();
  const std::size_t before = test::open_descriptors();
  {
    FsFixture f;
    f.start();
    f.store_named(0, 5);
    CHECK(test::running_threads() > threads_before);
    CHECK(f.stop());
  }
  CHECK(test::open_descriptors() == before);
  CHECK(test::threads_come_down_to(threads_before));
}

}  // namespace
}  // namespace kv_offload
