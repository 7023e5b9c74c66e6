#include "kv_offload/tests/support/primary_fixture.hpp"
#include "kv_offload/tiers/eviction/lru_policy.hpp"

#include <catch2/catch.hpp>

namespace kv_offload::test {
namespace {

using Ids = std::vector<ChunkId>;

/// Keeps the slots in `kept` from eviction.
struct Keep {
  explicit Keep(const Ids& kept = {}) : stamps(16, 0) {
    for (const ChunkId c : kept) stamps[c] = 1;
  }
  operator ProtectedSlots() const { return {stamps, 1}; }  // NOLINT: reads like the thing itself
  std::vector<std::uint32_t> stamps;
};

TEST_CASE("LRU victims come oldest first and skip kept slots", "[eviction][unit]") {
  LruPolicy lru(5);
  for (ChunkId c = 0; c < 5; ++c) {
    lru.insert(key(0), c);
    lru.mark_evictable(c);
  }
  Ids victims{77};
  REQUIRE(lru.evict(2, Keep({1}), victims));
  CHECK(victims == Ids{77, 0, 2});  // appended
  REQUIRE(lru.evict(0, Keep(), victims));
  CHECK(victims.size() == 3);
}

TEST_CASE("LRU eviction is all or nothing", "[eviction][unit]") {
  LruPolicy lru(3);
  for (ChunkId c = 0; c < 3; ++c) {
    lru.insert(key(0), c);
    lru.mark_evictable(c);
  }
  lru.mark_non_evictable(1);
  Ids victims;
  CHECK_FALSE(lru.evict(3, Keep(), victims));
  CHECK_FALSE(lru.evict(2, Keep({0}), victims));
  CHECK(victims.empty());
  REQUIRE(lru.evict(2, Keep(), victims));
  CHECK(victims == Ids{0, 2});
  CHECK_FALSE(lru.evict(1, Keep(), victims));
}

TEST_CASE("an LRU chunk gets its place when it becomes evictable", "[eviction][unit]") {
  LruPolicy lru(3);
  for (ChunkId c = 0; c < 3; ++c) lru.insert(key(0), c);
  for (const ChunkId c : {2U, 0U, 1U}) lru.mark_evictable(c);
  lru.mark_non_evictable(2);
  lru.mark_evictable(2);
  Ids victims;
  REQUIRE(lru.evict(3, Keep(), victims));
  CHECK(victims == Ids{0, 1, 2});
}

TEST_CASE("LRU touch goes from the last key to the first and moves evictable chunks only",
          "[eviction][unit]") {
  LruPolicy lru(4);
  for (ChunkId c = 0; c < 4; ++c) {
    lru.insert(key(0), c);
    if (c != 3) lru.mark_evictable(c);
  }
  lru.touch(keys({0, 1, 2, 3}), Ids{0, kNoChunk, 1, 3});
  Ids victims;
  REQUIRE(lru.evict(3, Keep(), victims));
  CHECK(victims == Ids{2, 1, 0});
}

TEST_CASE("LRU forgets removed chunks and everything on clear", "[eviction][unit]") {
  LruPolicy lru(3);
  for (ChunkId c = 0; c < 3; ++c) {
    lru.insert(key(0), c);
    lru.mark_evictable(c);
  }
  lru.remove(key(0), 0);
  Ids victims;
  CHECK_FALSE(lru.evict(3, Keep(), victims));
  lru.clear();
  CHECK_FALSE(lru.evict(1, Keep(), victims));
  lru.insert(key(0), 1);
  lru.mark_evictable(1);
  REQUIRE(lru.evict(1, Keep(), victims));
  CHECK(victims == Ids{1});
}

}  // namespace
}  // namespace kv_offload::test
