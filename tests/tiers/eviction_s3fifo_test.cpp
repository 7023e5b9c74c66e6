#include "kv_offload/tests/support/primary_fixture.hpp"
#include "kv_offload/tiers/eviction/s3fifo_policy.hpp"

#include <catch2/catch.hpp>

namespace kv_offload::test {
namespace {

using Names = std::vector<int>;

struct S3Fixture : PrimaryFixture {
  explicit S3Fixture(ChunkId n) : PrimaryFixture(n, "s3fifo") {}
  const S3FifoPolicy& s3 = dynamic_cast<const S3FifoPolicy&>(cache.policy());
};

TEST_CASE("chunks touched at most once leave the small queue in order and become ghosts",
          "[eviction][unit]") {
  S3Fixture f(4);
  f.store({1, 2, 3, 4});
  f.touch({1, 2, 3, 4});
  CHECK(f.s3.small_size() == 4);
  CHECK(f.prepare_store({5, 6})->evicted == Names{1, 2});
  CHECK(names(f.s3.ghosts().keys()) == Names{1, 2});
}

TEST_CASE("a chunk touched twice moves to the main queue instead of leaving", "[eviction][unit]") {
  S3Fixture f(4);
  f.store({1, 2, 3, 4});
  f.touch({1});
  f.touch({1});
  CHECK(f.prepare_store({5})->evicted == Names{2});
  CHECK(f.s3.main_size() == 1);
  CHECK(f.s3.touches(f.slot(1)) == 0);  // starts anew
  CHECK_FALSE(f.s3.ghosts().contains(key(1)));
}

TEST_CASE("a ghost that is stored again enters the main queue", "[eviction][unit]") {
  S3Fixture f(4);
  f.store({1, 2, 3, 4});
  f.store({5});
  f.touch({1});  // a ghost does not move by being touched
  f.store({1});
  CHECK(f.s3.main_size() == 1);
  CHECK_FALSE(f.s3.ghosts().contains(key(1)));
  CHECK(f.lookup(1) == ChunkState::ready);
}

TEST_CASE("the main queue gives one more round per touch and leaves no ghost", "[eviction][unit]") {
  S3Fixture f(20);  // small is worth evicting from while it holds 2
  Names first;
  for (int k = 1; k <= 20; ++k) first.push_back(k);
  f.store(first);
  f.touch(first);
  f.touch(first);
  CHECK(f.prepare_store({100})->evicted == Names{1});  // 1 to 19 moved to main, then 1 left
  f.complete_store({100});
  CHECK(f.s3.main_size() == 18);
  CHECK(f.s3.small_size() == 2);
  CHECK(f.s3.ghosts().size() == 0);
  f.touch({2, 3});
  CHECK(f.prepare_store({101})->evicted == Names{4});  // 2 and 3 went round
  CHECK(f.s3.touches(f.slot(2)) == 0);
}

TEST_CASE("the count of touches stops at three", "[eviction][unit]") {
  S3Fixture f(4);
  f.store({1});
  for (int i = 0; i < 9; ++i) f.touch({1});
  CHECK(f.s3.touches(f.slot(1)) == 3);
}

TEST_CASE("the main queue stands in when the small one has no candidate, and the reverse",
          "[eviction][unit]") {
  S3Fixture f(4);
  f.store({1, 2, 3, 4});
  for (int i = 0; i < 2; ++i) f.touch({1, 2});
  f.store({5, 6});  // 1 and 2 to main, 3 and 4 out
  CHECK(f.s3.main_size() == 2);
  f.prepare_load({5, 6});
  CHECK(f.prepare_store({7, 8})->evicted == Names{1, 2});
  f.complete_store({7, 8}, false);
  f.complete_load({5, 6});
  f.store({3, 4});  // ghosts: both to main
  f.prepare_load({3, 4});
  CHECK(f.prepare_store({9, 10})->evicted == Names{5, 6});
}

TEST_CASE("an S3-FIFO eviction that fails changes nothing", "[eviction][unit]") {
  S3Fixture f(4);
  f.store({1, 2, 3, 4});
  for (int i = 0; i < 2; ++i) f.touch({3});
  CHECK_FALSE(f.prepare_store({1, 2, 5, 6, 7}).has_value());
  CHECK(f.s3.small_size() == 4);
  CHECK(f.s3.main_size() == 0);
  CHECK(f.s3.touches(f.slot(3)) == 2);
  CHECK(f.s3.ghosts().size() == 0);
  CHECK(f.prepare_store({1, 2, 5, 6})->evicted == Names{4, 3});
}

TEST_CASE("S3-FIFO's ghosts are bounded and forgotten on reset", "[eviction][unit]") {
  S3Fixture f(10);
  for (int k = 0; k < 100; ++k) f.store({k});
  CHECK(f.s3.ghosts().size() == 9);
  CHECK(names(f.s3.ghosts().keys()).front() == 81);
  f.cache.reset();
  CHECK(f.s3.ghosts().size() == 0);
  CHECK(f.s3.small_size() + f.s3.main_size() == 0);
  f.store({1});
  CHECK(f.broken_identity() == "");
}

}  // namespace
}  // namespace kv_offload::test
