#include "kv_offload/tests/support/tier_lane_fixture.hpp"

#include <catch2/catch.hpp>

#include <cerrno>
#include <chrono>
#include <vector>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
using test::LaneFixture;
using test::tier_keys;

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
    f.end_of(queued_load);   // its direction is free
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
  static auto* leaked = new std::vector<std::unique_ptr<LaneFixture>>;  // never destroyed, on purpose
  f->lane.reset();
  leaked->push_back(std::move(f));
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

TEST_CASE("a dead lane whose device still has a buffer does not stop cleanly",
          "[io][lane][scripted]") {
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

TEST_CASE("a broken backend ends the lane aloud and later jobs fail at once",
          "[io][lane][scripted]") {
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

TEST_CASE("a backend that cannot open is the start's error", "[io][lane][scripted]") {
  LaneFixture f;
  f.device.open_error = "no ring here";
  f.make();
  const auto started = f.lane->start();
  REQUIRE_FALSE(started);
  CHECK(started.error().detail == "no ring here");
  CHECK(f.lane->stop(5s));
  CHECK_FALSE(f.end_of(f.submit(f.job(true, tier_keys(0, 1)))).success);
}

}  // namespace
}  // namespace kv_offload
