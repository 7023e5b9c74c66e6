#include "kv_offload/tests/tiers/extent_fixture.hpp"
#include "kv_offload/tiers/io/scripted_backend.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <cerrno>

namespace kv_offload {
namespace {

using test::ExtentFixture;
using test::tier_key;
using test::tier_keys;

KeyList salted(std::uint64_t first, std::size_t count, std::uint64_t salt) {
  KeyList keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back(*tier_key(first + i).salted(salt));
  return keys;
}

TEST_CASE("what was forgotten is gone at once and after a restart, the rest stays",
          "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.start();
  f.store_named(0, 20);  // two sealed segments and one that is being filled
  KeyList keys = tier_keys(2, 4);
  keys.push_back(tier_key(9));
  keys.push_back(tier_key(17));
  keys.push_back(tier_key(17));   // twice
  keys.push_back(tier_key(500));  // never there
  REQUIRE(f.tier->forget(7, keys));
  const auto answer = f.sink.wait_forgot(7);
  REQUIRE(answer);
  CHECK(answer->chunks == 6);
  CHECK(answer->error.empty());
  CHECK(f.present(0, 20).size() == 14);
  CHECK(f.load(tier_keys(17, 1), 8).failure == TransferFailure::not_found);
  f.start();
  CHECK(f.present(0, 20).size() == 14);
  CHECK_FALSE(f.has(9));
  f.memory.fill(0, 9);
  CHECK(f.store(tier_keys(9, 1)).success);
  CHECK(f.loads_named(9));
}

TEST_CASE("a tenant's chunks are found in every segment", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.start();
  for (std::uint64_t round = 0; round < 5; ++round) {
    f.store_named(4 * round, 4);
    REQUIRE(f.store(salted(4 * round, 3, round % 2 == 0 ? 11 : 22)).success);
  }
  REQUIRE(f.tier->forget_tenant(1, 11));
  const auto answer = f.sink.wait_forgot(1);
  REQUIRE(answer);
  CHECK(answer->chunks == 9);
  CHECK(answer->error.empty());
  const auto check = [&] {
    CHECK(f.present(0, 20).size() == 20);
    for (std::uint64_t round = 0; round < 5; ++round)
      CHECK(f.probe(salted(4 * round, 3, round % 2 == 0 ? 11 : 22)) ==
            std::vector(3, round % 2 == 0 ? LookupResult::miss : LookupResult::hit));
  };
  check();
  f.start();
  check();
}

TEST_CASE("forgetting waits until the old copy of a rewritten chunk is gone, too", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.start();
  f.store_named(0, 40);
  CHECK(f.loads_named(3));
  f.store_named(40, 1);  // the first segment is being cleaned
  REQUIRE(f.tier->forget(1, tier_keys(3, 1)));
  REQUIRE(f.sink.wait_forgot(1));
  CHECK_FALSE(f.has(3));
  f.start();
  CHECK_FALSE(f.has(3));
}

TEST_CASE("a record that cannot be wiped is said", "[extent]") {
  std::atomic<bool> fails{false};
  ExtentFixture::Options options;
  options.make_backend = [&](const LaneOptions&) {
    return std::make_unique<ScriptedBackend>([&](const IoRequest& r, std::uint64_t) {
      ScriptedResult result;
      if (fails && r.op == IoOp::write) result.result = -EIO;
      return result;
    });
  };
  ExtentFixture f(options);
  f.start();
  f.store_named(0, 12);
  fails = true;
  REQUIRE(f.tier->forget(1, {tier_key(GENERATE(2U, 9U))}));  // sealed, being filled
  const auto answer = f.sink.wait_forgot(1);
  REQUIRE(answer);
  CHECK(answer->error.find("wiping a record: Input/output error") == 0);
  CHECK(f.present(0, 12).size() == 11);
}

TEST_CASE("forgets beyond the bound are not taken, and answered ones make room", "[extent]") {
  std::atomic<bool> stuck{true};
  ExtentFixture::Options options;
  options.make_backend = [&](const LaneOptions&) {
    return std::make_unique<ScriptedBackend>([&](const IoRequest& r, std::uint64_t) {
      ScriptedResult result;
      if (stuck && r.op == IoOp::read) result.after_reaps = 3000;
      return result;
    });
  };
  ExtentFixture f(options);
  f.start();
  f.store_named(0, 12);
  std::uint64_t taken = 0;
  while (f.tier->forget(taken + 1, tier_keys(taken == 0 ? 0 : 100, 1)) && taken < 5000) ++taken;
  CHECK(taken >= ExtentShared::kForgetsMax);
  CHECK(taken < 5000);
  stuck = false;
  REQUIRE(f.sink.wait_forgot(taken));
  CHECK(f.sink.wait_forgot(1)->chunks == 1);
  CHECK(f.tier->forget(9999, tier_keys(1, 1)));
  CHECK(f.sink.wait_forgot(9999)->chunks == 1);
  f.stop();
  CHECK_FALSE(f.tier->forget(10000, tier_keys(2, 1)));
}

}  // namespace
}  // namespace kv_offload
