#include "kv_offload/tests/support/tier_lane_fixture.hpp"

#include <catch2/catch.hpp>

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
