#include "kv_offload/tests/support/tier_lane_fixture.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>
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

TEST_CASE("a full ring delays requests and loses none", "[io][lane]") {
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
  std::atomic<bool> holds{true};
  std::mutex mutex;
  f.faults->hang = true;
  f.start();
  const JobId id = f.submit(f.job(false, tier_keys(0, 2)));
  while (f.memory.uses() != 2) f.make_turns(1);
  CHECK_FALSE(f.sink.has_ended(id));
  f.faults->hang = false;
  CHECK(f.end_of(id).success);
  CHECK(f.memory.uses() == 0);
}

// --- order and bounds -----------------------------------------------------------------------------

TEST_CASE("loads go before stores, and stores are not starved", "[io][lane]") {
  LaneFixture f;
  f.options.queue_depth = 1;
  std::vector<IoOp> order;  // lane thread
  f.script = [&](const IoRequest& r, std::uint64_t) {
    order.push_back(r.op);
    return ScriptedResult{};
  };
  f.make();
  KeyList loads;
  const JobId stores = f.submit(f.job(false, tier_keys(0, 4)));
  f.start();
  f.end_of(stores);
  f.faults->hang = true;  // while hung, everything below queues behind this one
  const JobId first = f.submit(f.job(true, tier_keys(0, 1)));
  while (f.lane->counters().running_jobs != 1) f.make_turns(1);
  std::vector<JobId> ids{first};
  ids.push_back(f.submit(f.job(false, tier_keys(100, 3))));
  for (int i = 0; i < 20; ++i) ids.push_back(f.submit(f.job(true, tier_keys(i % 4, 1))));
  f.faults->hang = false;
  for (const JobId& id : ids) f.end_of(id);
  REQUIRE(f.lane->stop(5s));
  // 4 stores of the set-up, then 21 loads with a store after at most 8 of them.
  REQUIRE(order.size() == 28);
  std::size_t loads_seen = 0;
  std::size_t stores_seen = 0;
  std::size_t run = 0;
  for (std::size_t i = 4; i < order.size(); ++i) {
    if (order[i] == IoOp::read) {
      ++loads_seen;
      REQUIRE(++run <= 8 + 1);  // one load and one store may be in flight together
    } else {
      ++stores_seen;
      if (stores_seen == 1) CHECK(loads_seen >= 8);
      run = 0;
    }
  }
  CHECK(loads_seen == 21);
  CHECK(stores_seen == 3);
}

TEST_CASE("bytes at the device stay below the cap of each direction", "[io][lane]") {
  const bool is_load = GENERATE(true, false);
  LaneFixture f;
  f.options.inflight_bytes_max = 3 * LaneFixture::kRowBytes + 1;
  std::atomic<int> pushed{0};
  std::atomic<bool> counts{false};
  f.script = [&](const IoRequest&, std::uint64_t) {
    if (counts) ++pushed;
    return ScriptedResult{};
  };
  f.start();
  f.store_named(0, 10);
  f.faults->hang = true;
  counts = true;
  const JobId id = f.submit(f.job(is_load, tier_keys(is_load ? 0 : 50, 10)));
  while (pushed < 3) f.make_turns(1);
  f.make_turns(20);
  CHECK(pushed == 3);
  f.faults->hang = false;
  CHECK(f.end_of(id).success);
  CHECK(pushed == 10);
}

TEST_CASE("a chunk larger than the cap still moves, one at a time", "[io][lane]") {
  LaneFixture f;
  f.options.inflight_bytes_max = 1;
  f.start();
  f.store_named(0, 5);
  CHECK(f.run(true, tier_keys(0, 5), 10).success);
}

