// The fault switches, as every tier has them.
#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tests/support/tier_obj_fixture.hpp"

#include <cerrno>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
using test::becomes_true;
using test::ObjFixture;
using test::tier_key;
using test::tier_keys;

TEST_CASE("a slow bucket is slow by its factor", "[obj][io][faults]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 1);
  f.faults->slow_factor = 500;  // of 200 us at least
  const auto began = f.now();
  CHECK(f.load(tier_keys(1, 1), 8).success);
  CHECK(f.now() - began >= 90ms);
  CHECK(f.memory.holds(8, 1));
}

TEST_CASE("a late bucket is late by its delay, and its result says so", "[obj][io][faults]") {
  ObjFixture f;
  f.start();
  f.faults->delay_us = 80'000;
  const JobResult stored = f.store(tier_keys(1, 1));
  CHECK(stored.success);
  CHECK(stored.transfer_time >= 80ms);
  const auto began = f.now();
  CHECK(f.load(tier_keys(1, 1), 8).success);
  CHECK(f.now() - began >= 80ms);
}

TEST_CASE("every n-th store or load of a bucket fails, and nobody is asked for it",
          "[obj][io][faults]") {
  ObjFixture f;
  f.start();
  f.faults->store_error_every = 3;
  const JobResult stored = f.store(tier_keys(1, 6));
  CHECK(stored.fates == std::vector{KeyFate::done, KeyFate::done, KeyFate::failed, KeyFate::done,
                                    KeyFate::done, KeyFate::failed});
  CHECK(stored.error_number == EIO);
  CHECK(f.server.objects() == 4);
  f.faults->store_error_every = 0;
  f.store_named(1, 6);
  f.faults->load_error_every = 2;
  const JobResult loaded = f.load(tier_keys(1, 4), 8);
  CHECK(loaded.fates ==
        std::vector{KeyFate::done, KeyFate::failed, KeyFate::done, KeyFate::failed});
  CHECK(loaded.failure == TransferFailure::io_error);
  f.faults->load_error_every = 0;
  CHECK(f.load(tier_keys(1, 4), 8).success);
}

TEST_CASE("every n-th object of a bucket is stored corrupt, and found so by its load",
          "[obj][io][faults]") {
  ObjFixture f;
  f.start();
  f.faults->corrupt_every = 2;
  for (ChunkId i = 0; i < 4; ++i) f.memory.fill(i, 1 + i);
  CHECK(f.store(tier_keys(1, 4)).success);
  for (ChunkId i = 0; i < 4; ++i) CHECK(f.memory.holds(i, 1 + i));  // the slots are as they were
  const JobResult loaded = f.load(tier_keys(1, 4), 8);
  CHECK(loaded.failure == TransferFailure::corrupt);
  CHECK(f.tier->stats().corrupt_chunks == 2);
  f.faults->corrupt_every = 0;
  CHECK(f.store(tier_keys(1, 4)).success);
  CHECK(f.load(tier_keys(1, 4), 8).success);
}

TEST_CASE("a full bucket takes nothing and gives what it has", "[obj][io][faults]") {
  ObjFixture f;
  f.config.capacity_bytes =
      GENERATE(std::optional<std::uint64_t>(), std::optional<std::uint64_t>(10 << 20));
  f.start();
  f.store_named(1, 2);
  f.faults->full = true;
  const JobResult result = f.store(tier_keys(5, 2));
  CHECK(result.failure == TransferFailure::no_space);
  CHECK(result.error_number == ENOSPC);
  CHECK(f.load(tier_keys(1, 2), 8).success);
  f.faults->full = false;
  CHECK(f.store(tier_keys(5, 2)).success);
}

TEST_CASE("probes are answered while transfers with a bucket hang, and a released hang reports",
          "[obj][io][faults]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 4);
  f.faults->hang = true;
  const JobId load = f.submit(f.job(true, tier_keys(1, 4), 8));
  const JobId store = f.submit(f.job(false, tier_keys(10, 2)));
  REQUIRE(becomes_true([&] { return f.memory.uses() == 6; }));
  CHECK(f.probe({tier_key(1), tier_key(10), tier_key(99)}) ==
        std::vector{LookupResult::hit, LookupResult::retry, LookupResult::miss});
  CHECK_FALSE(f.sink.has_ended(load));
  CHECK_FALSE(f.sink.has_ended(store));
  CHECK(f.tier->stats().running_jobs == 2);
  f.faults->hang = false;
  CHECK(f.end_of(load).success);
  CHECK(f.end_of(store).success);
  CHECK(f.tier->stats().running_jobs == 0);
}

TEST_CASE("a stop ends what a fault holds back", "[obj][io][faults]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 2);
  f.faults->hang = true;
  const JobId load = f.submit(f.job(true, tier_keys(1, 2), 8));
  REQUIRE(becomes_true([&] { return f.memory.uses() == 2; }));
  CHECK(f.stop(300ms));
  f.end_of(load);  // both ends, whatever became of it
  CHECK(f.memory.uses() == 0);
}

TEST_CASE("a killed lane says nothing and leaves no connection", "[obj][io][faults]") {
  const std::size_t before = test::open_descriptors();
  {
    ObjFixture f;
    f.is_killed = true;
    f.start();
    f.store_named(1, 1);
    const auto hang =
        f.server.faults().add({.method = "GET", .kind = bench::ServerFaultKind::hang});
    const JobId id = f.submit(f.job(true, tier_keys(1, 1), 8));
    REQUIRE(becomes_true([&] { return f.server.faults().hits(hang) == 1; }));
    f.faults->kill_lane = true;
    f.submit(f.job(true, tier_keys(1, 1), 9));  // its next turn
    CHECK(f.stop());
    CHECK_FALSE(f.sink.has_ended(id));
    CHECK_FALSE(f.sink.lane_is_dead());
    f.tier.reset();
  }
  CHECK(test::open_descriptors() == before);
}

}  // namespace
}  // namespace kv_offload
