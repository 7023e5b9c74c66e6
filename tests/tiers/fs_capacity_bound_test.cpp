#include "kv_offload/tests/support/fs_capacity_fixture.hpp"
#include "kv_offload/tiers/eviction/eviction_registry.hpp"

#include <catch2/catch.hpp>

#include <map>
#include <random>
#include <unordered_map>

namespace kv_offload {
namespace {

using test::FsCapacityFixture;
using test::tier_key;
using test::tier_keys;

std::uint64_t seed_of_test() {
  const char* text = std::getenv("KV_OFFLOAD_TEST_SEED");
  return text != nullptr ? std::stoull(text) : std::random_device{}();
}

/// A directory of `room` chunks under one policy, asked one thing at a time.
class PolicyModel {
 public:
  PolicyModel(const std::string& policy, ChunkId room, ChunkId slots)
      : policy_(std::move(EvictionPolicyRegistry().make(policy, slots)).value()),
        room_(room),
        stamps_(slots, 0) {
    for (ChunkId slot = slots; slot > 0; --slot) free_.push_back(slot - 1);
  }
  [[nodiscard]] bool has(std::uint64_t name) const { return slots_.contains(name); }
  void touch(std::uint64_t name) {
    const OffloadKey key = tier_key(name);
    const ChunkId slot = slots_.at(name);
    policy_->touch(std::span(&key, 1), std::span(&slot, 1));
  }
  void load(std::uint64_t name) {
    touch(name);
    policy_->mark_non_evictable(slots_.at(name));
    policy_->mark_evictable(slots_.at(name));
  }
  void store(std::uint64_t name) {
    if (has(name)) return touch(name);
    while (slots_.size() >= room_) {
      std::vector<ChunkId> victims;
      REQUIRE(policy_->evict(1, ProtectedSlots(stamps_, 1), victims));
      std::erase_if(slots_, [&](const auto& chunk) { return chunk.second == victims[0]; });
      free_.push_back(victims[0]);
    }
    const ChunkId slot = free_.back();
    free_.pop_back();
    slots_.emplace(name, slot);
    policy_->insert(tier_key(name), slot);
    policy_->mark_evictable(slot);
  }
  void forget(std::uint64_t name) {
    const auto it = slots_.find(name);
    if (it == slots_.end()) return;
    policy_->remove(tier_key(name), it->second);
    free_.push_back(it->second);
    slots_.erase(it);
  }
  [[nodiscard]] std::size_t size() const { return slots_.size(); }

