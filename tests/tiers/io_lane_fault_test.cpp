#include "kv_offload/tests/support/tier_lane_fixture.hpp"
#include "kv_offload/tiers/io/lane_faults.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
using test::LaneFixture;
using test::tier_keys;

TEST_CASE("a slow device holds transfers back in time, not the lane", "[io][lane]") {
  LaneFixture f;
  f.is_time_frozen = true;
  SECTION("by a factor of what it took, at least 200 us") { f.faults->slow_factor = 10.0; }
  SECTION("by a constant") { f.faults->delay_us = 2000; }
  f.start();
  const JobId id = f.submit(f.job(false, tier_keys(0, 1)));
  while (f.memory.uses() == 0) f.make_turns(1);
  f.make_turns(2);  // the slot is marked before the start is stamped: let that turn end
  // The device works in real time: what it took must not be counted from after the jump. Nothing tells when
  // the lane has begun to hold.
  std::this_thread::sleep_for(100ms);
  f.make_turns(2);
  f.time += 1'999'000;
  f.make_turns(10);  // probes go on
  CHECK_FALSE(f.sink.has_ended(id));
  f.time += 1'000;
  const JobResult result = f.end_of(id);
  CHECK(result.success);
  CHECK(result.transfer_time == 2ms);
}

TEST_CASE("a lifted fault lets go of what it holds at once", "[io][lane]") {
  LaneFixture f;
  f.is_time_frozen = true;
  SECTION("a delay") { f.faults->delay_us = 3'600'000'000; }
  SECTION("a factor") { f.faults->slow_factor = 1e9; }
  f.start();
  const JobId id = f.submit(f.job(false, tier_keys(0, 1)));
  while (f.memory.uses() == 0) f.make_turns(1);
  f.make_turns(10);
  CHECK_FALSE(f.sink.has_ended(id));
  f.faults->delay_us = 0;
  f.faults->slow_factor = 1.0;
  CHECK(f.end_of(id).success);
}

TEST_CASE("a slow device is slow by what it took, not by what the lane's thread waited", "[io]") {
  const auto switches = std::make_shared<TierFaults>();
  const LaneFaults faults(switches);
  const MonotonicTime start{1h};
  const auto added = [&](Duration took) { return faults.due(start, start + took) - start - took; };
  CHECK(added(10s) == 0s);
  switches->slow_factor = 20.0;
  CHECK(added(0s) == 20 * 200us);  // a cache answered: still visibly slow
  CHECK(added(100us) == 20 * 200us - 100us);
  CHECK(added(1ms) == 19 * 1ms);
  CHECK(added(50ms) == 19 * 50ms);
  CHECK(added(10s) == 19 * 50ms);  // the thread stood still
  switches->delay_us = 7000;
  CHECK(added(1ms) == 19 * 1ms + 7ms);
  switches->slow_factor = 0.5;  // no device is made faster
  CHECK(added(1ms) == 7ms);
  CHECK(LaneFaults(nullptr).due(start, start + 1ms) == start + 1ms);
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