TEST_CASE("more jobs than agreed end as cancelled, and the queue has room again later",
          "[io][lane]") {
  LaneFixture f;
  f.options.jobs_max = 3;
  f.faults->hang = true;
  f.start();
  std::vector<JobId> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(f.submit(f.job(false, tier_keys(i, 1))));
  const JobResult refused = f.end_of(f.submit(f.job(false, tier_keys(3, 1))));
  CHECK(refused.failure == TransferFailure::cancelled);
  f.faults->hang = false;
  for (const JobId& id : ids) CHECK(f.end_of(id).success);
  CHECK(f.run(false, tier_keys(3, 1)).success);
}

TEST_CASE("a full probe queue takes nothing", "[io][lane]") {
  LaneFixture f;
  f.options.probes_max = 10;
  f.make();  // not started: nothing is answered
  CHECK(f.lane->probe(1, tier_keys(0, 6)));
  CHECK_FALSE(f.lane->probe(2, tier_keys(0, 5)));
  CHECK(f.lane->probe(3, tier_keys(0, 4)));
  f.start();
  CHECK(f.sink.wait_probe(1)->size() == 6);
  CHECK(f.sink.wait_probe(3)->size() == 4);
  CHECK(f.lane->probe(4, tier_keys(0, 50)));  // larger than the queue, but alone
  CHECK(f.sink.wait_probe(4)->size() == 50);
}

TEST_CASE("a key on its way in is neither miss nor hit", "[io][lane]") {
  LaneFixture f;
  f.faults->hang = true;
  f.start();
  const JobId first = f.submit(f.job(false, tier_keys(0, 1)));
  const JobId second = f.submit(f.job(false, tier_keys(0, 2)));
  CHECK(f.probe(tier_keys(0, 3)) ==
        std::vector{LookupResult::retry, LookupResult::retry, LookupResult::miss});
  f.faults->hang = false;
  f.end_of(first);
  f.end_of(second);
  CHECK(f.probe(tier_keys(0, 3)) ==
        std::vector{LookupResult::hit, LookupResult::hit, LookupResult::miss});
}

TEST_CASE("a failed store leaves a miss, not a question", "[io][lane]") {
  LaneFixture f;
  f.faults->store_error_every = 1;
  f.start();
  const JobResult result = f.run(false, tier_keys(0, 1));
  CHECK(result.failure == TransferFailure::io_error);
  CHECK(f.probe(tier_keys(0, 1)) == std::vector{LookupResult::miss});
}

// --- cancelling and ending ------------------------------------------------------------------------

TEST_CASE("a queued job can be cancelled and a running one runs to its end", "[io][lane]") {
  LaneFixture f;
  f.options.queue_depth = 1;
  f.faults->hang = true;
  f.start();
  const JobId running = f.submit(f.job(false, tier_keys(0, 3)));
  while (f.memory.uses() == 0) f.make_turns(1);
  const JobId queued = f.submit(f.job(false, tier_keys(10, 2)));
  const JobId queued_load = f.submit(f.job(true, tier_keys(10, 2)));
  f.lane->cancel(running);
  CHECK_FALSE(f.sink.has_ended(running));
  SECTION("one by one") {
    f.lane->cancel(queued);
    const JobResult result = f.end_of(queued);
    CHECK(result.failure == TransferFailure::cancelled);
    CHECK(result.fates == std::vector{KeyFate::failed, KeyFate::failed});
    CHECK_FALSE(f.sink.has_ended(queued_load));
    f.lane->cancel(queued);  // a second time changes nothing
  }
  SECTION("all of them") {
    f.lane->cancel_queued();
    CHECK(f.end_of(queued).failure == TransferFailure::cancelled);
    // The load's direction is free, so it may have run before.
    f.end_of(queued_load);
    CHECK(f.lane->queued_jobs() == 0);
  }
  f.faults->hang = false;
  CHECK(f.end_of(running).success);
  CHECK(f.probe(tier_keys(10, 1)) == std::vector{LookupResult::miss});
  CHECK(f.run(false, tier_keys(20, 1)).success);  // new jobs are accepted
  CHECK(f.sink.violations().empty());
}