 private:
  std::unique_ptr<EvictionPolicy> policy_;
  std::size_t room_;
  std::vector<std::uint32_t> stamps_;
  std::vector<ChunkId> free_;
  std::unordered_map<std::uint64_t, ChunkId> slots_;
};

TEST_CASE("a file tier with a capacity keeps exactly the chunks that its policy would keep",
          "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  const auto policy = GENERATE(as<std::string>{}, "lru", "arc", "s3fifo");
  const std::uint64_t seed = seed_of_test();
  CAPTURE(policy, seed);
  constexpr ChunkId kRoom = 24;
  FsCapacityFixture f(kRoom);
  f.config.eviction_policy = policy;
  f.start();
  const auto slots = static_cast<ChunkId>(*f.config.capacity_bytes / (64 << 10) +
                                          leaving_max(*f.config.capacity_bytes, 64 << 10));
  PolicyModel model(policy, kRoom, slots);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 600; ++i) {
    // Some chunks are wanted much more often than others.
    const std::uint64_t name = random() % 2 == 0 ? random() % 12 : random() % 60;
    CAPTURE(i, name);
    switch (random() % 8) {
      case 0:
      case 1:
      case 2:
        f.store_one(name);
        model.store(name);
        break;
      case 3: {
        REQUIRE(f.tier->forget(static_cast<ForgetId>(i), tier_keys(name, 1)));
        REQUIRE(f.sink.wait_forgot(static_cast<ForgetId>(i)).has_value());
        REQUIRE_FALSE(f.has(name));
        model.forget(name);
        break;
      }
      case 4:
      case 5: {
        const bool is_there = model.has(name);
        f.memory.clear(8);
        const JobResult result = f.load(tier_keys(name, 1), 8);
        REQUIRE(result.success == is_there);
        if (!is_there) CHECK(result.failure == TransferFailure::not_found);
        if (is_there) CHECK(f.memory.holds(8, name));
        if (is_there) model.load(name);
        break;
      }
      default:
        REQUIRE(f.has(name) == model.has(name));
        if (model.has(name)) model.touch(name);
    }
    REQUIRE(f.on_disk() <= f.bound());
  }
  REQUIRE(f.settle());
  CHECK(f.sample("resident_chunks") == static_cast<double>(model.size()));
  CHECK(f.on_disk() == model.size() * f.bytes_per_chunk);
  CHECK(f.sample("evicted_chunks_total") > 0);
  CHECK(f.sample("unlink_failures_total") == 0);
}

TEST_CASE("what lies on the disk stays below capacity and bytes in flight while stores pour in",
          "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  const auto policy = GENERATE(as<std::string>{}, "lru", "arc", "s3fifo");
  CAPTURE(policy);
  FsCapacityFixture::Options options;
  options.num_chunks = 64;
  FsCapacityFixture f(16, options);
  f.config.eviction_policy = policy;
  f.config.inflight_bytes_max = 4 * f.bytes_per_chunk;
  f.start();
  REQUIRE(f.settle());
  const std::size_t descriptors = test::open_descriptors();
  for (int round = 0; round < 12; ++round) {
    std::vector<JobId> jobs;
    for (ChunkId i = 0; i < 64; ++i) f.memory.fill(i, 100 * static_cast<std::uint64_t>(round) + i);
    for (ChunkId i = 0; i < 64; i += 8)
      jobs.push_back(
          f.submit(f.job(false, tier_keys(100 * static_cast<std::uint64_t>(round) + i, 8), i)));
    for (const JobId& job : jobs) {
      while (!f.sink.has_ended(job)) CHECK(f.on_disk() <= f.bound());
      CHECK(f.end_of(job).success);
    }
  }
  REQUIRE(f.settle());
  CHECK(f.on_disk() == 16 * f.bytes_per_chunk);
  CHECK(f.directory.files(".tmp").empty());
  CHECK(f.sample("evicted_chunks_total") == 12 * 64 - 16);
  CHECK(f.sample("evicted_bytes_total") == static_cast<double>((12 * 64 - 16) * f.bytes_per_chunk));
  CHECK(test::open_descriptors() == descriptors);
}

TEST_CASE("a capacity of one chunk takes one store after the other", "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture f(1);
  f.start();
  for (ChunkId i = 0; i < 8; ++i) f.memory.fill(i, i);
  CHECK(f.store(tier_keys(0, 8)).success);
  REQUIRE(f.settle());
  CHECK(f.on_disk() == f.bytes_per_chunk);
  int held = 0;
  for (std::uint64_t i = 0; i < 8; ++i) held += f.has(i) ? 1 : 0;
  CHECK(held == 1);
}

TEST_CASE("without a capacity nothing is known, removed or recorded", "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture f(2);
  f.config.capacity_bytes.reset();
  f.start();
  f.store_named(0, 8);
  CHECK(f.tier->stats().samples.empty());
  CHECK(f.tier->metric_definitions().empty());
  f.stop();
  CHECK(f.directory.files(".bin").size() == 8);
  CHECK_FALSE(std::filesystem::exists(f.record()));
  CHECK(f.directory.files(".run").empty());
}

TEST_CASE("a capacity below one chunk is refused with both numbers", "[fs][capacity]") {
  FsCapacityFixture::Options options;
  test::FsFixture f(options);
  f.config.capacity_bytes = 65535;
  const auto started = f.try_start();
  REQUIRE_FALSE(started);
  CHECK(started.error().code == OffloadErrc::invalid_config);
  CHECK(started.error().detail ==
        "1:fs: capacity_bytes: 65535 is not allowed; expected at least one chunk, 65536");
}

TEST_CASE("a chunk that is being loaded is no victim, and stores wait for the end of the load",
          "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture f(2);
  f.start();
  f.store_named(0, 2);
  f.faults->hang = true;
  const JobId loads = f.submit(f.job(true, tier_keys(0, 2), 8));
  while (f.memory.uses(8) == 0 || f.memory.uses(9) == 0) f.probe(tier_keys(50, 1));
  f.memory.fill(2, 2);
  const JobId store = f.submit(f.job(false, tier_keys(2, 1), 2));
  REQUIRE(f.wait_for([&] { return f.sample("waited_stores_total") == 1; }));
  CHECK(f.has_file(0));
  CHECK(f.has_file(1));
  CHECK(f.directory.files(".tmp").empty());
  CHECK_FALSE(f.sink.has_ended(store));
  f.faults->hang = false;
  CHECK(f.end_of(loads).success);
  CHECK(f.memory.holds(8, 0));
  CHECK(f.memory.holds(9, 1));
  CHECK(f.end_of(store).success);
  REQUIRE(f.settle());
  CHECK(f.has(2));
  CHECK(f.on_disk() == 2 * f.bytes_per_chunk);
}

TEST_CASE("each evicted chunk is told as removed once, and a stored one after it",
          "[fs][io][capacity][events]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture f(3);
  f.config.enable_kv_events = true;
  f.config.locality = Locality::remote;
  f.start();
  for (std::uint64_t name = 0; name < 9; ++name) f.store_one(name % 6);
  REQUIRE(f.settle());
  std::map<OffloadKey, bool> present;
  int removed = 0;
  for (const OffloadingEvent& event : f.tier->take_events()) {
    CHECK(event.medium == Medium::storage);
    CHECK(event.locality == Locality::remote);
    for (const OffloadKey& key : event.keys) {
      CHECK(present[key] == event.removed);
      present[key] = !event.removed;
      removed += event.removed ? 1 : 0;
    }
  }
  CHECK(removed == 6);
  for (std::uint64_t name = 0; name < 6; ++name) {
    CAPTURE(name);
    CHECK(present[tier_key(name)] == f.has(name));
  }
}

TEST_CASE("an evicted key whose load is queued is not found, once", "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture f(2);
  f.start();
  f.store_in_order(0, 2);
  for (ChunkId i = 2; i < 4; ++i) f.memory.fill(i, i);
  REQUIRE(f.store(tier_keys(2, 2), 2).success);
  const JobResult result = f.load(tier_keys(0, 2), 8);
  CHECK_FALSE(result.success);
  CHECK(result.failure == TransferFailure::not_found);
  CHECK_FALSE(f.has(0));
}

}  // namespace
}  // namespace kv_offload
