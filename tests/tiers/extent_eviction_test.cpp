#include "kv_offload/tests/tiers/extent_fixture.hpp"
#include "kv_offload/tiers/io/scripted_backend.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>

namespace kv_offload {
namespace {

using test::ExtentFixture;
using test::tier_key;
using test::tier_keys;

struct Gate {
  std::atomic<bool> holds_next{false};
  std::atomic<bool> opened{false};
};

/// A device on which one load of a row takes until the gate is opened.
class GatedBackend final : public IoBackend {
 public:
  GatedBackend(Gate& gate, const PrimaryView& rows) : gate_(gate), rows_(rows) {}
  Expected<std::string> open() override { return inner_.open(); }
  bool push(const IoRequest& r) override {
    const bool is_load = r.op == IoOp::read && r.buffer >= rows_.base &&
                         r.buffer < rows_.base + rows_.row_bytes * rows_.num_chunks;
    if (!is_load || !gate_.holds_next) return inner_.push(r);
    held_ = r;
    gate_.holds_next = false;
    return true;
  }
  int submit() override { return inner_.submit(); }
  int reap(std::vector<IoCompletion>& completions, Duration wait) override {
    if (held_ && gate_.opened && inner_.push(*held_)) held_.reset();
    return inner_.reap(completions, wait);
  }
  void wake() override { inner_.wake(); }
  [[nodiscard]] std::size_t in_flight() const override {
    return inner_.in_flight() + (held_ ? 1 : 0);
  }

