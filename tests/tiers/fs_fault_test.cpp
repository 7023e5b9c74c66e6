#include "kv_offload/tests/support/tier_fs_fixture.hpp"
#include "kv_offload/tiers/fs/refused_keys.hpp"
#include "kv_offload/tiers/io/scripted_backend.hpp"

#include <catch2/catch.hpp>

#include <cerrno>
#include <sys/stat.h>
#include <thread>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
using test::FsFixture;
using test::tier_key;
using test::tier_keys;

TEST_CASE("a failed write leaves no file, no temporary and no descriptor", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  const std::size_t before = test::open_descriptors();
  SECTION("an error of the device") {
    f.faults->store_error_every = 1;
    const JobResult result = f.store(tier_keys(0, 3));
    CHECK(result.failure == TransferFailure::io_error);
    CHECK(result.error_number == EIO);
  }
  SECTION("no space") {
    f.faults->full = true;
    const JobResult result = f.store(tier_keys(0, 3));
    CHECK(result.failure == TransferFailure::no_space);
    CHECK(result.error_number == ENOSPC);
  }
  CHECK(f.directory.files(".bin").empty());
  CHECK(f.directory.files(".tmp").empty());
  CHECK(test::open_descriptors() == before);
  CHECK(f.probe(tier_keys(0, 1)) == std::vector{LookupResult::miss});
}

TEST_CASE("a failed read leaves the file, and the next read may succeed", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  f.store_named(0, 1);
  f.faults->load_error_every = 1;
  CHECK(f.load(tier_keys(0, 1), 8).failure == TransferFailure::io_error);
  f.faults->load_error_every = 0;
  CHECK(f.load(tier_keys(0, 1), 8).success);
  CHECK(f.memory.holds(8, 0));
}

TEST_CASE("short transfers of the device still give verified chunks", "[fs]") {
  FsFixture::Options options;
  options.make_backend = [](const LaneOptions&) {
    return std::make_unique<ScriptedBackend>([](const IoRequest& r, std::uint64_t ordinal) {
      ScriptedResult result;
      if (ordinal % 2 == 0 && r.length > 4096) result.length_max = r.length / 2 / 4096 * 4096;
      return result;
    });
  };
  FsFixture f(options);
  f.start();
  f.store_named(0, 5);
  REQUIRE(f.load(tier_keys(0, 5), 8).success);
  for (ChunkId i = 0; i < 5; ++i) CHECK(f.memory.holds(8 + i, i));
}

TEST_CASE("a sync that fails fails the store", "[fs]") {
  FsFixture::Options options;
  options.make_backend = [](const LaneOptions&) {
    return std::make_unique<ScriptedBackend>([](const IoRequest& r, std::uint64_t) {
      ScriptedResult result;
      if (r.op == IoOp::sync_data) result.result = -EIO;
      return result;
    });
  };
  FsFixture f(options);
  f.config.durability = Durability::data;
  f.start();
  CHECK(f.store(tier_keys(0, 1)).failure == TransferFailure::io_error);
  CHECK(f.directory.files(".bin").empty());
  CHECK(f.directory.files(".tmp").empty());
}

TEST_CASE("a key that cannot be created fails alone", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  // A file where the directory of key 1 should be.
  const auto parent = std::filesystem::path(f.path_of(tier_key(1))).parent_path();
  test::write_file(parent, "in the way");
  const JobResult result = f.store(tier_keys(0, 3));
  CHECK(result.fates == std::vector{KeyFate::done, KeyFate::failed, KeyFate::done});
  CHECK(result.failure == TransferFailure::io_error);
  CHECK(result.error_number == ENOTDIR);
  CHECK(f.probe(tier_keys(1, 1)) == std::vector{LookupResult::miss});
}

TEST_CASE("a pipe in a chunk's place costs that key and holds nobody up", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.config.checksum = GENERATE(true, false);
  f.start();
  f.store_named(0, 2);
  const std::string path = f.path_of(tier_key(1));
  std::filesystem::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_FALSE(f.load(tier_keys(1, 1), 8).success);
  CHECK(f.load(tier_keys(0, 1), 8).success);
  CHECK(f.probe(tier_keys(0, 2)) == std::vector{LookupResult::hit, LookupResult::miss});
  CHECK(f.store(tier_keys(1, 1), 0).success);
  CHECK(f.load(tier_keys(1, 1), 8).success);
}

TEST_CASE("a probe that cannot tell says so", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  const auto fan_out = std::filesystem::path(f.path_of(tier_key(0))).parent_path().parent_path();
  std::filesystem::create_symlink(fan_out, fan_out);  // ELOOP
  CHECK(f.probe(tier_keys(0, 1)) == std::vector{LookupResult::retry});
  CHECK(f.load(tier_keys(0, 1)).error_number == ELOOP);
}

