#include "kv_offload/tests/support/primary_fixture.hpp"
#include "kv_offload/tiers/eviction/arc_policy.hpp"

#include <catch2/catch.hpp>

namespace kv_offload::test {
namespace {

using Ids = std::vector<ChunkId>;
using Names = std::vector<int>;

struct ArcFixture : PrimaryFixture {
  explicit ArcFixture(ChunkId n) : PrimaryFixture(n, "arc") {}
  const ArcPolicy& arc = dynamic_cast<const ArcPolicy&>(cache.policy());
};

TEST_CASE("ARC stores, looks up and loads like any policy", "[eviction][unit]") {
  ArcFixture f(4);
  CHECK(*f.prepare_store({1, 2}) == Stored{{1, 2}, {0, 1}, {}});
  CHECK(f.lookup(1) == ChunkState::writing);
  f.complete_store({1, 2});
  CHECK(f.lookup(1) == ChunkState::ready);
  CHECK(f.arc.t1_size() == 2);
  CHECK(f.arc.t2_size() == 0);
  CHECK(f.prepare_load({2, 1}) == Ids{1, 0});
}

TEST_CASE("a touched chunk of T1 moves to T2 once its bytes are there", "[eviction][unit]") {
  ArcFixture f(4);
  f.prepare_store({1, 2});
  f.touch({1});  // still being written
  CHECK(f.arc.t1_size() == 2);
  f.complete_store({1, 2});
  f.touch({1});
  CHECK(f.arc.t1_size() == 1);
  CHECK(f.arc.t2_size() == 1);
  f.prepare_load({2});
  f.touch({2});  // pinned is ready, too
  CHECK(f.arc.t2_size() == 2);
}

TEST_CASE("a chunk published under a hold counts as ready in ARC", "[eviction][unit]") {
  ArcFixture f(4);
  f.prepare_store({1});
  REQUIRE(f.cache.try_hold(f.slot(1)));
  f.complete_store({1});
  f.touch({1});
  CHECK(f.arc.t2_size() == 1);
}

TEST_CASE("touching a chunk that is being written makes it the newest of T1", "[eviction][unit]") {
  ArcFixture f(3);
  f.prepare_store({1, 2, 3});
  f.touch({1});
  f.complete_store({1, 2, 3});
  CHECK(f.prepare_store({4, 5, 6})->evicted == Names{2, 3, 1});
}

TEST_CASE("pinned chunks are not ARC's victims", "[eviction][unit]") {
  ArcFixture f(4);
  f.store({1, 2, 3, 4});
  CHECK(f.prepare_load({2, 3}) == Ids{1, 2});
  CHECK_FALSE(f.prepare_store({5, 6, 7}).has_value());
  CHECK(f.prepare_store({8})->evicted == Names{1});
  f.complete_store({8}, false);
  f.complete_load({2, 3});
  CHECK(f.prepare_store({5, 6, 7})->evicted == Names{2, 3});  // places kept while pinned
}

TEST_CASE("ghost touches move ARC's target by the ratio of the ghost lists", "[eviction][unit]") {
  ArcFixture f(4);
  f.store({1, 2, 3, 4});
  f.touch({4});  // T1 = 1 2 3, T2 = 4
  f.store({5, 6});
  CHECK(names(f.arc.b1().keys()) == Names{1, 2});
  CHECK(f.arc.target() == 0.0);
  f.touch({1});
  CHECK(f.arc.target() == 1.0);
  CHECK(names(f.arc.b1().keys()) == Names{2, 1});  // most recent ghost
  CHECK(f.lookup(1) == ChunkState::absent);
  f.touch({1, 1, 1, 1, 1});
  CHECK(f.arc.target() == 4.0);  // never above the capacity
  f.touch({3, 5, 6});            // T1 empty, T2 = 4 6 5 3
  f.store({7});                  // T1 is under its target: T2's oldest goes
  CHECK(names(f.arc.b2().keys()) == Names{4});
  f.touch({4});
  CHECK(f.arc.target() == 2.0);  // |B1| / |B2| = 2
  f.touch({4, 4});
  CHECK(f.arc.target() == 0.0);  // never below 0
  f.touch({99});
  CHECK(f.arc.target() == 0.0);
}

TEST_CASE("the size of T1 against the target says where ARC takes its victim", "[eviction][unit]") {
  ArcFixture f(4);
  f.store({1, 2, 3, 4});
  f.touch({3, 4});  // T1 = 1 2, T2 = 4 3
  f.store({5});
  CHECK(names(f.arc.b1().keys()) == Names{1});  // |T1| 2 >= target 0
  f.touch({1, 1, 1});                           // target 3, T1 = 2 5
  f.store({6});
  CHECK(names(f.arc.b2().keys()) == Names{4});
  CHECK(f.lookup(2) == ChunkState::ready);
}

TEST_CASE("a batch of ARC victims shrinks T1 to its target, then takes from T2",
          "[eviction][unit]") {
  ArcFixture f(6);
  f.store({1, 2, 3, 4, 5, 6});
  f.touch({5, 6});     // T1 = 1 2 3 4, T2 = 6 5
  f.store({7});        // 1 leaves: T1 = 2 3 4 7
  f.touch({1, 1, 1});  // target 3
  CHECK(f.prepare_store({8, 9, 10})->evicted == Names{2, 3, 6});
}

TEST_CASE("when T1 has no candidate left ARC goes on in T2", "[eviction][unit]") {
  ArcFixture f(4);
  f.store({1, 2, 3, 4});
  f.touch({3, 4});
  f.prepare_load({1});
  CHECK(f.prepare_store({5, 6, 7})->evicted == Names{2, 4, 3});
}

TEST_CASE("when T1 is under its target and T2 has no candidate ARC takes from T1",
          "[eviction][unit]") {
  ArcFixture f(2);
  f.store({1, 2});
  f.store({3});
  f.touch({1, 1});  // target 2, T1 = 2 3, T2 empty
  CHECK(f.prepare_store({4, 5})->evicted == Names{2, 3});
}

TEST_CASE("an ARC eviction that fails changes nothing", "[eviction][unit]") {
  ArcFixture f(4);
  f.store({1, 2, 3, 4});
  f.touch({4});
  CHECK_FALSE(f.prepare_store({1, 2, 5, 6, 7}).has_value());  // 3 and 4 may go, three must
  CHECK(f.arc.t1_size() == 3);
  CHECK(f.arc.t2_size() == 1);
  CHECK(f.arc.b1().size() == 0);
  CHECK(f.prepare_store({1, 2, 5, 6})->evicted == Names{3, 4});
}

TEST_CASE("ARC's ghosts never exceed the capacity", "[eviction][unit]") {
  ArcFixture f(2);
  f.store({1, 2});
  for (int k = 3; k < 20; ++k) f.store({k});
  CHECK(names(f.arc.b1().keys()) == Names{16, 17});
  for (int k = 30; k < 40; ++k) {
    f.store({k});
    f.touch({k});
  }
  CHECK(f.arc.b1().size() <= 2);
  CHECK(f.arc.b2().size() == 2);
}

TEST_CASE("a ghost that is stored again enters T1 and is no ghost any more", "[eviction][unit]") {
  ArcFixture f(2);
  f.store({1, 2});
  f.store({3});
  CHECK(f.arc.b1().contains(key(1)));
  f.store({1});
  CHECK_FALSE(f.arc.b1().contains(key(1)));
  CHECK(f.arc.t1_size() == 2);
  CHECK(f.arc.t2_size() == 0);
}

TEST_CASE("ARC's touch order gives the head of a prefix the longest life", "[eviction][unit]") {
  ArcFixture f(4);
  f.store({1, 2, 3, 4});
  f.touch({3, 4});
  f.touch({1, 3, 4});
  CHECK(f.arc.t1_size() == 1);
  CHECK(f.arc.t2_size() == 3);
  CHECK(*f.prepare_store({5}) == Stored{{5}, {1}, {2}});
  CHECK(f.prepare_store({6, 7})->evicted == Names{4, 3});
}

TEST_CASE("a failed store leaves no trace in ARC, its victim stays a ghost", "[eviction][unit]") {
  ArcFixture f(4);
  f.store({1, 2, 3, 4});
  CHECK(f.prepare_store({5})->evicted == Names{1});
  f.complete_store({5}, false);
  CHECK(f.lookup(5) == ChunkState::absent);
  CHECK(f.arc.t1_size() == 3);
  CHECK(f.arc.t2_size() == 0);
  CHECK(names(f.arc.b1().keys()) == Names{1});
  CHECK_FALSE(f.arc.b1().contains(key(5)));
}

TEST_CASE("a full ARC story", "[eviction][unit]") {
  ArcFixture f(4);
  f.store({1, 2});
  CHECK(f.prepare_store({3, 4, 5})->evicted == Names{1});
  f.complete_store({3, 4, 5});
  f.touch({2, 3});
  CHECK(f.arc.t1_size() == 2);
  CHECK(f.arc.t2_size() == 2);
  CHECK(f.prepare_store({6})->evicted == Names{4});
  f.complete_store({6});
  CHECK(f.lookup(2) == ChunkState::ready);
  CHECK(f.lookup(3) == ChunkState::ready);
  CHECK(f.cache.remove(key(6)));
  CHECK_FALSE(f.arc.b1().contains(key(6)));
  CHECK(f.broken_identity() == "");
  f.cache.reset();
  CHECK(f.arc.t1_size() + f.arc.t2_size() + f.arc.b1().size() + f.arc.b2().size() == 0);
  CHECK(f.arc.target() == 0.0);
}

}  // namespace
}  // namespace kv_offload::test