TEST_CASE("stop cancels what is queued and waits for what runs", "[io][lane]") {
  LaneFixture f;
  f.options.queue_depth = 1;
  f.script = [](const IoRequest&, std::uint64_t) {
    ScriptedResult result;
    result.after_reaps = 3;
    return result;
  };
  f.start();
  std::vector<JobId> ids;
  for (int i = 0; i < 50; ++i) ids.push_back(f.submit(f.job(false, tier_keys(10 * i, 3))));
  REQUIRE(f.lane->stop(5s));
  for (const JobId& id : ids) {
    const JobResult result = f.end_of(id);
    CHECK((result.success || result.failure == TransferFailure::cancelled));
  }
  CHECK(f.memory.uses() == 0);
  CHECK(f.end_of(f.submit(f.job(false, tier_keys(0, 1)))).failure == TransferFailure::cancelled);
  CHECK_FALSE(f.lane->probe(99, tier_keys(0, 1)));
  CHECK(f.lane->stop(5s));
}

TEST_CASE("a lane that never started stops at once", "[io][lane]") {
  LaneFixture f;
  f.make();
  const JobId id = f.submit(f.job(false, tier_keys(0, 1)));
  CHECK(f.lane->stop(0s));
  CHECK(f.end_of(id).failure == TransferFailure::cancelled);
}

TEST_CASE("a lane whose device never answers is given up and touches nothing any more",
          "[io][lane]") {
  auto f = std::make_unique<LaneFixture>();
  f->faults->hang = true;
  f->start();
  const JobId id = f->submit(f->job(false, tier_keys(0, 1)));
  while (f->memory.uses() == 0) f->make_turns(1);
  CHECK_FALSE(f->lane->stop(1ms));
  f->faults->hang = false;
  // The thread looks every 2 ms; whether it is gone or not, the sink is never called again.
  CHECK_FALSE(f->sink.has_ended(id));
  CHECK(f->memory.uses(0) == 1);
  // As the contract demands, what the thread may touch outlives it.
  static std::vector<std::unique_ptr<LaneFixture>> leaked;
  f->lane.reset();
  leaked.push_back(std::move(f));
}

TEST_CASE("a killed lane is silent", "[io][lane]") {
  LaneFixture f;
  f.start();
  f.store_named(0, 1);
  f.faults->kill_lane = true;
  const JobId id = f.submit(f.job(true, tier_keys(0, 1)));
  CHECK(f.lane->probe(77, tier_keys(0, 1)));
  CHECK(f.lane->stop(5s));
  CHECK_FALSE(f.sink.lane_is_dead());
  // Nothing had touched the queued job's slots, so stop could end it.
  CHECK(f.end_of(id).failure == TransferFailure::cancelled);
}

TEST_CASE("jobs that ran when the lane was killed never report", "[io][lane]") {
  LaneFixture f;
  f.faults->hang = true;
  f.start();
  const JobId id = f.submit(f.job(false, tier_keys(0, 1)));
  while (f.memory.uses() == 0) f.make_turns(1);
  f.faults->kill_lane = true;
  CHECK(f.lane->stop(5s));
  CHECK_FALSE(f.sink.has_ended(id));
  CHECK(f.memory.uses(0) == 1);
  CHECK_FALSE(f.sink.lane_is_dead());
}

TEST_CASE("a dead lane whose device still has a buffer does not stop cleanly", "[io][lane]") {
  LaneFixture f;
  f.script = [](const IoRequest&, std::uint64_t) {
    ScriptedResult result;
    result.never = true;
    return result;
  };
  f.start();
  const JobId id = f.submit(f.job(false, tier_keys(0, 1)));
  while (f.memory.uses() == 0) f.make_turns(1);
  f.backend->break_with(EBADF);
  REQUIRE(f.sink.wait_death().has_value());
  CHECK_FALSE(f.lane->stop(5s));
  CHECK_FALSE(f.lane->stop(5s));
  CHECK_FALSE(f.sink.has_ended(id));
}

