#include "kv_offload/tests/support/tier_fs_fixture.hpp"

#include <catch2/catch.hpp>

namespace kv_offload {
namespace {

using test::FsFixture;
using test::tier_key;
using test::tier_keys;

TEST_CASE("one stored event names all keys of a store that fully succeeded", "[fs][io][events]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.config.enable_kv_events = true;
  f.config.locality = Locality::remote;
  f.start();
  f.store_named(0, 2);
  CHECK(f.store(tier_keys(0, 3)).success);  // two of them present already: named all the same
  f.faults->store_error_every = 2;
  CHECK_FALSE(f.store(tier_keys(10, 2)).success);
  f.faults->store_error_every = 0;
  REQUIRE(f.load(tier_keys(0, 2), 8).success);
  const auto events = f.tier->take_events();
  REQUIRE(events.size() == 2);
  CHECK(events[0].keys == tier_keys(0, 2));
  CHECK(events[1].keys == tier_keys(0, 3));
  for (const auto& e : events) {
    CHECK_FALSE(e.removed);
    CHECK(e.medium == Medium::storage);
    CHECK(e.locality == Locality::remote);
    CHECK(e.chunk_ids.empty());
  }
  CHECK(f.tier->take_events().empty());
}

TEST_CASE("a store event carries the configured locality, or none", "[fs][io][events]") {
  KV_OFFLOAD_NEEDS_URING();
  using MaybeLocality = std::optional<Locality>;
  FsFixture f;
  f.config.enable_kv_events = true;
  f.config.locality =
      GENERATE(MaybeLocality(), MaybeLocality(Locality::local), MaybeLocality(Locality::remote));
  f.start();
  f.store_named(0, 1);
  const auto events = f.tier->take_events();
  REQUIRE(events.size() == 1);
  CHECK(events[0].locality == f.config.locality);
}

TEST_CASE("a load makes no event, whether it succeeds or fails", "[fs][io][events]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.config.enable_kv_events = true;
  f.start();
  f.store_named(0, 2);
  f.tier->take_events();
  CHECK(f.load(tier_keys(0, 2), 8).success);
  CHECK_FALSE(f.load(tier_keys(7, 1), 8).success);
  test::flip_byte(f.path_of(tier_key(0)), 100);
  CHECK_FALSE(f.load(tier_keys(0, 1), 8).success);
  CHECK(f.tier->take_events().empty());
}

TEST_CASE("a store that failed, in whole or in part, makes no event", "[fs][io][events]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.config.enable_kv_events = true;
  f.start();
  f.faults->store_error_every = 2;
  const JobResult partial = f.store(tier_keys(0, 2));
  CHECK(partial.fates == std::vector{KeyFate::done, KeyFate::failed});
  f.faults->store_error_every = 1;
  CHECK_FALSE(f.store(tier_keys(10, 2)).success);
  CHECK(f.tier->take_events().empty());
}

TEST_CASE("of several stores only those that succeeded make an event", "[fs][io][events]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.config.enable_kv_events = true;
  f.start();
  // A file where the directory of key 1 should be.
  test::write_file(std::filesystem::path(f.path_of(tier_key(1))).parent_path(), "in the way");
  const JobId bad = f.submit(f.job(false, tier_keys(1, 1), 1));
  const JobId good = f.submit(f.job(false, tier_keys(5, 2), 5));
  CHECK_FALSE(f.end_of(bad).success);
  CHECK(f.end_of(good).success);
  const auto events = f.tier->take_events();
  REQUIRE(events.size() == 1);
  CHECK(events[0].keys == tier_keys(5, 2));
}

TEST_CASE("a cancelled store and one without keys make no event", "[fs][io][events]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.config.enable_kv_events = true;
  f.config.queue_depth = 1;
  f.start();
  CHECK(f.store({}).success);
  f.faults->hang = true;
  const JobId running = f.submit(f.job(false, tier_keys(0, 1)));
  while (f.memory.uses() == 0) f.probe(tier_keys(50, 1));
  const JobId queued = f.submit(f.job(false, tier_keys(1, 1), 1));
  f.tier->cancel(queued);
  CHECK(f.end_of(queued).failure == TransferFailure::cancelled);
  f.faults->hang = false;
  CHECK(f.end_of(running).success);
  const auto events = f.tier->take_events();
  REQUIRE(events.size() == 1);
  CHECK(events[0].keys == tier_keys(0, 1));
}

TEST_CASE("without being asked for, no event is kept", "[fs][io][events]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  f.store_named(0, 2);
  CHECK(f.tier->take_events().empty());
}

TEST_CASE("events that nobody takes are bounded: later ones are dropped and counted",
          "[fs][events]") {
  FsConfig config;
  config.root_dir = "/cache";
  config.enable_kv_events = true;
  auto shared = std::make_shared<FsShared>();
  FsStorage storage(*FileMapper::make(config.root_dir, {}), config, 4096, shared);
  TransferJob job;
  JobResult result;
  result.success = true;
  for (std::uint64_t i = 0; i < EventQueue::kEventsMax + 3; ++i) {
    job.keys = tier_keys(i, 1);
    storage.job_ended(job, result);
  }
  std::uint64_t dropped = 0;
  const auto events = shared->events.take(dropped);
  CHECK(events.size() == EventQueue::kEventsMax);
  CHECK(events.front().keys == tier_keys(0, 1));
  CHECK(dropped == 3);
  CHECK(shared->events.take(dropped).empty());
  CHECK(dropped == 0);
}

TEST_CASE("events that were dropped are said aloud once they are taken", "[fs][io][events]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture::Options options;
  options.row_bytes = 4096;
  options.jobs_max = 1024;
  FsFixture f(options);
  f.config.enable_kv_events = true;
  f.start();
  f.store_named(0, 1);
  std::vector<JobId> ids;
  for (std::size_t i = 1; i < EventQueue::kEventsMax + 3; ++i) {
    ids.push_back(f.submit(f.job(false, tier_keys(0, 1))));
    if (ids.size() < 512) continue;
    for (const JobId& id : ids) f.end_of(id);
    ids.clear();
  }
  for (const JobId& id : ids) f.end_of(id);
  CHECK(f.tier->take_events().size() == EventQueue::kEventsMax);
  CHECK(f.log().find("3 events were dropped") != std::string::npos);
  f.store_named(1, 1);
  CHECK(f.tier->take_events().size() == 1);  // room again
}

}  // namespace
}  // namespace kv_offload
