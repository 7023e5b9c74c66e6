#include "kv_offload/tests/support/naive_primary.hpp"
#include "kv_offload/tests/support/primary_fixture.hpp"

#include <catch2/catch.hpp>

namespace kv_offload::test {
namespace {

using Names = std::vector<int>;
using Ids = std::vector<ChunkId>;

constexpr ChunkId kChunks = 24;
constexpr int kKeys = 60;
constexpr int kOps = 20'000;

/// Plays one random, legal operation after the other on a PrimaryCache and on the model.
class Duel {
 public:
  Duel(const std::string& policy, std::uint64_t seed)
      : random_(seed),
        in_use_(new std::atomic<std::uint32_t>[kChunks]()),
        real_({.num_chunks = kChunks, .headroom_chunks = 3, .hold_chunks_max = 6, .events = true},
              policy, in_use_.get()),
        model_(kChunks, 3, 6, policy) {}

  void step() {
    switch (pick(24)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4: return store();
      case 5:
      case 6: return promote();
      case 7:
      case 8:
      case 9:
      case 10:
      case 11:
      case 12: return finish_write();
      case 13:
      case 14: return pin();
      case 15:
      case 16: return unpin();
      case 17: return hold();
      case 18: return release_hold();
      case 19:
      case 20:
      case 21: return touch();
      case 22: return pick(3) == 0 ? remove() : release_quarantined();
      default: return pick(60) == 0 ? reset() : touch();
    }
  }

  void compare() {
    std::vector<NaivePrimary::Event> events;
    for (const auto& e : real_.cache.take_events())
      events.push_back({e.removed, names(e.keys), e.chunk_ids});
    REQUIRE(events == model_.events);
    model_.events.clear();
    for (int k = 0; k < kKeys; ++k) {
      const auto found = real_.cache.find(key(k));
      const auto it = model_.entries.find(k);
      if (it == model_.entries.end()) {
        REQUIRE(found.state == ChunkState::absent);
        continue;
      }
      REQUIRE(found ==
              PrimaryCache::Found{it->second.ready ? ChunkState::ready : ChunkState::writing,
                                  it->second.chunk});
      REQUIRE(real_.cache.pins(found.chunk) == static_cast<std::uint32_t>(it->second.pins));
      REQUIRE(real_.cache.holds(found.chunk) == static_cast<std::uint32_t>(it->second.holds));
      REQUIRE(real_.cache.key_of(found.chunk) == key(k));
    }
    const auto c = real_.cache.counters();
    REQUIRE(c.free == model_.free());
    REQUIRE(c.allocated == kChunks - model_.unused());
    REQUIRE(c.resident == model_.entries.size());
    REQUIRE(c.evictable == model_.evictable());
    REQUIRE(c.write_pending == model_.writing());
    REQUIRE(c.pinned == model_.pinned());
    REQUIRE(c.held == model_.held());
    REQUIRE(c.quarantined == model_.quarantined.size());
    REQUIRE(c.holds_refused == model_.holds_refused);
    REQUIRE(c.evictions == model_.evictions);
    REQUIRE(c.promotions_evicted_unread == model_.evicted_unread);
    REQUIRE(c.reused_in_use == 0);
    REQUIRE(c.events_dropped == 0);
    AllocationSizes sizes;
    for (const auto s : model_.samples) sizes.add(s);
    REQUIRE(c.allocation_sizes == sizes);
    REQUIRE(real_.broken_identity() == "");
  }
  [[nodiscard]] const NaivePrimary& model() const { return model_; }
  int resets = 0, refused = 0;

 private:
  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  Names some_keys(int max) {
    Names out(static_cast<std::size_t>(1 + pick(max)));
    for (int& k : out) k = pick(2) == 0 ? pick(kKeys) : pick(kKeys / 4);  // some keys are popular
    return out;
  }
  /// A random key for which `what` holds; -1: none.
  template <class F>
  int some_entry(F what) {
    Names fit;
    for (const auto& [k, e] : model_.entries)
      if (what(e)) fit.push_back(k);
    return fit.empty() ? -1 : fit[static_cast<std::size_t>(pick(static_cast<int>(fit.size())))];
  }
  ChunkId slot(int k) const { return model_.entries.at(k).chunk; }