 private:
  Gate& gate_;
  const PrimaryView rows_;
  std::optional<IoRequest> held_;
  ScriptedBackend inner_;
};

// Files of 6 segments of 8 chunks; one segment is kept free, one is filled.

TEST_CASE("a full file drops its oldest segment and keeps the rest whole", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.start();
  f.store_named(0, 40);  // five segments, the sixth still free
  CHECK(f.present(0, 40).size() == 40);
  f.store_named(40, 4);
  REQUIRE(f.metric_becomes("evicted_segments_total", 1));
  CHECK(f.present(0, 44).front() == 8);
  CHECK(f.present(0, 44).size() == 36);
  f.store_named(44, 400);
  const auto left = f.present(0, 444);
  CHECK(left.size() >= 32);
  CHECK(left.size() <= 48);
  CHECK(left.back() == 443);
  for (std::size_t i = 1; i < left.size(); ++i) CHECK(left[i] == left[i - 1] + 1);
  for (const std::uint64_t name : left) CHECK(f.loads_named(name));
  CHECK(f.load(tier_keys(0, 1), 8).failure == TransferFailure::not_found);
  CHECK(f.metric("resident_chunks") == static_cast<double>(left.size()));
  CHECK(f.metric("evicted_chunks_total") == static_cast<double>(444 - left.size()));
  CHECK(std::filesystem::file_size(f.config.path) == f.config.capacity_bytes);
}

TEST_CASE("chunks that were loaded are rewritten, the others of their segment go", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.config.rewrite_share = 0.25;  // two of eight
  f.start();
  f.store_named(0, 40);
  CHECK(f.loads_named(3));
  for (int i = 0; i < 2; ++i) CHECK(f.loads_named(5));
  for (int i = 0; i < 3; ++i) CHECK(f.loads_named(6));
  f.store_named(40, 1);
  REQUIRE(f.metric_becomes("evicted_segments_total", 1));
  CHECK(f.present(0, 8) == std::vector<std::uint64_t>{5, 6});  // those loaded most often
  CHECK(f.metric("rewritten_chunks_total") == 2);
  CHECK(f.metric("rewrites_dropped_total") == 1);
  f.start();  // the younger copies count
  CHECK(f.present(0, 41).size() == 35);
  CHECK(f.loads_named(5));
  CHECK(f.loads_named(6));
  // Rewritten once and never loaded again before: they went with their new segment.
}

TEST_CASE("without a rewrite share nothing is rewritten", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.config.rewrite_share = 0;
  f.start();
  f.store_named(0, 40);
  CHECK(f.loads_named(3));
  f.store_named(40, 1);
  REQUIRE(f.metric_becomes("evicted_segments_total", 1));
  CHECK(f.present(0, 8).empty());
}

TEST_CASE("what was loaded is still known after a clean restart", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.start();
  f.store_named(0, 40);
  CHECK(f.loads_named(5));
  f.start();
  f.store_named(40, 1);
  REQUIRE(f.metric_becomes("evicted_segments_total", 1));
  CHECK(f.present(0, 8) == std::vector<std::uint64_t>{5});
}

TEST_CASE("lru drops the segment that was loaded from least recently, also after a restart",
          "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.config.segment_eviction = SegmentEviction::lru;
  f.config.rewrite_share = 0;
  f.start();
  f.store_named(0, 40);
  CHECK(f.loads_named(1));   // segment 0
  CHECK(f.loads_named(17));  // segment 2
  CHECK(f.loads_named(9));   // segment 1
  if (GENERATE(false, true)) f.start();
  f.store_named(40, 1);
  REQUIRE(f.metric_becomes("evicted_segments_total", 1));
  CHECK(f.present(0, 40).size() == 32);
  CHECK(f.present(24, 8).empty());  // segment 3: the first of those never loaded from
  f.store_named(41, 8);
  REQUIRE(f.metric_becomes("evicted_segments_total", 2));
  CHECK(f.present(32, 8).empty());
  f.store_named(49, 8);
  REQUIRE(f.metric_becomes("evicted_segments_total", 3));
  CHECK(f.present(0, 8).empty());
  CHECK(f.present(8, 16).size() == 16);
}

TEST_CASE("keys that went are told before the keys that took their place", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.config.enable_kv_events = true;
  f.config.locality = Locality::local;
  f.start();
  f.store_named(0, 40);
  CHECK(f.loads_named(2));
  f.tier->take_events();
  f.store_named(40, 1);
  REQUIRE(f.metric_becomes("evicted_segments_total", 1));
  auto events = f.tier->take_events();
  REQUIRE(events.size() == 2);
  CHECK(std::count_if(events.begin(), events.end(), [](const auto& e) { return e.removed; }) == 1);
  for (const OffloadingEvent& e : events) {
    CHECK(e.medium == Medium::storage);
    CHECK(e.locality == Locality::local);
    if (!e.removed) continue;
    KeyList expected = tier_keys(0, 8);
    expected.erase(expected.begin() + 2);  // rewritten, hence still there
    CHECK(e.keys == expected);
  }
  f.kv_events = false;  // the engine's own switch
  f.start();
  f.store_named(100, 8);
  CHECK(f.tier->take_events().empty());
}

TEST_CASE("a row is not reused under a load of it, however long that takes", "[extent]") {
  Gate gate;
  ExtentFixture::Options options;
  options.make_backend = [&](const LaneOptions& lane) {
    return std::make_unique<GatedBackend>(gate, lane.primary);
  };
  ExtentFixture f(options);
  f.config.rewrite_share = 0;
  f.start();
  f.store_named(0, 40);
  gate.holds_next = true;
  f.memory.clear(15);
  const JobId slow = f.submit(f.job(true, tier_keys(0, 1), 15));
  while (gate.holds_next) f.probe(tier_keys(0, 1));
  // The first segment is the next victim; everything else can be filled meanwhile.
  for (ChunkId i = 0; i < 8; ++i) f.memory.fill(i, 40 + i);
  CHECK(f.store(tier_keys(40, 8)).success);
  CHECK_FALSE(f.has(0));  // it is out of the index,
  CHECK(f.load(tier_keys(0, 1), 14).failure == TransferFailure::not_found);
  const JobId waiting = f.submit(f.job(false, tier_keys(48, 1), 0));
  for (int i = 0; i < 50; ++i) f.probe(tier_keys(1, 1));
  CHECK_FALSE(f.sink.inner.has_ended(slow));
  CHECK_FALSE(f.sink.inner.has_ended(waiting));  // and its room is not given away
  gate.opened = true;
  f.probe(tier_keys(1, 1));  // wakes the lane
  CHECK(f.end_of(slow).success);
  CHECK(f.memory.holds(15, 0));
  CHECK(f.end_of(waiting).success);
  CHECK(f.tier->stats().corrupt_chunks == 0);
}

TEST_CASE("with one row to a segment everything still goes round", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture::Options options;
  options.row_bytes = 65536;
  options.slots_per_segment = 1;
  options.num_segments = 5;
  ExtentFixture f(options);
  f.start();
  f.store_named(0, 50);
  const auto left = f.present(0, 50);
  CHECK(left.size() >= 3);
  CHECK(left.back() == 49);
  for (const auto name : left) CHECK(f.loads_named(name));
}

TEST_CASE("stores and loads that run together while everything is evicted never mix bytes up",
          "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture::Options options;
  options.num_chunks = 64;
  ExtentFixture f(options);
  f.config.segment_eviction = GENERATE(SegmentEviction::fifo, SegmentEviction::lru);
  f.start();
  std::uint64_t done = 0;
  for (std::uint64_t round = 0; round < 100; ++round) {
    const std::uint64_t first = round * 8;
    for (ChunkId i = 0; i < 8; ++i) f.memory.fill(i, first + i);
    const JobId store = f.submit(f.job(false, tier_keys(first, 8)));
    std::vector<std::pair<JobId, std::uint64_t>> loads;
    for (std::uint64_t back = 0; back < 6; ++back)
      if (first >= back * 8)
        loads.emplace_back(f.submit(f.job(true, tier_keys(first - back * 8, 8),
                                          static_cast<ChunkId>(8 + back * 8))),
                           first - back * 8);
    CHECK(f.end_of(store).success);
    ChunkId at = 8;
    for (const auto& [id, name] : loads) {
      const JobResult result = f.end_of(id);
      for (ChunkId i = 0; i < 8; ++i) {
        if (result.fates[i] == KeyFate::done) CHECK(f.memory.holds(at + i, name + i));
        done += result.fates[i] == KeyFate::done ? 1 : 0;
      }
      CHECK((result.success || result.failure == TransferFailure::not_found));
      at += 8;
    }
  }
  CHECK(done > 1000);
  CHECK(f.tier->stats().corrupt_chunks == 0);
  CHECK(f.metric("rewritten_chunks_total") > 0);
  CHECK(f.sink.inner.violations().empty());
  CHECK(f.memory.uses() == 0);
}

}  // namespace
}  // namespace kv_offload
