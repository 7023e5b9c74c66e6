#include "kv_offload/messages/broken_promise.hpp"
#include "kv_offload/tests/support/tier_fs_fixture.hpp"

#include <catch2/catch.hpp>

#include <sys/xattr.h>

namespace kv_offload {
namespace {

using test::FsFixture;
using test::tier_key;
using test::tier_keys;

void set_attribute(const std::string& path, const std::string& value) {
  REQUIRE(::setxattr(path.c_str(), kDigestAttribute, value.data(), value.size(), 0) == 0);
}
void remove_attribute(const std::string& path) {
  REQUIRE(::removexattr(path.c_str(), kDigestAttribute) == 0);
}

TEST_CASE("a flipped byte anywhere fails the key, sets the file aside and makes it a miss",
          "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  const auto at = static_cast<std::streamoff>(GENERATE(0, 4095, 33333, 65535));
  FsFixture f;
  f.start();
  f.store_named(0, 3);
  const std::string path = f.path_of(tier_key(1));
  test::flip_byte(path, at);
  const JobResult result = f.load(tier_keys(0, 3), 8);
  CHECK_FALSE(result.success);
  CHECK(result.fates == std::vector{KeyFate::done, KeyFate::failed, KeyFate::done});
  CHECK(result.failure == TransferFailure::corrupt);
  CHECK(f.memory.holds(8, 0));
  CHECK(f.memory.holds(10, 2));
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(std::filesystem::exists(path + ".quarantined"));
  CHECK(f.probe(tier_keys(0, 3)) ==
        std::vector{LookupResult::hit, LookupResult::miss, LookupResult::hit});
  CHECK(f.load(tier_keys(1, 1), 8).failure == TransferFailure::not_found);
  CHECK(f.tier->stats().corrupt_chunks == 1);

  // The chunk can be stored again, and go bad again.
  f.memory.fill(1, 1);
  REQUIRE(f.store(tier_keys(1, 1), 1).fates == std::vector{KeyFate::done});
  test::flip_byte(path, at);
  CHECK(f.load(tier_keys(1, 1), 8).failure == TransferFailure::corrupt);
  CHECK(f.tier->stats().corrupt_chunks == 2);
}

TEST_CASE("a truncated file is removed, at any length", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  const std::uintmax_t size = GENERATE(0, 1, 512, 4096, 5000, 65535);
  FsFixture f;
  f.start();
  f.store_named(0, 2);
  const std::string path = f.path_of(tier_key(0));
  std::filesystem::resize_file(path, size);
  const JobResult result = f.load(tier_keys(0, 2), 8);
  CHECK(result.fates == std::vector{KeyFate::failed, KeyFate::done});
  CHECK(result.failure == TransferFailure::corrupt);
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(f.probe(tier_keys(0, 1)) == std::vector{LookupResult::miss});
  CHECK(f.tier->stats().corrupt_chunks == 1);
}

TEST_CASE("two files that changed places are both found", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  f.store_named(0, 2);
  const std::string a = f.path_of(tier_key(0));
  const std::string b = f.path_of(tier_key(1));
  std::filesystem::rename(a, a + "x");
  std::filesystem::rename(b, a);
  std::filesystem::rename(a + "x", b);
  const JobResult result = f.load(tier_keys(0, 2), 8);
  CHECK(result.fates == std::vector{KeyFate::failed, KeyFate::failed});
  CHECK(result.failure == TransferFailure::corrupt);
  CHECK(f.tier->stats().corrupt_chunks == 2);
}

TEST_CASE("a file moved in from another namespace is found", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.identity.tenant = "a";
  f.start();
  f.store_named(0, 1);
  const std::string from = f.path_of(tier_key(0));
  f.identity.tenant = "b";
  f.start();
  const std::string to = f.path_of(tier_key(0));
  std::filesystem::create_directories(std::filesystem::path(to).parent_path());
  std::filesystem::rename(from, to);
  CHECK(f.load(tier_keys(0, 1), 8).failure == TransferFailure::corrupt);
}

TEST_CASE("a damaged attribute is corruption", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  f.store_named(0, 1);
  const std::string path = f.path_of(tier_key(0));
  const std::string good = test::attribute(path, kDigestAttribute);
  SECTION("other value") {
    std::string other = good;
    other.back() = other.back() == '0' ? '1' : '0';
    set_attribute(path, other);
  }
  SECTION("no text of ours") { set_attribute(path, "garbage"); }
  SECTION("cut") { set_attribute(path, good.substr(0, 20)); }
  SECTION("longer than any of ours") { set_attribute(path, std::string(300, 'a')); }
  CHECK(f.load(tier_keys(0, 1), 8).failure == TransferFailure::corrupt);
  CHECK(std::filesystem::exists(path + ".quarantined"));
}

TEST_CASE("a file without our digest is refused, left where it is, and a miss from then on",
          "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  f.store_named(0, 2);
  const std::string path = f.path_of(tier_key(0));
  SECTION("none") { remove_attribute(path); }
  SECTION("of a later version") { set_attribute(path, "2:blake3:0011"); }
  CHECK(f.probe(tier_keys(0, 1)) == std::vector{LookupResult::hit});
  const JobResult result = f.load(tier_keys(0, 2), 8);
  CHECK(result.fates == std::vector{KeyFate::failed, KeyFate::done});
  CHECK(result.failure == TransferFailure::foreign);
  CHECK(std::filesystem::exists(path));
  CHECK(f.probe(tier_keys(0, 2)) == std::vector{LookupResult::miss, LookupResult::hit});
  CHECK(f.tier->stats().foreign_refused == 1);

  // A store replaces it.
  f.memory.fill(0, 0);
  CHECK(f.store(tier_keys(0, 1)).fates == std::vector{KeyFate::done});
  CHECK(f.probe(tier_keys(0, 1)) == std::vector{LookupResult::hit});
  CHECK(f.load(tier_keys(0, 1), 8).success);
}

TEST_CASE("a refused file that another engine replaced is seen again", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  f.store_named(0, 1);
  const std::string path = f.path_of(tier_key(0));
  const std::string digest = test::attribute(path, kDigestAttribute);
  remove_attribute(path);
  CHECK(f.load(tier_keys(0, 1), 8).failure == TransferFailure::foreign);
  set_attribute(path, digest);
  CHECK(f.probe(tier_keys(0, 1)) == std::vector{LookupResult::hit});
  CHECK(f.load(tier_keys(0, 1), 8).success);
}

TEST_CASE("accepted foreign files are loaded, counted and have their padding cleared", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture::Options options;
  options.row_bytes = 8192;
  options.payload_bytes = 8000;
  FsFixture f(options);
  f.config.foreign_files = ForeignFiles::accept;
  f.start();
  f.store_named(0, 2);
  const std::string path = f.path_of(tier_key(0));
  remove_attribute(path);
  test::flip_byte(path, 8100);
  const JobResult result = f.load(tier_keys(0, 2), 8);
  CHECK(result.success);
  CHECK(result.unverified == 1);
  CHECK(f.memory.holds(8, 0));
  CHECK(f.tier->stats().unverified_chunks == 1);
  // Short is corrupt, foreign or not.
  std::filesystem::resize_file(path, 4096);
  CHECK(f.load(tier_keys(0, 1), 8).failure == TransferFailure::corrupt);
}

TEST_CASE("with checksums off nothing is attached and everything counts as unverified",
          "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.config.checksum = false;
  f.start();
  f.store_named(0, 2);
  CHECK(test::attribute(f.path_of(tier_key(0)), kDigestAttribute).empty());
  const JobResult result = f.load(tier_keys(0, 2), 8);
  CHECK(result.success);
  CHECK(result.unverified == 2);
  CHECK(f.memory.holds(9, 1));
}

TEST_CASE("what the device changes on the way in is found on the way out", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.faults->corrupt_every = 3;
  f.start();
  f.store_named(0, 6);
  for (ChunkId i = 0; i < 6; ++i) CHECK(f.memory.holds(i, i));
  const JobResult result = f.load(tier_keys(0, 6), 8);
  CHECK(result.fates == std::vector{KeyFate::done, KeyFate::done, KeyFate::failed, KeyFate::done,
                                    KeyFate::done, KeyFate::failed});
  CHECK(f.tier->stats().corrupt_chunks == 2);
}

#ifdef KV_OFFLOAD_TEST_FAULTS
TEST_CASE("with promise 1 broken a flipped byte is served", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  f.store_named(0, 1);
  test::flip_byte(f.path_of(tier_key(0)), 100);
  broken_promise_switch() = 1;
  const JobResult result = f.load(tier_keys(0, 1), 8);
  broken_promise_switch() = 0;
  CHECK(result.success);
  CHECK_FALSE(f.memory.holds(8, 0));
}
#endif

}  // namespace
}  // namespace kv_offload
