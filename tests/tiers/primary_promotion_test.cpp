#include "kv_offload/tests/support/primary_fixture.hpp"

#include <catch2/catch.hpp>

namespace kv_offload::test {
namespace {

using Ids = std::vector<ChunkId>;
using Names = std::vector<int>;

struct Promoted {
  std::uint32_t granted = 0;
  Ids chunks;
};
Promoted promote(PrimaryFixture& f, const Names& which) {
  Promoted out;
  out.granted = f.cache.reserve_promotion(keys(which), out.chunks);
  return out;
}

TEST_CASE("promotions get the longest prefix that leaves the headroom", "[primary][unit]") {
  struct Case {
    ChunkId headroom;
    int stored, pinned, asked;
    std::uint32_t granted;
  };
  const auto c = GENERATE(values<Case>({
      {0, 0, 0, 5, 5},    // an empty tier, no reserve
      {2, 0, 0, 8, 6},    // free slots alone
      {2, 6, 0, 8, 6},    // free and evictable ones together
      {2, 6, 3, 8, 3},    // pinned ones do not count
      {2, 8, 8, 1, 0},    // nothing to be had
      {8, 0, 0, 1, 0},    // all of it is reserved
      {100, 0, 0, 1, 0},  // more than all
      {3, 4, 0, 2, 2},    // all granted
  }));
  CAPTURE(c.headroom, c.stored, c.pinned, c.asked);
  PrimaryFixture f({.num_chunks = 8, .headroom_chunks = c.headroom});
  Names stored, asked;
  for (int i = 0; i < c.stored; ++i) stored.push_back(i);
  for (int i = 0; i < c.asked; ++i) asked.push_back(100 + i);
  f.store(stored);
  f.prepare_load({stored.begin(), stored.begin() + c.pinned});
  const auto before = f.cache.counters();
  const auto got = promote(f, asked);
  CHECK(got.granted == c.granted);
  CHECK(got.chunks.size() == c.granted);
  const auto after = f.cache.counters();
  if (c.granted > 0) CHECK(after.free + after.evictable >= c.headroom);
  CHECK(after.free + after.evictable == before.free + before.evictable - c.granted);
  for (std::uint32_t i = 0; i < c.granted; ++i) CHECK(f.slot(asked[i]) == got.chunks[i]);
  if (c.granted < asked.size()) CHECK(f.lookup(asked[c.granted]) == ChunkState::absent);
  // One sample of 1 for each granted chunk and one for the first that was not.
  const std::uint64_t samples = c.granted + (c.granted < asked.size() ? 1 : 0);
  CHECK(after.allocation_sizes.count() - before.allocation_sizes.count() == samples);
  CHECK(after.allocation_sizes.sum() - before.allocation_sizes.sum() == samples);
  CHECK(f.broken_identity() == "");
}

TEST_CASE("the headroom is there for device stores", "[primary][unit]") {
  PrimaryFixture f({.num_chunks = 4, .headroom_chunks = 2});
  CHECK(promote(f, {1, 2, 3, 4}).granted == 2);
  CHECK(promote(f, {5}).granted == 0);
  CHECK(f.prepare_store({6, 7}).has_value());
}

TEST_CASE("promotions take slots as if reserved one at a time", "[primary][unit]") {
  PrimaryFixture f(5);
  f.store({1, 2, 3});
  f.prepare_store({4});
  f.complete_store({4}, false);  // slot 3 is free, slot 4 was never used
  const auto got = promote(f, {11, 12, 13, 14});
  CHECK(got.chunks == Ids{4, 3, 0, 1});
  const auto events = f.cache.take_events();
  REQUIRE(events.size() == 1);
  CHECK(names(events[0].keys) == Names{1, 2});
}

TEST_CASE("a promoted chunk is published like a stored one", "[primary][unit]") {
  PrimaryFixture f(2);
  const auto got = promote(f, {1, 2});
  CHECK(f.lookup(1) == ChunkState::writing);
  f.cache.publish(Ids{got.chunks[0]});
  f.cache.drop_writing(Ids{got.chunks[1]}, false);  // its bytes were bad
  CHECK(f.lookup(1) == ChunkState::ready);
  CHECK(f.lookup(2) == ChunkState::absent);
  const auto events = f.cache.take_events();
  REQUIRE(events.size() == 1);
  CHECK(names(events[0].keys) == Names{1});
}

TEST_CASE("chunks appended to are kept", "[primary][unit]") {
  PrimaryFixture f(2);
  Ids chunks{42};
  CHECK(f.cache.reserve_promotion(keys({1}), chunks) == 1);
  CHECK(chunks == Ids{42, 0});
  CHECK(f.cache.reserve_promotion({}, chunks) == 0);
  CHECK(f.cache.counters().allocation_sizes.count() == 1);  // asking for nothing is no sample
}

TEST_CASE("promotions evicted before anybody read them are counted", "[primary][unit]") {
  PrimaryFixture f(2);
  const auto got = promote(f, {1, 2});
  f.cache.publish(got.chunks);
  f.prepare_load({1});
  f.complete_load({1});
  f.store({3, 4});
  CHECK(f.cache.counters().evictions == 2);
  CHECK(f.cache.counters().promotions_evicted_unread == 1);
  f.store({5, 6});
  CHECK(f.cache.counters().promotions_evicted_unread == 1);  // stores are not promotions
}

#ifdef NDEBUG
TEST_CASE("a promotion of a key that is there stops before it", "[primary][unit]") {
  PrimaryFixture f(4);
  f.store({2});
  CHECK(promote(f, {1, 2, 3}).granted == 1);
  CHECK(promote(f, {5, 5}).granted == 1);
  CHECK(f.lookup(2) == ChunkState::ready);
  CHECK(f.broken_identity() == "");
}
#endif

}  // namespace
}  // namespace kv_offload::test
