#include "kv_offload/messages/broken_promise.hpp"
#include "kv_offload/tests/support/primary_fixture.hpp"

#include <catch2/catch.hpp>

// Pins, holds, quarantine, reset: who keeps a chunk, and what happens to slots that I/O may still touch.
namespace kv_offload::test {
namespace {

using Ids = std::vector<ChunkId>;
using Names = std::vector<int>;

struct InUse {
  explicit InUse(std::size_t n) : counts(new std::atomic<std::uint32_t>[n]()) {}
  std::unique_ptr<std::atomic<std::uint32_t>[]> counts;
  std::atomic<std::uint32_t>& operator[](std::size_t i) { return counts[i]; }
};

TEST_CASE("a held chunk is not evictable, and gets its place when the last hold goes",
          "[primary][unit]") {
  PrimaryFixture f(3);
  f.store({1, 2, 3});
  REQUIRE(f.cache.try_hold(f.slot(1)));
  REQUIRE(f.cache.try_hold(f.slot(1)));
  CHECK(f.cache.holds(f.slot(1)) == 2);
  CHECK(f.cache.counters().held == 1);
  CHECK(f.cache.counters().evictable == 2);
  CHECK_FALSE(f.prepare_store({4, 5, 6}).has_value());
  f.cache.release_hold(f.slot(1));
  CHECK(f.cache.counters().evictable == 2);
  f.cache.release_hold(f.slot(1));
  CHECK(f.cache.counters().evictable == 3);
  CHECK(f.leave_order() == Names{2, 3, 1});
}

TEST_CASE("pins and holds together keep until both are gone", "[primary][unit]") {
  PrimaryFixture f(2);
  f.store({1});
  const ChunkId c = f.slot(1);
  REQUIRE(f.cache.try_hold(c));
  REQUIRE(f.cache.pin(c));
  f.cache.release_hold(c);
  CHECK(f.cache.counters().evictable == 0);
  REQUIRE(f.cache.try_hold(c));
  f.cache.unpin(c);
  CHECK(f.cache.counters().evictable == 0);
  f.cache.release_hold(c);
  CHECK(f.cache.counters().evictable == 1);
  CHECK(f.broken_identity() == "");
}

TEST_CASE("the number of distinct held chunks is bounded, and refusals are counted",
          "[primary][unit]") {
  PrimaryFixture f({.num_chunks = 4, .hold_chunks_max = 2});
  f.store({1, 2});
  f.prepare_store({3});
  CHECK(f.cache.try_hold(f.slot(1)));
  CHECK(f.cache.try_hold(f.slot(3)));        // writing: counts at once
  CHECK_FALSE(f.cache.try_hold(f.slot(2)));  // a third one
  CHECK(f.cache.try_hold(f.slot(1)));        // nested: no new chunk
  CHECK(f.cache.counters().holds_refused == 1);
  CHECK(f.cache.counters().held == 2);
  f.complete_store({3}, false);  // the hold ends with the chunk
  CHECK(f.cache.counters().held == 1);
  CHECK(f.cache.try_hold(f.slot(2)));
  CHECK_FALSE(f.cache.try_hold(3));  // no key there
  CHECK_FALSE(f.cache.try_hold(99));
  CHECK(f.cache.counters().holds_refused == 1);
}

TEST_CASE("a chunk published under a hold is ready but not evictable", "[primary][unit]") {
  const auto policy = GENERATE(as<std::string>{}, "lru", "arc", "s3fifo");
  PrimaryFixture f(2, policy);
  f.prepare_store({1, 2});
  REQUIRE(f.cache.try_hold(f.slot(1)));
  f.complete_store({1, 2});
  CHECK(f.lookup(1) == ChunkState::ready);
  CHECK(f.cache.counters().evictable == 1);
  CHECK(f.prepare_store({3})->evicted == Names{2});
  f.cache.release_hold(f.slot(1));
  CHECK(f.cache.counters().evictable == 1);
  CHECK(f.broken_identity() == "");
}

TEST_CASE("only ready chunks can be pinned", "[primary][unit]") {
  PrimaryFixture f(2);
  f.prepare_store({1});
  CHECK_FALSE(f.cache.pin(f.slot(1)));
  CHECK_FALSE(f.cache.pin(1));
  CHECK_FALSE(f.cache.pin(kNoChunk));
  f.complete_store({1});
  CHECK(f.cache.pin(f.slot(1)));
  CHECK(f.cache.pins(f.slot(1)) == 1);
  CHECK(f.cache.counters().pinned == 1);
}

TEST_CASE("every hand-out raises the slot's generation, and stale releases miss",
          "[primary][unit]") {
  PrimaryFixture f(1);
  f.store({1});
  const auto old = f.cache.generation(0);
  CHECK(f.cache.key_of(0) == key(1));
  f.cache.reset();
  CHECK(f.cache.key_of(0).empty());
  f.store({2});
  CHECK(f.cache.generation(0) == old + 1);
  REQUIRE(f.cache.pin(0));
  REQUIRE(f.cache.try_hold(0));
  f.cache.unpin(0, old);
  f.cache.release_hold(0, old);
  CHECK(f.cache.pins(0) == 1);
  CHECK(f.cache.holds(0) == 1);
  f.cache.unpin(0, old + 1);
  f.cache.release_hold(0, old + 1);
  f.cache.unpin(0, old + 1);  // nothing left to release
  CHECK(f.cache.counters().evictable == 1);
  CHECK(f.cache.generation(77) == 0);
}

TEST_CASE("a quarantined slot is handed out to nobody until it is released", "[primary][unit]") {
  PrimaryFixture f(2);
  f.prepare_store({1, 2});
  f.cache.drop_writing(f.chunks({1}), true);
  CHECK(f.lookup(1) == ChunkState::absent);
  f.complete_store({2}, false);
  CHECK(f.cache.counters().quarantined == 1);
  CHECK(f.cache.counters().free == 1);
  CHECK_FALSE(f.prepare_store({3, 4}).has_value());
  CHECK(f.cache.reclaim_quarantined() == 0);  // a transfer's quarantine ends with the transfer only
  f.cache.release_quarantined(0);
  f.cache.release_quarantined(0);  // twice is once
  CHECK(f.cache.counters().quarantined == 0);
  CHECK(f.prepare_store({3, 4})->chunks == Ids{0, 1});
  CHECK(f.broken_identity() == "");
}

TEST_CASE("reset forgets everything and numbers slots from 0 again", "[primary][unit]") {
  PrimaryFixture f(4);
  f.store({1, 2, 3});
  f.prepare_load({1});
  f.prepare_store({4});
  REQUIRE(f.cache.try_hold(f.slot(2)));
  const auto list = keys({5});
  f.cache.reset();
  const auto c = f.cache.counters();
  CHECK(c.resident + c.pinned + c.held + c.evictable + c.write_pending + c.allocated == 0);
  CHECK(c.free == 4);
  CHECK(f.lookup(1) == ChunkState::absent);
  CHECK(f.prepare_store({7, 8})->chunks == Ids{0, 1});
  CHECK(f.broken_identity() == "");
}

TEST_CASE("reset keeps queued events and adds none", "[primary][unit]") {
  PrimaryFixture f(2);
  f.cache.publish(f.cache.reserve_store(keys({1}))->chunks);
  f.cache.reset();
  const auto events = f.cache.take_events();
  REQUIRE(events.size() == 1);
  CHECK_FALSE(events[0].removed);
}

TEST_CASE("reset passes over slots that are quarantined or in use", "[primary][unit]") {
  InUse in_use(4);
  PrimaryFixture f({.num_chunks = 4}, "lru", in_use.counts.get());
  f.store({1, 2, 3});
  f.prepare_load({2});
  in_use[1] = 1;  // a caller reads 2 in slot 1
  f.prepare_store({4});
  f.cache.drop_writing(f.chunks({4}), true);  // slot 3, its transfer overdue
  f.cache.reset();
  CHECK(f.cache.counters().quarantined == 2);
  CHECK(f.cache.counters().allocated == 2);
  CHECK(f.cache.counters().busy() == 2);
  CHECK(f.prepare_store({5, 6})->chunks == Ids{0, 2});
  f.complete_store({5, 6});
  CHECK(f.cache.reclaim_quarantined() == 0);
  in_use[1] = 0;
  CHECK(f.cache.reclaim_quarantined() == 1);
  f.cache.release_quarantined(3);
  CHECK(f.prepare_store({7, 8})->chunks == Ids{3, 1});  // 3 was never used since the reset
  CHECK(f.cache.counters().reused_in_use == 0);
  CHECK(f.broken_identity() == "");
}

TEST_CASE("a slot released while in use waits until it is not", "[primary][unit]") {
  InUse in_use(1);
  PrimaryFixture f({.num_chunks = 1}, "lru", in_use.counts.get());
  f.prepare_store({1});
  in_use[0] = 1;
  f.cache.drop_writing(f.chunks({1}), true);
  f.cache.release_quarantined(0);
  CHECK(f.cache.counters().free == 0);
  in_use[0] = 0;
  CHECK(f.cache.reclaim_quarantined() == 1);
  CHECK(f.cache.counters().free == 1);
  CHECK(f.cache.counters().reused_in_use == 0);
}

TEST_CASE("a free slot in use is not handed out, and counted as a broken promise",
          "[primary][unit]") {
  InUse in_use(4);
  PrimaryFixture f({.num_chunks = 4}, "lru", in_use.counts.get());
  f.store({1, 2});
  f.complete_store({1, 2});
  CHECK(f.cache.remove(key(1)));
  in_use[0] = 1;  // freed
  in_use[2] = 1;  // never used
  CHECK(f.prepare_store({3})->chunks == Ids{3});
  CHECK(f.cache.counters().reused_in_use == 1);  // slot 0 was not among the candidates
  CHECK_FALSE(f.prepare_store({4, 5}).has_value());
  CHECK(f.cache.counters().reused_in_use == 2);
  CHECK(f.prepare_store({4})->chunks == Ids{1});
  in_use[0] = 0;
  in_use[2] = 0;
  CHECK(f.cache.reclaim_quarantined() == 2);
  CHECK(f.broken_identity() == "");
}

TEST_CASE("a victim whose slot is in use makes room for nobody, another one goes",
          "[primary][unit]") {
  InUse in_use(3);
  PrimaryFixture f({.num_chunks = 3, .events = true}, "lru", in_use.counts.get());
  f.store({1, 2, 3});
  in_use[0] = 1;
  f.events.clear();
  const auto got = f.prepare_store({4});
  REQUIRE(got.has_value());
  CHECK(*got == Stored{{4}, {1}, {1, 2}});
  CHECK(f.events.size() == 1);
  CHECK(f.cache.counters().reused_in_use == 1);
  CHECK(f.broken_identity() == "");
}

TEST_CASE("a failed write frees its slots, most recent first", "[primary][unit]") {
  PrimaryFixture f(3);
  f.prepare_store({1, 2, 3});
  f.cache.drop_writing(f.chunks({1, 2, 3}), false);
  CHECK(f.prepare_store({4, 5})->chunks == Ids{2, 1});
  f.cache.publish(f.chunks({4}));
  f.cache.drop_writing(f.chunks({4}), false);  // ready: ignored
  CHECK(f.lookup(4) == ChunkState::ready);
}

#ifdef NDEBUG
TEST_CASE("slots that nobody knows are ignored in release builds", "[primary][unit]") {
  PrimaryFixture f(2);
  f.store({1});
  const Ids unknown{5, kNoChunk, 1};
  f.cache.publish(unknown);
  f.cache.drop_writing(unknown, false);
  for (const ChunkId c : unknown) {
    f.cache.unpin(c);
    f.cache.release_hold(c);
    f.cache.release_quarantined(c);
  }
  f.cache.unpin(0);
  CHECK(f.broken_identity() == "");
  CHECK(f.cache.counters().evictable == 1);
}
#endif

#ifdef KV_OFFLOAD_TEST_FAULTS
struct Break {
  explicit Break(int promise) { broken_promise_switch() = promise; }
  ~Break() { broken_promise_switch() = 0; }
};

TEST_CASE("broken on purpose: a quarantined slot is free at once, and the counter tells",
          "[primary][unit]") {
  const Break broken(6);
  InUse in_use(1);
  PrimaryFixture f({.num_chunks = 1}, "lru", in_use.counts.get());
  f.prepare_store({1});
  in_use[0] = 1;
  f.cache.drop_writing(f.chunks({1}), true);
  CHECK(f.cache.counters().free == 1);
  CHECK_FALSE(f.prepare_store({2}).has_value());
  CHECK(f.cache.counters().reused_in_use == 1);
}

TEST_CASE("broken on purpose: the removed event follows the stored one", "[primary][unit]") {
  const Break broken(7);
  PrimaryFixture f(1);
  f.store({1});
  f.events.clear();
  f.store({2});
  REQUIRE(f.events.size() == 2);
  CHECK_FALSE(f.events[0].removed);
  CHECK(f.events[1].removed);
}
#endif

}  // namespace
}  // namespace kv_offload::test