  void store() {
    const Names call = some_keys(7);
    Ids slots;
    const auto expected = model_.reserve_store(call, slots);
    const auto got = real_.cache.reserve_store(keys(call));
    REQUIRE(got.has_value() == expected.has_value());
    if (!got) return void(++refused);
    Names stored;
    for (const auto i : got->key_idx) stored.push_back(call[i]);
    REQUIRE(stored == *expected);
    REQUIRE(got->chunks == slots);
    if (!stored.empty()) writes_.push_back(stored);
  }
  void promote() {
    Names call;
    for (const int k : some_keys(7))
      if (!model_.entries.contains(k) && std::find(call.begin(), call.end(), k) == call.end())
        call.push_back(k);
    Ids slots, real_slots;
    const auto granted = model_.reserve_promotion(call, slots);
    REQUIRE(real_.cache.reserve_promotion(keys(call), real_slots) == granted);
    REQUIRE(real_slots == slots);
    if (granted > 0)
      writes_.push_back({call.begin(), call.begin() + static_cast<std::ptrdiff_t>(granted)});
  }
  void finish_write() {
    if (writes_.empty()) return;
    const auto i = static_cast<std::size_t>(pick(static_cast<int>(writes_.size())));
    const Names write = writes_[i];
    writes_.erase(writes_.begin() + static_cast<std::ptrdiff_t>(i));
    Names good, bad;
    for (const int k : write) (pick(5) == 0 ? bad : good).push_back(k);
    Ids good_slots, bad_slots;
    for (const int k : good) good_slots.push_back(slot(k));
    for (const int k : bad) bad_slots.push_back(slot(k));
    const bool quarantine = pick(2) == 0;
    if (quarantine)
      for (const ChunkId c : bad_slots) ++in_use_[c], overdue_.push_back(c);
    model_.publish(good);
    model_.drop_writing(bad, quarantine);
    real_.cache.publish(good_slots);
    real_.cache.drop_writing(bad_slots, quarantine);
  }
  void release_quarantined() {
    if (overdue_.empty()) return;
    const auto i = static_cast<std::size_t>(pick(static_cast<int>(overdue_.size())));
    const ChunkId c = overdue_[i];
    overdue_.erase(overdue_.begin() + static_cast<std::ptrdiff_t>(i));
    if (--in_use_[c] > 0) return;  // two readers before the reset: the last one releases
    model_.release(c);
    real_.cache.release_quarantined(c);
  }
  void pin() {
    const int k = some_entry([](const auto& e) { return e.ready; });
    if (k < 0) return;
    ++in_use_[slot(k)];
    model_.pin(k);
    REQUIRE(real_.cache.pin(slot(k)));
  }
  void unpin() {
    const int k = some_entry([](const auto& e) { return e.pins > 0; });
    if (k < 0) return;
    --in_use_[slot(k)];
    model_.unpin(k);
    real_.cache.unpin(slot(k), real_.cache.generation(slot(k)));
  }
  void hold() {
    const int k = some_entry([](const auto&) { return true; });
    if (k < 0) return;
    const bool held = model_.hold(k);
    REQUIRE(real_.cache.try_hold(slot(k)) == held);
  }
  void release_hold() {
    const int k = some_entry([](const auto& e) { return e.holds > 0; });
    if (k < 0) return;
    model_.release_hold(k);
    real_.cache.release_hold(slot(k));
  }
  void touch() {
    const Names call = some_keys(9);
    model_.policy->touch(call);
    real_.cache.touch(keys(call));
  }
  void remove() {
    const int k = pick(kKeys);
    const bool removed = model_.remove(k);
    REQUIRE(real_.cache.remove(key(k)) == removed);
  }
  void reset() {
    ++resets;
    std::set<ChunkId> in_use;
    for (const auto& [k, e] : model_.entries)
      for (int i = 0; i < e.pins; ++i) overdue_.push_back(e.chunk);
    for (ChunkId c = 0; c < kChunks; ++c)
      if (in_use_[c] > 0) in_use.insert(c);
    writes_.clear();
    model_.reset(in_use);
    real_.cache.reset();
  }

  std::mt19937_64 random_;
  std::unique_ptr<std::atomic<std::uint32_t>[]> in_use_;
  PrimaryFixture real_;
  NaivePrimary model_;
  std::vector<Names> writes_;  // reserved, not finished
  Ids overdue_;                // slots that a transfer or a reader from before a reset still uses
};

TEST_CASE("a primary tier behaves like the straight-line model in every step", "[primary][unit]") {
  const auto policy = GENERATE(as<std::string>{}, "lru", "arc", "s3fifo");
  const std::uint64_t seed = test_seed();
  INFO("policy " << policy << ", KV_OFFLOAD_TEST_SEED=" << seed);
  Duel duel(policy, seed);
  for (int op = 0; op < kOps; ++op) {
    INFO("operation " << op);
    duel.step();
    duel.compare();
  }
  // The story must have met every corner, or it proves little.
  CHECK(duel.resets > 2);
  CHECK(duel.refused > 20);
  CHECK(duel.model().evictions > 500);
  CHECK(duel.model().holds_refused > 5);
}

}  // namespace
}  // namespace kv_offload::test