TEST_CASE("probes are answered while transfers hang, and a released hang reports", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  f.store_named(0, 4);
  f.faults->hang = true;
  const JobId load = f.submit(f.job(true, tier_keys(0, 4), 8));
  const JobId store = f.submit(f.job(false, tier_keys(10, 2)));
  while (f.memory.uses() != 6) f.probe(tier_keys(0, 1));
  CHECK(f.probe({tier_key(0), tier_key(10), tier_key(99)}) ==
        std::vector{LookupResult::hit, LookupResult::retry, LookupResult::miss});
  CHECK_FALSE(f.sink.has_ended(load));
  CHECK_FALSE(f.sink.has_ended(store));
  CHECK(f.tier->stats().running_jobs == 2);
  f.faults->hang = false;
  CHECK(f.end_of(load).success);
  CHECK(f.end_of(store).success);
  CHECK(f.tier->stats().running_jobs == 0);
  CHECK(f.memory.uses() == 0);
}

TEST_CASE("a queue that is cancelled costs no file", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.config.queue_depth = 1;
  f.faults->hang = true;
  f.start();
  const JobId running = f.submit(f.job(false, tier_keys(0, 1)));
  while (f.memory.uses() == 0) f.probe(tier_keys(50, 1));
  std::vector<JobId> queued;
  for (std::uint64_t i = 1; i <= 5; ++i)
    queued.push_back(f.submit(f.job(false, tier_keys(10 * i, 2))));
  CHECK(f.tier->stats().queued_jobs == 5);
  f.tier->cancel(queued[2]);
  CHECK(f.end_of(queued[2]).failure == TransferFailure::cancelled);
  f.tier->cancel_queued();
  for (const JobId& id : queued) CHECK(f.end_of(id).failure == TransferFailure::cancelled);
  CHECK(f.tier->stats().queued_jobs == 0);
  f.faults->hang = false;
  CHECK(f.end_of(running).success);
  CHECK(f.directory.files(".bin").size() == 1);
}

TEST_CASE("a killed lane says nothing and its temporary files go with the tier", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.faults->hang = true;
  f.start();
  const std::size_t before = test::open_descriptors();
  const JobId id = f.submit(f.job(false, tier_keys(0, 2)));
  while (f.memory.uses() != 2) f.probe(tier_keys(50, 1));
  f.probe(tier_keys(50, 1));  // the turn that started the second one is over
  CHECK(f.directory.files(".tmp").size() == 2);
  f.faults->kill_lane = true;
  CHECK(f.stop());
  CHECK_FALSE(f.sink.has_ended(id));
  CHECK_FALSE(f.sink.lane_is_dead());
  f.tier.reset();
  CHECK(f.directory.files(".tmp").empty());
  // The ring is gone as well; threads have no descriptor.
  CHECK(test::open_descriptors() + (test::test_io() == IoMode::uring ? 1 : 0) <= before);
}

TEST_CASE("many probes and transfers at once are all answered", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture::Options options;
  options.row_bytes = 4096;
  options.num_chunks = 64;
  FsFixture f(options);
  f.start();
  f.store_named(0, 32);
  std::vector<JobId> jobs;
  std::vector<ProbeId> probes;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const bool is_load = i % 2 == 0;
    jobs.push_back(f.submit(
        f.job(is_load, tier_keys(is_load ? i % 32 : 1000 + i, 1), static_cast<ChunkId>(i % 64))));
    if (f.tier->probe(10'000 + i, tier_keys(0, 16))) probes.push_back(10'000 + i);
  }
  for (const JobId& id : jobs) CHECK(f.end_of(id).success);
  for (const ProbeId id : probes)
    CHECK(f.sink.wait_probe(id) == std::vector(16, LookupResult::hit));
  CHECK(f.tier->stats().probes == 16 * probes.size());
  CHECK(f.sink.violations().empty());
}

TEST_CASE("refused keys are bounded and forget the oldest", "[fs]") {
  RefusedKeys refused(2);
  using Reason = RefusedKeys::Reason;
  refused.add(tier_key(0), Reason::foreign);
  refused.add(tier_key(0), Reason::corrupt);  // the first reason stays
  refused.add(tier_key(1), Reason::corrupt);
  REQUIRE(refused.find(tier_key(0)) != nullptr);
  CHECK(*refused.find(tier_key(0)) == Reason::foreign);
  refused.add(tier_key(2), Reason::corrupt);
  CHECK(refused.find(tier_key(0)) == nullptr);
  CHECK(refused.size() == 2);
  refused.remove(tier_key(1));
  refused.add(tier_key(3), Reason::corrupt);
  CHECK(refused.find(tier_key(2)) != nullptr);
  CHECK(refused.find(tier_key(3)) != nullptr);
}

}  // namespace
}  // namespace kv_offload
