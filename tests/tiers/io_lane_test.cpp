#include "kv_offload/tests/support/tier_lane_fixture.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <random>
#include <vector>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
using test::LaneFixture;
using test::tier_key;
using test::tier_keys;

TEST_CASE("what a lane stored it loads, byte for byte, and nothing stays in use", "[io][lane]") {
  LaneFixture f;
  f.start();
  f.store_named(100, 5);
  CHECK(f.flat->missed_overlaps == 0);
  const JobResult loaded = f.run(true, tier_keys(100, 5), 10);
  CHECK(loaded.success);
  CHECK(loaded.transfer_bytes == 5 * LaneFixture::kRowBytes);
  for (ChunkId i = 0; i < 5; ++i) CHECK(f.memory.holds(10 + i, 100 + i));
  CHECK(f.memory.uses() == 0);
  CHECK(f.sink.violations().empty());
  CHECK(f.lane->counters().running_jobs == 0);
}

TEST_CASE("short transfers, retries and any order of completions give whole chunks", "[io][lane]") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  LaneFixture f;
  f.device.newest_first = true;
  f.device.completions_max = 2;
  f.script = [dice = std::make_shared<std::minstd_rand>(seed)](const IoRequest& r, std::uint64_t) {
    ScriptedResult result;
    result.after_reaps = static_cast<std::uint32_t>((*dice)() % 3);
    if ((*dice)() % 4 == 0) result.result = (*dice)() % 2 == 0 ? -EAGAIN : -EINTR;
    if ((*dice)() % 4 == 0)
      result.length_max = static_cast<std::uint32_t>(1 + (*dice)() % r.length);
    return result;
  };
  f.start();
  f.memory.fill(0, 1);
  for (int round = 0; round < 20; ++round) {
    const auto first = static_cast<std::uint64_t>(round) * 10;
    f.store_named(first, 7);
    REQUIRE(f.run(true, tier_keys(first, 7), 20).success);
    for (ChunkId i = 0; i < 7; ++i) REQUIRE(f.memory.holds(20 + i, first + i));
  }
  CHECK(f.memory.uses() == 0);
}

TEST_CASE("a full ring delays requests and loses none", "[io][lane][scripted]") {
  LaneFixture f;
  f.device.queue_depth = 1;
  f.start();
  f.store_named(0, 30);
  REQUIRE(f.run(true, tier_keys(0, 30), 30).success);
  for (ChunkId i = 0; i < 30; ++i) CHECK(f.memory.holds(30 + i, i));
  REQUIRE(f.lane->stop(5s));
  CHECK(f.backend->refused_pushes() > 0);
}

TEST_CASE("keys of a job are independent and the first failed one names the failure",
          "[io][lane]") {
  LaneFixture f;
  f.device.newest_first = true;  // the last key ends first
  std::atomic<bool> fails{false};
  f.script = [&](const IoRequest& r, std::uint64_t) {
    ScriptedResult result;
    if (fails && r.offset == 3 * LaneFixture::kRowBytes) result.result = -ENODEV;
    return result;
  };
  f.start();
  f.store_named(0, 4);
  fails = true;
  KeyList keys = tier_keys(0, 4);
  keys[1] = tier_key(77);  // was never stored
  const JobResult result = f.run(true, keys, 8);
  CHECK_FALSE(result.success);
  CHECK(result.fates ==
        std::vector{KeyFate::done, KeyFate::failed, KeyFate::done, KeyFate::failed});
  CHECK(result.failure == TransferFailure::not_found);
  CHECK(result.error_number == ENOENT);
  CHECK(result.transfer_bytes == 2 * LaneFixture::kRowBytes);
  CHECK(f.memory.holds(8, 0));
  CHECK(f.memory.holds(10, 2));
  CHECK(f.memory.uses() == 0);
}

TEST_CASE("a store that needs a sync is over after it", "[io][lane]") {
  LaneFixture f;
  f.storage->syncs = true;
  std::atomic<int> syncs{0};
  const int sync_result = GENERATE(0, -EIO);
  f.script = [&](const IoRequest& r, std::uint64_t) {
    ScriptedResult result;
    if (r.op == IoOp::sync_data) {
      ++syncs;
      result.result = sync_result;
      result.after_reaps = 1;
    }
    return result;
  };
  f.start();
  const JobResult result = f.run(false, tier_keys(0, 3));
  CHECK(syncs == 3);
  CHECK(result.success == (sync_result == 0));
  CHECK(result.error_number == -sync_result);
  CHECK(f.memory.uses() == 0);
}

TEST_CASE("a job without keys succeeds at once", "[io][lane]") {
  LaneFixture f;
  f.start();
  CHECK(f.run(true, {}).success);
  CHECK(f.run(false, {}).success);
}

TEST_CASE("a slot outside the primary tier is never touched", "[io][lane]") {
  LaneFixture f;
  f.start();
  const JobResult beyond = f.run(false, tier_keys(0, 2), 63);
  CHECK(beyond.fates == std::vector{KeyFate::done, KeyFate::failed});
  CHECK(beyond.error_number == EINVAL);
  TransferJob uneven = f.job(false, tier_keys(10, 2));
  uneven.chunk_ids.pop_back();
  CHECK(f.end_of(f.submit(std::move(uneven))).error_number == EINVAL);
  TransferJob other_size = f.job(false, tier_keys(20, 1));
  other_size.chunk_bytes = 8192;
  CHECK(f.end_of(f.submit(std::move(other_size))).error_number == EINVAL);
  CHECK(f.memory.uses() == 0);
}

TEST_CASE("the slot is in use as long as the device may touch it", "[io][lane]") {
  LaneFixture f;
  f.faults->hang = true;
  f.start();
  const JobId id = f.submit(f.job(false, tier_keys(0, 2)));
  while (f.memory.uses() != 2) f.make_turns(1);
  CHECK_FALSE(f.sink.has_ended(id));
  f.faults->hang = false;
  CHECK(f.end_of(id).success);
  CHECK(f.memory.uses() == 0);
}

}  // namespace
}  // namespace kv_offload
