#include "kv_offload/tests/support/tier_lane_fixture.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
using test::LaneFixture;
using test::tier_keys;

TEST_CASE("loads go before stores, and stores are not starved", "[io][lane][scripted]") {
  LaneFixture f;
  f.options.queue_depth = 1;
  std::vector<IoOp> order;  // lane thread
  f.script = [&](const IoRequest& r, std::uint64_t) {
    order.push_back(r.op);
    return ScriptedResult{};
  };
  f.make();
  const JobId stores = f.submit(f.job(false, tier_keys(0, 4)));
  f.start();
  f.end_of(stores);
  f.faults->hang = true;  // while hung, everything below queues behind this one
  const JobId first = f.submit(f.job(true, tier_keys(0, 1)));
  while (f.lane->counters().running_jobs != 1) f.make_turns(1);
  std::vector<JobId> ids{first};
  // The loads first: a store that finds no load waiting may start at once.
  for (int i = 0; i < 20; ++i) ids.push_back(f.submit(f.job(true, tier_keys(i % 4, 1))));
  ids.push_back(f.submit(f.job(false, tier_keys(100, 3))));
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

TEST_CASE(
    "stores at the device keep to their share while loads come, and get all of it again later",
    "[io][lane]") {
  LaneFixture f;
  f.is_time_frozen = true;
  f.options.store_bytes_beside_loads = 2 * LaneFixture::kRowBytes;
  std::atomic<int> writes{0};
  f.script = [&](const IoRequest& r, std::uint64_t) {
    if (r.op == IoOp::write) ++writes;
    return ScriptedResult{};
  };
  f.start();
  f.store_named(0, 2);
  REQUIRE(f.run(true, tier_keys(0, 1)).success);  // the last load; none is on its way any more
  writes = 0;
  f.faults->hang = true;
  const JobId id = f.submit(f.job(false, tier_keys(50, 20)));
  while (writes < 2) f.make_turns(1);
  f.make_turns(20);
  CHECK(writes == 2);
  f.time += 99'000'000;  // loads are expected for 100 ms
  f.make_turns(20);
  CHECK(writes == 2);
  f.time += 1'000'000;
  while (writes < 20) f.make_turns(1);  // 512 KiB, the least that a direction has for itself
  f.faults->hang = false;
  CHECK(f.end_of(id).success);
}

TEST_CASE("beside loads a chunk larger than the stores' share still moves", "[io][lane]") {
  LaneFixture f;
  f.is_time_frozen = true;
  f.options.store_bytes_beside_loads = 1;
  f.start();
  f.store_named(0, 2);
  REQUIRE(f.run(true, tier_keys(0, 1)).success);
  CHECK(f.run(false, tier_keys(50, 5)).success);
}

TEST_CASE("a load that comes while stores are begun goes to the device before the rest of them",
          "[io][lane][scripted]") {
  LaneFixture f;
  const bool loads_came_before = GENERATE(true, false);
  std::atomic<int> begun{0}, begun_at_load{-1};
  std::atomic<bool> counts{false};
  f.script = [&](const IoRequest& r, std::uint64_t) {
    if (counts && r.op == IoOp::read) begun_at_load = begun.load();
    return ScriptedResult{};
  };
  f.make();
  f.is_time_frozen = true;
  f.start();
  f.store_named(0, 1);
  if (loads_came_before) REQUIRE(f.run(true, tier_keys(0, 1)).success);
  const TransferJob wanted = f.job(true, tier_keys(0, 1), 30);
  f.flat->on_begin = [&](const ChunkContext& chunk) {
    if (!chunk.is_load && ++begun == 2) f.submit(wanted);
  };
  counts = true;
  const JobId stores = f.submit(f.job(false, tier_keys(50, 12)));
  CHECK(f.end_of(wanted.job_id).success);
  CHECK(f.end_of(stores).success);
  REQUIRE(f.lane->stop(5s));
  CHECK(begun == 12);
  CHECK(begun_at_load == 2);
}

TEST_CASE("finished loads are told before the stores that finished with them",
          "[io][lane][scripted]") {
  LaneFixture f;
  std::atomic<bool> held{true};
  f.script = [&](const IoRequest&, std::uint64_t ordinal) {
    ScriptedResult result;
    if (ordinal > 0) result.held = &held;
    return result;
  };
  f.make();
  f.start();
  f.store_named(0, 1);
  std::vector<bool> told;  // lane thread: is_load of each key that was proceeded with
  f.flat->on_proceed = [&](const ChunkContext& chunk) { told.push_back(chunk.is_load); };
  const JobId stores = f.submit(f.job(false, tier_keys(50, 3), 1));
  while (f.lane->counters().running_jobs != 1) f.make_turns(1);
  f.make_turns(5);
  const JobId load = f.submit(f.job(true, tier_keys(0, 1), 30));
  while (f.lane->counters().running_jobs != 2) f.make_turns(1);
  f.make_turns(5);
  held = false;
  f.end_of(load);
  f.end_of(stores);
  REQUIRE(f.lane->stop(5s));
  REQUIRE(told.size() == 4);
  CHECK(told.front());
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

}  // namespace
}  // namespace kv_offload
