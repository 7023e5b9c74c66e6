#include "kv_offload/tests/tiers/extent_fixture.hpp"

#include <catch2/catch.hpp>

#include <random>

namespace kv_offload {
namespace {

using test::ExtentFixture;
using test::tier_key;
using test::tier_keys;

TEST_CASE("what was stored is loaded as it was, at every size of chunk", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture::Options options;
  options.row_bytes = GENERATE(4096U, 16384U, 65536U, 1U << 20, 4U << 20);
  options.payload_bytes = options.row_bytes - GENERATE(0U, 17U);
  options.num_chunks = 16;
  options.slots_per_segment = 3;
  options.num_segments = 5;
  ExtentFixture f(options);
  f.start();
  CHECK(f.probe(tier_keys(0, 3)) == std::vector(3, LookupResult::miss));
  std::fill(f.memory.row(0).begin(), f.memory.row(0).end(), std::byte{0xaa});  // padding, too
  f.store_named(0, 6);
  CHECK(f.probe(tier_keys(0, 7)).back() == LookupResult::miss);
  CHECK(f.present(0, 7).size() == 6);
  for (ChunkId i = 8; i < 14; ++i) f.memory.clear(i);
  const JobResult loaded = f.load(tier_keys(0, 6), 8);
  CHECK(loaded.success);
  CHECK(loaded.transfer_bytes == 6 * options.row_bytes);
  for (ChunkId i = 0; i < 6; ++i) CHECK(f.memory.holds(8 + i, i));
  CHECK(f.store(tier_keys(0, 2)).fates == std::vector(2, KeyFate::already_present));
  CHECK(f.memory.uses() == 0);
  CHECK(f.sink.inner.violations().empty());
}

TEST_CASE("keys of every length are kept apart", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture::Options options;
  options.num_chunks = 160;
  options.slots_per_segment = 40;
  ExtentFixture f(options);
  f.start();
  KeyList keys;
  std::vector<std::byte> hash(OffloadKey::kMaxHashBytes, std::byte{7});
  for (std::size_t bytes = 1; bytes <= hash.size(); ++bytes)
    keys.push_back(*OffloadKey::make(std::span(hash).first(bytes), 3));
  for (ChunkId i = 0; i < keys.size(); ++i) f.memory.fill(i, i);
  REQUIRE(f.store(keys).success);
  f.start();
  CHECK(f.probe(keys) == std::vector(keys.size(), LookupResult::hit));
  REQUIRE(f.load(keys, 80).success);
  for (ChunkId i = 0; i < keys.size(); ++i) CHECK(f.memory.holds(80 + i, i));
}

TEST_CASE("lookup answers from memory what a probe answers", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.start();
  CHECK(f.tier->lookup(tier_key(0)) == LookupResult::miss);
  f.store_named(0, 1);
  CHECK(f.tier->lookup(tier_key(0)) == LookupResult::hit);
  CHECK(f.tier->lookup(tier_key(1)) == LookupResult::miss);
  f.stop();
  CHECK_FALSE(f.tier->lookup(tier_key(0)).has_value());
}

TEST_CASE("a load of what is not there is not found and moves nothing", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.start();
  f.store_named(0, 1);
  const JobResult result = f.load({tier_key(0), tier_key(5)}, 8);
  CHECK(result.fates == std::vector{KeyFate::done, KeyFate::failed});
  CHECK(result.failure == TransferFailure::not_found);
  CHECK(f.tier->stats().corrupt_chunks == 0);
}

TEST_CASE("every chunk survives a restart, clean or not, and the file goes on being filled",
          "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture::Options options;
  options.num_segments = 8;
  ExtentFixture f(options);
  f.start();
  std::size_t stored = 0;
  for (int round = 0; round < 10; ++round) {
    f.store_named(stored, 3);
    stored += 3;
    f.start();
    CHECK(f.present(0, stored + 1).size() == stored);
  }
  // 30 chunks in segments of 8: restarts do not waste what is left of a segment.
  CHECK(f.metric("free_segments") == 4);
  for (std::uint64_t name = 0; name < stored; ++name) CHECK(f.loads_named(name));
  CHECK(f.log().find("new file") != std::string::npos);
  CHECK(f.log().find("30 chunks found") != std::string::npos);
  CHECK(f.log().find("not clean") == std::string::npos);
}

TEST_CASE("the index takes 38 bytes for each slot, and says so", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture::Options options;
  options.slots_per_segment = 1000;
  ExtentFixture f(options);
  f.start();
  const double bytes = f.metric("index_bytes") / static_cast<double>(f.geometry().num_slots());
  CHECK(bytes == Approx(38).epsilon(0.01));
  CHECK(bytes <= 96);
}

}  // namespace
}  // namespace kv_offload
