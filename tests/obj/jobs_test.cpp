// Jobs from submit to their two ends: deadlines, slots, bounds, cancels and the end of the tier.
#include "kv_offload/tests/support/tier_obj_fixture.hpp"

#include <algorithm>
#include <cerrno>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
using FaultKind = bench::ServerFaultKind;
using test::becomes_true;
using test::ObjFixture;
using test::tier_key;
using test::tier_keys;

bool all_bytes_are(std::span<const std::byte> row, int value) {
  return std::all_of(row.begin(), row.end(), [&](std::byte b) { return b == std::byte(value); });
}

TEST_CASE("a store that is silent ends jobs at their deadline, and slots are nobody's then",
          "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 2);
  const FaultKind kind = GENERATE(FaultKind::hang, FaultKind::trickle);
  const bool is_load = GENERATE(true, false);
  const auto rule =
      f.server.faults().add({.method = is_load ? "GET" : "PUT", .kind = kind, .argument = 50'000});
  TransferJob job = f.job(is_load, is_load ? tier_keys(1, 2) : tier_keys(5, 2), 8);
  job.deadline = f.now() + 300ms;
  const MonotonicTime deadline = job.deadline;
  const JobResult result = f.end_of(f.submit(std::move(job)));
  CHECK(f.now() >= deadline);
  CHECK(result.failure == TransferFailure::deadline);
  CHECK(result.error_number == ETIMEDOUT);
  CHECK(result.fates == std::vector(2, KeyFate::failed));
  CHECK(f.memory.uses() == 0);
  // They belong to somebody else now; the server still sends.
  f.memory.clear(8);
  f.memory.clear(9);
  CHECK(f.server.faults().hits(rule) == 2);
  f.server.faults().clear();
  for (int i = 0; i < 20; ++i) CHECK(f.load(tier_keys(1, 1), 4).success);
  CHECK(all_bytes_are(f.memory.row(8), 0xee));
  CHECK(all_bytes_are(f.memory.row(9), 0xee));
}

TEST_CASE("the time of many attempts ends at the job's deadline, too", "[obj][io]") {
  ObjFixture f;
  f.config.retry.attempts = 100;
  f.config.breaker.failures = 0;
  f.config.request_timeout = 20ms;
  f.start();
  f.server.faults().add({.method = "GET", .kind = FaultKind::hang});
  TransferJob job = f.job(true, tier_keys(1, 1));
  job.deadline = f.now() + 150ms;
  const MonotonicTime deadline = job.deadline;
  const JobResult result = f.end_of(f.submit(std::move(job)));
  CHECK(result.failure == TransferFailure::deadline);
  CHECK(f.now() >= deadline);
  CHECK(f.metric("kv_offload_obj_retries_total") >= 2);
}

TEST_CASE("a job whose deadline has passed while it waited touches nothing", "[obj][io]") {
  ObjFixture f;
  f.config.max_inflight = 1;
  f.start();
  f.store_named(1, 1);
  const auto hang = f.server.faults().add({.method = "GET", .kind = FaultKind::hang});
  const JobId first = f.submit(f.job(true, tier_keys(1, 1), 8));
  REQUIRE(becomes_true([&] { return f.server.faults().hits(hang) == 1; }));
  TransferJob late = f.job(true, tier_keys(1, 1), 9);
  late.deadline = f.now() + 1ms;
  f.memory.clear(9);
  const JobId second = f.submit(std::move(late));
  f.ahead = 1s;
  const auto gets = f.server.counts().gets;
  f.server.faults().clear();
  CHECK(f.end_of(first).success);
  CHECK(f.end_of(second).failure == TransferFailure::deadline);
  CHECK(all_bytes_are(f.memory.row(9), 0xee));
  CHECK(f.server.counts().gets == gets);
}

TEST_CASE("a probe of a silent store ends as unknown, and is asked again", "[obj][io]") {
  ObjFixture f;
  f.config.probe_timeout = 500ms;
  f.start();
  f.store_named(1, 1);
  f.start();
  f.server.faults().add({.method = "HEAD", .kind = FaultKind::hang});
  CHECK(f.probe(tier_keys(1, 3)) == std::vector(3, LookupResult::retry));
  f.server.faults().clear();
  CHECK(f.probe(tier_keys(1, 2)) == std::vector{LookupResult::hit, LookupResult::miss});
}

TEST_CASE("a stop cuts what hangs within its patience, and slots are nobody's from then on",
          "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 4);
  f.server.faults().add({.method = "GET", .kind = FaultKind::trickle, .argument = 100'000});
  f.server.faults().add({.method = "PUT", .kind = FaultKind::hang});
  f.server.faults().add({.method = "HEAD", .kind = FaultKind::hang});
  // The moment a job has quiesced its rows are somebody else's.
  f.tap.on_quiesced = [&](const JobId&) {
    for (ChunkId i = 4; i < 16; ++i)
      if (f.memory.uses(i) == 0) f.memory.clear(i);
  };
  const JobId load = f.submit(f.job(true, tier_keys(1, 4), 4));
  const JobId store = f.submit(f.job(false, tier_keys(10, 4), 8));
  const ProbeId probe = f.begin_probe(tier_keys(100, 3));
  REQUIRE(becomes_true([&] { return f.memory.uses() == 8 && f.requests("head") == 3; }));
  const auto began = std::chrono::steady_clock::now();
  CHECK(f.stop(400ms));
  CHECK(std::chrono::steady_clock::now() - began < 10s);  // not the 10 s of a request's time limit
  CHECK(f.end_of(load).failure == TransferFailure::cancelled);
  CHECK(f.end_of(store).failure == TransferFailure::cancelled);
  CHECK(f.end_of_probe(probe) == std::vector(3, LookupResult::retry));
  CHECK(f.memory.uses() == 0);
  for (ChunkId i = 4; i < 12; ++i) CHECK(all_bytes_are(f.memory.row(i), 0xee));
}

TEST_CASE("a stop lets what runs end by itself", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 1);
  f.server.faults().add({.method = "GET", .kind = FaultKind::delay_ms, .argument = 100});
  const JobId load = f.submit(f.job(true, tier_keys(1, 1), 8));
  REQUIRE(becomes_true([&] { return f.memory.uses() == 1; }));
  CHECK(f.stop(20s));
  CHECK(f.end_of(load).success);
  CHECK(f.memory.holds(8, 1));
}

TEST_CASE("stopping twice is stopping once, and later work is refused at once", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 1);
  CHECK(f.stop());
  CHECK(f.stop());
  CHECK(f.load(tier_keys(1, 1)).failure == TransferFailure::cancelled);
  CHECK_FALSE(f.tier->probe(99, tier_keys(1, 1)));
  CHECK_FALSE(f.tier->forget(99, tier_keys(1, 1)));
}

TEST_CASE("what waits is cancelled at once, what runs goes on", "[obj][io]") {
  ObjFixture f;
  f.config.max_inflight = 1;
  f.start();
  f.store_named(1, 1);
  const auto hang = f.server.faults().add({.kind = FaultKind::hang});
  const JobId running = f.submit(f.job(true, tier_keys(1, 1), 8));
  REQUIRE(becomes_true([&] { return f.server.faults().hits(hang) == 1; }));
  std::vector<JobId> queued;
  for (std::uint64_t i = 1; i <= 4; ++i)
    queued.push_back(f.submit(f.job(true, tier_keys(1, 1), 9)));
  CHECK(f.tier->stats().running_jobs == 1);
  CHECK(f.tier->stats().queued_jobs == 4);
  f.tier->cancel(queued[1]);
  CHECK(f.end_of(queued[1]).failure == TransferFailure::cancelled);
  CHECK_FALSE(f.sink.has_ended(queued[0]));
  f.tier->cancel(running);  // has begun: goes on
  f.tier->cancel({0, 12345});
  f.tier->cancel_queued();
  for (const std::size_t i : {0U, 2U, 3U})
    CHECK(f.end_of(queued[i]).failure == TransferFailure::cancelled);
  CHECK_FALSE(f.sink.has_ended(running));
  CHECK(f.tier->stats().queued_jobs == 0);
  f.server.faults().clear();
  CHECK(f.end_of(running).success);
  CHECK(f.load(tier_keys(1, 1), 10).success);
  CHECK(f.server.counts().gets == 2 + 2);  // the start check's two, and two
}

TEST_CASE("more jobs than the bound are refused, and their room comes back", "[obj][io]") {
  ObjFixture f({.jobs_max = 3});
  f.start();
  f.store_named(1, 1);
  f.server.faults().add({.method = "GET", .kind = FaultKind::hang});
  std::vector<TransferJob> jobs;
  for (int i = 0; i < 5; ++i)
    jobs.push_back(f.job(true, tier_keys(1, 1), static_cast<ChunkId>(8 + i)));
  const auto ids = f.submit(std::move(jobs));
  CHECK(f.end_of(ids[3]).failure == TransferFailure::cancelled);
  CHECK(f.end_of(ids[4]).failure == TransferFailure::cancelled);
  f.server.faults().clear();
  for (int i = 0; i < 3; ++i) CHECK(f.end_of(ids[static_cast<std::size_t>(i)]).success);
  CHECK(f.load(tier_keys(1, 1), 8).success);
}

TEST_CASE("more probed keys than the bound are refused, and their room comes back", "[obj][io]") {
  ObjFixture f({.probes_max = 8});
  f.config.max_probes = 2;
  f.config.probe_timeout = 20s;
  f.start();
  f.server.faults().add({.method = "HEAD", .kind = FaultKind::hang});
  std::vector<ProbeId> taken;
  std::uint64_t name = 0;
  ProbeId id = 1000;
  while (f.tier->probe(id, tier_keys(name, 4))) {
    taken.push_back(id++);
    name += 4;
    REQUIRE(taken.size() < 100);
    std::this_thread::sleep_for(1ms);  // as much time as the lane wants to take more than it should
  }
  CHECK(f.requests("head") == 2);
  f.server.faults().clear();
  for (const ProbeId each : taken)
    CHECK(f.end_of_probe(each) == std::vector(4, LookupResult::miss));
  CHECK(f.probe(tier_keys(0, 8)).size() == 8);
}

TEST_CASE("requests in flight are bounded in each direction, and loads leave stores a part",
          "[obj][io]") {
  ObjFixture f;
  f.config.max_inflight = 4;
  f.start();
  f.store_named(1, 8);
  const auto gets = f.server.counts().gets;
  const auto puts = f.server.counts().puts;
  f.server.faults().add({.kind = FaultKind::hang});
  const JobId load = f.submit(f.job(true, tier_keys(1, 8), 8));
  REQUIRE(becomes_true([&] { return f.server.counts().gets == gets + 4; }));
  const JobId store = f.submit(f.job(false, tier_keys(20, 8), 0));
  REQUIRE(becomes_true([&] { return f.server.counts().puts == puts + 1; }));
  CHECK(f.probe(tier_keys(1, 8)) ==
        std::vector(8, LookupResult::hit));  // the lane has had its turns
  CHECK(f.server.counts().gets == gets + 4);
  CHECK(f.server.counts().puts == puts + 1);
  CHECK(f.memory.uses() == 5);
  f.server.faults().clear();
  CHECK(f.end_of(load).success);
  CHECK(f.end_of(store).success);
}

TEST_CASE("a job without keys ends well and asks nobody", "[obj][io]") {
  ObjFixture f;
  f.start();
  const auto requests = f.server.counts().requests();
  for (const bool is_load : {true, false}) {
    const JobResult result = f.end_of(f.submit(f.job(is_load, {})));
    CHECK(result.success);
    CHECK(result.fates.empty());
  }
  CHECK(f.probe({}).empty());
  CHECK(f.server.counts().requests() == requests);
  CHECK(f.tier->take_events().empty());
}

TEST_CASE("a slot that is not there fails its key alone", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 2);
  TransferJob job = f.job(true, tier_keys(1, 2), 8);
  job.chunk_ids[0] = 16;  // one too far
  const JobResult loaded = f.end_of(f.submit(std::move(job)));
  CHECK(loaded.fates == std::vector{KeyFate::failed, KeyFate::done});
  CHECK(loaded.error_number == EINVAL);
  TransferJob last = f.job(false, tier_keys(5, 1), 15);
  CHECK(f.end_of(f.submit(std::move(last))).success);
  TransferJob none = f.job(false, tier_keys(6, 1), kNoChunk);
  CHECK(f.end_of(f.submit(std::move(none))).error_number == EINVAL);
  CHECK(f.server.objects() == 3);
}

TEST_CASE("each job has its own result, also where some of its keys fail", "[obj][io]") {
  ObjFixture f;
  f.config.retry.attempts = 1;
  f.start();
  f.store_named(1, 4);
  f.server.faults().add({.method = "GET",
                         .key_contains = f.object_of(tier_key(2)),
                         .kind = FaultKind::status,
                         .argument = 500});
  std::vector<TransferJob> jobs;
  jobs.push_back(f.job(true, tier_keys(1, 1), 8));
  jobs.push_back(f.job(true, {tier_key(2), tier_key(3), tier_key(99)}, 9));
  jobs.push_back(f.job(true, tier_keys(4, 1), 12));
  const auto ids = f.submit(std::move(jobs));
  CHECK(f.end_of(ids[0]).success);
  const JobResult mixed = f.end_of(ids[1]);
  CHECK(mixed.fates == std::vector{KeyFate::failed, KeyFate::done, KeyFate::failed});
  CHECK(mixed.failure == TransferFailure::io_error);  // of the first one
  CHECK(mixed.transfer_bytes == 64U << 10);
  CHECK(f.end_of(ids[2]).success);
  CHECK(f.memory.holds(10, 3));
}

TEST_CASE("padding behind a row's payload is zero in the bucket and in the slot", "[obj][io]") {
  ObjFixture f({.row_bytes = 8192, .payload_bytes = 5000});
  f.start();
  f.memory.clear(0);
  f.memory.fill(0, 1);  // the payload alone
  CHECK(f.store(tier_keys(1, 1)).success);
  f.memory.clear(1);
  CHECK(f.load(tier_keys(1, 1), 1).success);
  CHECK(f.memory.holds(1, 1));
  const auto body = f.server.body_of(f.object_of(tier_key(1)));
  REQUIRE(body);
  CHECK(body->size() == 8192);
  CHECK(body->find_first_not_of('\0', 5000) == std::string::npos);
}

}  // namespace
}  // namespace kv_offload
