#include "kv_offload/tests/support/primary_fixture.hpp"
#include "kv_offload/tiers/eviction/lru_policy.hpp"

#include <catch2/catch.hpp>

// The behaviour of a primary tier without secondary tiers, as step-driven embedders know it.
namespace kv_offload::test {
namespace {

using Ids = std::vector<ChunkId>;
using Names = std::vector<int>;

std::vector<Names> stored_events(const std::vector<OffloadingEvent>& events, bool removed) {
  std::vector<Names> out;
  for (const auto& e : events)
    if (e.removed == removed) out.push_back(names(e.keys));
  return out;
}

TEST_CASE("a stored key named in the call is never the victim", "[primary][unit]") {
  const auto policy = GENERATE(as<std::string>{}, "lru", "arc", "s3fifo");
  CAPTURE(policy);
  PrimaryFixture f(4, policy);
  f.store({1, 2});
  f.touch({1});  // 2 is now the oldest
  const auto got = f.prepare_store({2, 3, 4, 5});
  REQUIRE(got.has_value());
  CHECK(*got == Stored{{3, 4, 5}, {2, 3, 0}, {1}});
  f.complete_store({2, 3, 4, 5});
  CHECK(f.lookup(2) == ChunkState::ready);
  CHECK(f.broken_identity() == "");
}

TEST_CASE("a long LRU story: slots, victims, touch order, pins, failed stores, events",
          "[primary][unit]") {
  PrimaryFixture f(4);
  CHECK(*f.prepare_store({1, 2}) == Stored{{1, 2}, {0, 1}, {}});
  CHECK(f.lookup(1) == ChunkState::writing);
  CHECK(f.lookup(2) == ChunkState::writing);
  CHECK(f.events.empty());
  f.complete_store({1, 2});
  CHECK(stored_events(f.events, false) == std::vector<Names>{{1, 2}});
  f.events.clear();
  CHECK(f.lookup(1) == ChunkState::ready);
  CHECK(f.lookup(3) == ChunkState::absent);

  CHECK(*f.prepare_store({2, 3, 4, 5}) == Stored{{3, 4, 5}, {2, 3, 0}, {1}});
  CHECK(stored_events(f.events, true) == std::vector<Names>{{1}});
  CHECK_FALSE(f.prepare_store({1, 6}).has_value());  // all but 2 is being written
  CHECK(f.lookup(2) == ChunkState::ready);
  f.complete_store({2, 3, 4, 5});
  f.events.clear();

  CHECK(f.prepare_load({2, 3}) == Ids{1, 2});
  CHECK_FALSE(f.prepare_store({6, 7, 8}).has_value());
  f.complete_load({2, 3});
  // The loads that ended made 2 and 3 the most recent ones.
  CHECK(*f.prepare_store({6, 7, 8}) == Stored{{6, 7, 8}, {1, 0, 3}, {4, 5, 2}});
  f.complete_store({6, 7, 8});
  f.touch({5, 6, 7});  // 5 is gone; last key first: 6 ends up most recent
  CHECK(*f.prepare_store({9, 10}) == Stored{{9, 10}, {3, 2}, {3, 8}});
  f.complete_store({7, 9}, false);
  CHECK(f.lookup(7) == ChunkState::ready);
  CHECK(f.lookup(9) == ChunkState::absent);
  CHECK(stored_events(f.events, false) == std::vector<Names>{{6, 7, 8}});
  CHECK(stored_events(f.events, true) == std::vector<Names>{{4, 5, 2}, {3, 8}});
  f.complete_store({10});
  CHECK(f.leave_order() == Names{7, 6, 10});
  CHECK(f.broken_identity() == "");
}

TEST_CASE("touch order under LRU: the head of a prefix stays longest", "[primary][unit]") {
  PrimaryFixture f(5);
  f.store({1, 2, 3, 4, 5});
  f.touch({1, 3, 5, 99});  // 99 was never here
  CHECK(f.leave_order() == Names{2, 4, 5, 3, 1});
}

TEST_CASE("touch ignores chunks that are pinned or being written", "[primary][unit]") {
  PrimaryFixture f(4);
  f.store({1, 2, 3});
  f.prepare_store({4});
  f.prepare_load({1});
  f.touch({4, 1, 2});
  f.complete_store({4});
  f.complete_load({1});
  CHECK(f.leave_order() == Names{3, 2, 4, 1});
}

TEST_CASE("slots stay with their keys whatever order a load names them in", "[primary][unit]") {
  PrimaryFixture f(4);
  f.store({10, 11, 12});
  CHECK(f.prepare_load({10, 11, 12}) == Ids{0, 1, 2});
  f.complete_load({12, 10, 11});
  CHECK(f.prepare_load({11, 12, 10}) == Ids{1, 2, 0});
}

TEST_CASE("the removed event of a victim precedes the stored event that reuses its slot",
          "[primary][unit]") {
  PrimaryFixture f(2);
  f.store({1, 2});
  f.events.clear();
  f.store({3});
  REQUIRE(f.events.size() == 2);
  CHECK(f.events[0].removed);
  CHECK(names(f.events[0].keys) == Names{1});
  CHECK(f.events[0].chunk_ids == Ids{0});
  CHECK(f.events[0].medium == Medium::cpu);
  CHECK_FALSE(f.events[1].removed);
  CHECK(names(f.events[1].keys) == Names{3});
  CHECK(f.events[1].chunk_ids == Ids{0});
}

TEST_CASE("one call makes one event, and a failed store makes none", "[primary][unit]") {
  PrimaryFixture f(4);
  f.store({1, 2, 3, 4});
  f.events.clear();
  f.prepare_store({5, 6, 7});
  REQUIRE(f.events.size() == 1);
  CHECK(names(f.events[0].keys) == Names{1, 2, 3});
  f.complete_store({5, 6, 7}, false);
  f.complete_store({4});  // was ready already
  CHECK(f.events.size() == 1);
}

TEST_CASE("without events nothing is recorded", "[primary][unit]") {
  PrimaryFixture f({.num_chunks = 1, .events = false});
  f.store({1});
  f.store({2});
  CHECK(f.cache.remove(key(2)));
  CHECK(f.events.empty());
  CHECK(f.cache.take_events().empty());
}

TEST_CASE("the event queue is bounded: the oldest goes and is counted", "[primary][unit]") {
  PrimaryFixture f({.num_chunks = 4, .events = true, .events_max = 2});
  for (int k = 1; k <= 4; ++k) {
    const auto got = f.cache.reserve_store(keys({k}));
    f.cache.publish(got->chunks);
  }
  const auto events = f.cache.take_events();
  REQUIRE(events.size() == 2);
  CHECK(names(events[0].keys) == Names{3});
  CHECK(f.cache.counters().events_dropped == 2);
  CHECK(f.cache.take_events().empty());
}

TEST_CASE("a refused reservation changes nothing but the size sample", "[primary][unit]") {
  const auto policy = GENERATE(as<std::string>{}, "lru", "arc", "s3fifo");
  CAPTURE(policy);
  PrimaryFixture f(4, policy);
  f.store({1, 2, 3});
  f.prepare_load({1});
  const auto before = f.cache.counters();
  CHECK_FALSE(f.prepare_store({2, 10, 11, 12}).has_value());  // 3 may go, 1 is pinned, 2 is named
  const auto after = f.cache.counters();
  CHECK(after.allocation_sizes.count() == before.allocation_sizes.count() + 1);
  CHECK(after.allocation_sizes.sum() == before.allocation_sizes.sum() + 3);
  CHECK(after.free == before.free);
  CHECK(after.evictable == before.evictable);
  CHECK(after.evictions == before.evictions);
  CHECK(f.lookup(10) == ChunkState::absent);
  CHECK(*f.prepare_store({10, 11}) ==
        Stored{{10, 11}, {3, 1}, {2}});  // next slots as if never asked
  CHECK(f.broken_identity() == "");
}

TEST_CASE("keys that somebody else is writing are neither stored nor refused", "[primary][unit]") {
  PrimaryFixture f(2);
  f.prepare_store({1, 2});
  const auto got = f.prepare_store({2, 1});
  REQUIRE(got.has_value());
  CHECK(*got == Stored{});
  CHECK(f.cache.counters().allocation_sizes.count() == 1);  // an empty reservation is no sample
}

TEST_CASE("a key named twice in one call is stored once", "[primary][unit]") {
  PrimaryFixture f(4);
  const auto got = f.cache.reserve_store(keys({7, 8, 7, 8, 9}));
  REQUIRE(got.has_value());
  CHECK(got->key_idx == std::vector<std::uint32_t>{0, 1, 4});
  CHECK(got->chunks == Ids{0, 1, 2});
  CHECK(f.cache.counters().allocation_sizes.sum() == 3);
  CHECK(f.broken_identity() == "");
}

TEST_CASE("a tier of no chunks refuses and reports zeros", "[primary][unit]") {
  const auto policy = GENERATE(as<std::string>{}, "lru", "arc", "s3fifo");
  PrimaryFixture f(0, policy);
  CHECK_FALSE(f.prepare_store({1}).has_value());
  Ids chunks;
  CHECK(f.cache.reserve_promotion(keys({1}), chunks) == 0);
  f.touch({1});
  f.cache.reset();
  CHECK(f.cache.counters().busy() == 0);
  CHECK(f.broken_identity() == "");
}

TEST_CASE("usage follows what is pinned or being written and is 0 when idle", "[primary][unit]") {
  PrimaryFixture f(4);
  struct Usage {
    ChunkId busy, writing;
    bool operator==(const Usage&) const = default;
  };
  const auto usage = [&] {
    return Usage{f.cache.counters().busy(), f.cache.counters().write_pending};
  };
  CHECK(usage() == Usage{0, 0});
  f.prepare_store({1, 2});
  CHECK(usage() == Usage{2, 2});
  f.prepare_store({3, 4});
  CHECK(usage() == Usage{4, 4});
  f.complete_store({1, 2, 3, 4});
  CHECK(usage() == Usage{0, 0});
  CHECK(f.cache.counters().resident == 4);  // full, and yet nothing is in use
  f.prepare_load({1});
  f.prepare_store({5});
  CHECK(usage() == Usage{2, 1});
  f.complete_store({5}, false);
  CHECK(usage() == Usage{1, 0});
  f.complete_load({1});
  CHECK(usage() == Usage{0, 0});
}

TEST_CASE("the evictable count through store, nested loads, eviction, failure and reset",
          "[primary][unit]") {
  PrimaryFixture f(4);
  const auto evictable = [&] { return f.cache.counters().evictable; };
  f.prepare_store({1, 2, 3});
  CHECK(evictable() == 0);
  f.complete_store({1, 2, 3});
  CHECK(evictable() == 3);
  f.prepare_load({1});
  CHECK(evictable() == 2);
  f.prepare_load({1});
  CHECK(evictable() == 2);
  f.complete_load({1});
  CHECK(evictable() == 2);
  f.complete_load({1});
  CHECK(evictable() == 3);
  f.prepare_store({4, 5, 6});
  CHECK(evictable() == 1);
  f.complete_store({4, 5, 6}, false);
  CHECK(evictable() == 1);
  f.cache.reset();
  CHECK(evictable() == 0);
  f.store({10, 11, 12});
  f.prepare_load({10, 11, 12});
  CHECK(evictable() == 0);
  CHECK_FALSE(f.prepare_store({14, 15}).has_value());
  f.complete_load({10, 11, 12});
  CHECK(evictable() == 3);
  CHECK(f.prepare_store({14, 15}).has_value());
  CHECK(evictable() == 2);
  f.complete_store({14, 15});
  CHECK(evictable() == 4);
}

TEST_CASE("allocation sizes: one sample per non-empty reservation, refused ones too",
          "[primary][unit]") {
  PrimaryFixture f(20);
  const auto sizes = [&] { return f.cache.counters().allocation_sizes; };
  Names many(17);
  for (int i = 0; i < 17; ++i) many[static_cast<std::size_t>(i)] = 100 + i;
  CHECK(f.prepare_store({1}).has_value());
  CHECK(f.prepare_store({1}).has_value());  // empty: no sample
  CHECK(f.prepare_store({2, 3}).has_value());
  CHECK(f.prepare_store(many).has_value());
  CHECK_FALSE(f.prepare_store({50, 51}).has_value());  // all is being written
  CHECK(sizes().count() == 4);
  CHECK(sizes().sum() == 22);
  CHECK(sizes().cumulative() == std::array<std::uint64_t, 10>{1, 3, 3, 4, 4, 4, 4, 4, 4, 4});
  f.cache.reset();
  CHECK(sizes().count() == 4);  // totals survive a reset
}

/// Counts evictions and can be told to refuse.
class SpyPolicy final : public EvictionPolicy {
 public:
  explicit SpyPolicy(ChunkId n) : inner(n) {}
  void insert(const OffloadKey& k, ChunkId c) override { inner.insert(k, c); }
  void remove(const OffloadKey& k, ChunkId c) override { inner.remove(k, c); }
  void mark_evictable(ChunkId c) override { inner.mark_evictable(c); }
  void mark_non_evictable(ChunkId c) override { inner.mark_non_evictable(c); }
  void touch(std::span<const OffloadKey> k, std::span<const ChunkId> c) override {
    inner.touch(k, c);
  }
  bool evict(std::size_t n, const ProtectedSlots& keep, std::vector<ChunkId>& out) override {
    ++evict_calls;
    return !refuse && inner.evict(n, keep, out);
  }
  void clear() override { inner.clear(); }
  [[nodiscard]] std::string_view name() const override { return "spy"; }
  LruPolicy inner;
  int evict_calls = 0;
  bool refuse = false;
};

TEST_CASE("with too few evictable chunks the policy is not even asked", "[primary][unit]") {
  auto policy = std::make_unique<SpyPolicy>(4);
  SpyPolicy& spy = *policy;
  PrimaryCache cache({.num_chunks = 4}, std::move(policy), nullptr);
  const auto got = cache.reserve_store(keys({1, 2, 3}));
  CHECK_FALSE(cache.reserve_store(keys({4, 5})).has_value());
  CHECK(spy.evict_calls == 0);
  cache.publish(got->chunks);
  CHECK(cache.reserve_store(keys({4, 5})).has_value());
  CHECK(spy.evict_calls == 1);
}

TEST_CASE("a policy that finds no victim makes the reservation fail, with a sample",
          "[primary][unit]") {
  auto policy = std::make_unique<SpyPolicy>(2);
  SpyPolicy& spy = *policy;
  PrimaryCache cache({.num_chunks = 2}, std::move(policy), nullptr);
  cache.publish(cache.reserve_store(keys({1, 2}))->chunks);
  spy.refuse = true;
  CHECK_FALSE(cache.reserve_store(keys({3})).has_value());
  CHECK(cache.counters().allocation_sizes.count() == 2);
  CHECK(cache.find(key(1)).state == ChunkState::ready);
  Ids chunks;
  CHECK(cache.reserve_promotion(keys({3}), chunks) == 0);
  CHECK(cache.check_identities(nullptr));
}

#ifdef NDEBUG
TEST_CASE("a policy that names slots it must not cannot make the cache lose them",
          "[primary][unit]") {
  struct WrongPolicy final : EvictionPolicy {
    void insert(const OffloadKey&, ChunkId) override {}
    void remove(const OffloadKey&, ChunkId) override {}
    void mark_evictable(ChunkId) override {}
    void mark_non_evictable(ChunkId) override {}
    void touch(std::span<const OffloadKey>, std::span<const ChunkId>) override {}
    bool evict(std::size_t, const ProtectedSlots&, std::vector<ChunkId>& out) override {
      out.insert(out.end(), {0, 99, kNoChunk, 1, 1});  // pinned, unknown, unknown, right, twice
      return true;
    }
    void clear() override {}
    [[nodiscard]] std::string_view name() const override { return "wrong"; }
  };
  PrimaryCache cache({.num_chunks = 3}, std::make_unique<WrongPolicy>(), nullptr);
  cache.publish(cache.reserve_store(keys({1, 2, 3}))->chunks);
  REQUIRE(cache.pin(0));
  const auto got = cache.reserve_store(keys({4}));
  REQUIRE(got.has_value());
  CHECK(got->chunks == Ids{1});
  CHECK_FALSE(cache.reserve_store(keys({5})).has_value());
  CHECK(cache.find(key(1)).state == ChunkState::ready);
  CHECK(cache.check_identities(nullptr));
}
#endif

TEST_CASE("remove forgets ready, idle chunks only, with a removed event", "[primary][unit]") {
  const auto policy = GENERATE(as<std::string>{}, "lru", "arc", "s3fifo");
  PrimaryFixture f(4, policy);
  f.store({1, 2});
  f.prepare_store({3});
  f.prepare_load({2});
  static_cast<void>(f.cache.take_events());
  CHECK_FALSE(f.cache.remove(key(3)));  // being written
  CHECK_FALSE(f.cache.remove(key(2)));  // pinned
  CHECK_FALSE(f.cache.remove(key(9)));  // never here
  CHECK(f.cache.take_events().empty());
  CHECK(f.cache.remove(key(1)));
  CHECK_FALSE(f.cache.remove(key(1)));
  const auto events = f.cache.take_events();
  REQUIRE(events.size() == 1);
  CHECK(events[0].removed);
  CHECK(names(events[0].keys) == Names{1});
  CHECK(f.cache.counters().free == 2);
  CHECK(f.broken_identity() == "");
}

TEST_CASE("find_all answers like find, key by key", "[primary][unit]") {
  PrimaryFixture f(32);
  f.store({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  f.prepare_store({12});
  Names wanted;
  for (int k = 20; k >= 0; --k) wanted.push_back(k);
  std::vector<PrimaryCache::Found> found(3);
  f.cache.find_all(keys(wanted), found);
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(found[i] == f.cache.find(key(wanted[i])));
  f.cache.find_all({}, found);
  CHECK(found.empty());
}

}  // namespace
}  // namespace kv_offload::test