TEST_CASE("a broken backend ends the lane aloud and later jobs fail at once", "[io][lane]") {
  LaneFixture f;
  f.start();
  f.store_named(0, 1);
  f.backend->break_with(EBADF);
  const auto why = f.sink.wait_death();
  REQUIRE(why.has_value());
  CHECK(why->find("Bad file descriptor") != std::string::npos);
  CHECK(f.end_of(f.submit(f.job(true, tier_keys(0, 1)))).failure == TransferFailure::lane_dead);
  CHECK_FALSE(f.lane->probe(5, tier_keys(0, 1)));
  CHECK(f.lane->stop(5s));
}

TEST_CASE("a backend that cannot open is the start's error", "[io][lane]") {
  LaneFixture f;
  f.device.open_error = "no ring here";
  f.make();
  const auto started = f.lane->start();
  REQUIRE_FALSE(started);
  CHECK(started.error().detail == "no ring here");
  CHECK(f.lane->stop(5s));
  CHECK_FALSE(f.end_of(f.submit(f.job(true, tier_keys(0, 1)))).success);
}

// --- fault switches -------------------------------------------------------------------------------

TEST_CASE("a slow device holds transfers back in time, not the lane", "[io][lane]") {
  LaneFixture f;
  f.is_time_frozen = true;
  SECTION("by a factor of what it took, at least 200 us") { f.faults->slow_factor = 10.0; }
  SECTION("by a constant") { f.faults->delay_us = 2000; }
  f.start();
  const JobId id = f.submit(f.job(false, tier_keys(0, 1)));
  while (f.memory.uses() == 0) f.make_turns(1);
  f.time += 1'999'000;
  f.make_turns(10);  // probes go on
  CHECK_FALSE(f.sink.has_ended(id));
  f.time += 1'000;
  const JobResult result = f.end_of(id);
  CHECK(result.success);
  CHECK(result.transfer_time == 2ms);
}

TEST_CASE("a held transfer keeps its share of the bytes in flight", "[io][lane]") {
  LaneFixture f;
  f.is_time_frozen = true;
  f.options.inflight_bytes_max = LaneFixture::kRowBytes;
  f.faults->delay_us = 1000;
  std::atomic<int> pushed{0};
  f.script = [&](const IoRequest&, std::uint64_t) {
    ++pushed;
    return ScriptedResult{};
  };
  f.start();
  const JobId id = f.submit(f.job(false, tier_keys(0, 2)));
  while (pushed == 0) f.make_turns(1);
  f.make_turns(10);
  CHECK(pushed == 1);
  while (!f.sink.has_ended(id)) {
    f.time += 1'000'000;
    f.make_turns(1);
  }
  CHECK(pushed == 2);
}

TEST_CASE("every n-th transfer fails, the others do not", "[io][lane]") {
  LaneFixture f;
  f.start();
  f.store_named(0, 6);
  f.faults->load_error_every = 3;
  const JobResult result = f.run(true, tier_keys(0, 6), 10);
  CHECK(result.fates == std::vector{KeyFate::done, KeyFate::done, KeyFate::failed, KeyFate::done,
                                    KeyFate::done, KeyFate::failed});
  CHECK(result.error_number == EIO);
  f.faults->load_error_every = 0;
  CHECK(f.run(true, tier_keys(0, 6), 10).success);
}

TEST_CASE("a corrupting device gets other bytes and the slot keeps its own", "[io][lane]") {
  LaneFixture f;
  f.faults->corrupt_every = 2;
  f.start();
  f.store_named(0, 2);
  CHECK(f.memory.holds(1, 1));
  CHECK(f.run(true, tier_keys(0, 2), 10).success);  // this storage has no digests
  CHECK(f.memory.holds(10, 0));
  CHECK_FALSE(f.memory.holds(11, 1));
}

}  // namespace
}  // namespace kv_offload
