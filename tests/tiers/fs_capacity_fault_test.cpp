#include "kv_offload/tests/support/fs_capacity_fixture.hpp"

#include <catch2/catch.hpp>

#include <atomic>

namespace kv_offload {
namespace {

using test::FsCapacityFixture;
using test::tier_key;
using test::tier_keys;

/// A tier over a scripted device; the script sees the storage's own requests, too.
FsCapacityFixture::Options scripted(ScriptedBackend::Script script) {
  FsCapacityFixture::Options options;
  options.make_backend = [script = std::move(script)](const LaneOptions& lane) {
    ScriptedBackend::Options device;
    device.queue_depth = 2 * lane.queue_depth + FsCapacity::kOwnIoMax;
    return std::make_unique<ScriptedBackend>(script, device);
  };
  return options;
}

TEST_CASE("a file that cannot be removed stays, counts, is served and is tried once",
          "[fs][io][capacity]") {
  std::atomic<int> tries{0};
  std::atomic<int> error{EROFS};
  FsCapacityFixture f(4, scripted([&](const IoRequest& r, std::uint64_t) {
                        ScriptedResult result;
                        if (r.op != IoOp::unlink) return result;
                        ++tries;
                        if (error != 0) result.result = -error;
                        return result;
                      }));
  f.config.enable_kv_events = true;
  f.start();
  REQUIRE(f.settle());
  error = GENERATE(EROFS, EACCES, EPERM, EIO);
  f.store_in_order(0, 4);
  // Written while its victim was on its way out, which came to nothing; then each is tried once.
  f.store_one(4);
  REQUIRE(f.wait_for([&] { return f.sample("unlink_failures_total") == 5; }));
  CHECK(f.on_disk() == 5 * f.bytes_per_chunk);
  CHECK(f.on_disk() <= f.bound());
  f.memory.fill(5, 5);
  for (int i = 0; i < 3; ++i) {
    const JobResult refused = f.store(tier_keys(5, 1), 5);
    CHECK_FALSE(refused.success);
    CHECK(refused.failure == TransferFailure::no_space);
  }
  CHECK(tries == 5);
  CHECK(f.sample("evicted_chunks_total") == 0);
  CHECK(f.sample("resident_chunks") == 5);
  for (const OffloadingEvent& event : f.tier->take_events()) CHECK_FALSE(event.removed);
  for (std::uint64_t name = 0; name < 5; ++name) {
    CHECK(f.has(name));
    CHECK(f.load(tier_keys(name, 1), 8).success);
  }
  CHECK(tries == 5);
  const std::string log = f.log();
  const auto told = log.find("cannot be removed");
  REQUIRE(told != std::string::npos);
  CHECK(log.find("cannot be removed", told + 1) == std::string::npos);

  error = 0;
  REQUIRE(f.tier->forget(1, tier_keys(0, 2)));  // makes room
  REQUIRE(f.wait_for([&] { return f.sample("resident_chunks") == 3; }));
  CHECK(f.store(tier_keys(5, 1), 5).success);
  f.stop();
  f.start();  // the next start tries them again
  f.store_one(6);
  REQUIRE(f.settle());
  CHECK(tries == 6);
  CHECK(f.directory.files(".bin").size() == 4);
}

TEST_CASE("a file that was removed by somebody else leaves the index without an eviction",
          "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture f(4);
  f.start();
  REQUIRE(f.settle());
  f.store_in_order(0, 4);
  for (std::uint64_t name = 0; name < 3; ++name) std::filesystem::remove(f.path_of(tier_key(name)));
  const JobResult gone = f.load(tier_keys(0, 1), 8);
  CHECK(gone.failure == TransferFailure::not_found);
  CHECK_FALSE(f.has(1));
  REQUIRE(f.wait_for([&] { return f.sample("resident_chunks") == 2; }));
  CHECK(f.sample("vanished_chunks_total") == 2);
  f.store_one(10);
  f.store_one(11);
  f.store_one(12);  // the victim is the third one that is gone
  REQUIRE(f.settle());
  CHECK(f.sample("evicted_chunks_total") == 0);
  CHECK(f.sample("vanished_chunks_total") == 3);
  CHECK(f.has(3));
  // Stored again after it vanished: counted once.
  std::filesystem::remove(f.path_of(tier_key(3)));
  f.store_one(3);
  REQUIRE(f.settle());
  CHECK(f.sample("resident_chunks") == 4);
}

TEST_CASE("a whole directory that somebody cleared costs stores, not failures",
          "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture f(6);
  f.start();
  REQUIRE(f.settle());
  f.store_in_order(0, 6);
  for (const auto& entry : std::filesystem::directory_iterator(f.directory.path()))
    std::filesystem::remove_all(entry.path());
  f.store_in_order(10, 6);
  REQUIRE(f.settle());
  for (std::uint64_t i = 0; i < 6; ++i) CHECK(f.has(10 + i));
  f.stop();
}

TEST_CASE("a full disk below the capacity fails one key and makes some room",
          "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  std::atomic<bool> full{false};
  std::atomic<int> unlinks{0};
  FsCapacityFixture f(64, scripted([&](const IoRequest& r, std::uint64_t) {
                        ScriptedResult result;
                        if (r.op == IoOp::unlink) ++unlinks;
                        if (full && r.op == IoOp::write && r.length == 65536)
                          result.result = -ENOSPC;
                        return result;
                      }));
  f.start();
  REQUIRE(f.settle());
  for (std::uint64_t i = 0; i < 20; ++i) f.store_one(i);
  full = true;
  const JobResult refused = f.store(tier_keys(100, 1));
  CHECK(refused.failure == TransferFailure::no_space);
  full = false;
  REQUIRE(f.wait_for([&] { return f.sample("evicted_chunks_total") == 8; }));
  REQUIRE(f.settle());
  CHECK(unlinks == 8);
  CHECK(f.directory.files(".bin").size() == 12);
  CHECK(f.directory.files(".tmp").empty());
  for (std::uint64_t i = 0; i < 8; ++i) CHECK_FALSE(f.has(i));  // the oldest
  CHECK(f.store(tier_keys(100, 1)).success);
}

TEST_CASE("a store of a key whose file is on its way out waits and is not lost",
          "[fs][io][capacity]") {
  std::atomic<bool> slow{false};
  FsCapacityFixture f(2, scripted([&](const IoRequest& r, std::uint64_t) {
                        ScriptedResult result;
                        if (r.op == IoOp::unlink) result.held = &slow;
                        return result;
                      }));
  f.start();
  REQUIRE(f.settle());
  f.store_in_order(0, 2);
  slow = true;
  f.memory.fill(2, 2);
  REQUIRE(f.store(tier_keys(2, 1), 2).success);  // 0 is on its way out
  REQUIRE(f.has_file(0));
  CHECK_FALSE(f.has(0));
  CHECK(f.load(tier_keys(0, 1), 8).failure == TransferFailure::not_found);
  f.memory.fill(0, 0);
  const JobId again = f.submit(f.job(false, tier_keys(0, 1), 0));
  REQUIRE(f.wait_for([&] { return f.sample("waited_stores_total") == 1; }));
  CHECK_FALSE(f.sink.has_ended(again));
  slow = false;
  CHECK(f.end_of(again).success);
  REQUIRE(f.settle());
  CHECK(f.has_file(0));
  CHECK(f.load(tier_keys(0, 1), 8).success);
  CHECK(f.memory.holds(8, 0));
  CHECK(f.on_disk() == 2 * f.bytes_per_chunk);
}

TEST_CASE("stores wait when files are removed more slowly than written", "[fs][io][capacity]") {
  std::atomic<bool> slow{false};
  FsCapacityFixture f(16, scripted([&](const IoRequest& r, std::uint64_t) {
                        ScriptedResult result;
                        if (r.op == IoOp::unlink) result.held = &slow;
                        return result;
                      }));
  f.config.inflight_bytes_max = 2 * f.bytes_per_chunk;
  f.start();
  REQUIRE(f.settle());
  f.store_in_order(0, 16);
  slow = true;
  f.store_in_order(16, 2);  // in the place of two that are on their way out
  f.memory.fill(0, 18);
  const JobId third = f.submit(f.job(false, tier_keys(18, 1)));
  REQUIRE(f.wait_for([&] { return f.sample("waited_stores_total") == 1; }));
  CHECK_FALSE(f.sink.has_ended(third));
  CHECK(f.on_disk() == 18 * f.bytes_per_chunk);
  CHECK(f.on_disk() == f.bound());
  slow = false;
  CHECK(f.end_of(third).success);
  REQUIRE(f.settle());
  CHECK(f.on_disk() == 16 * f.bytes_per_chunk);
}

TEST_CASE("loads do not wait for files that are being removed", "[fs][io][capacity]") {
  std::atomic<bool> stuck{false};
  FsCapacityFixture f(4, scripted([&](const IoRequest& r, std::uint64_t) {
                        ScriptedResult result;
                        if (stuck && r.op == IoOp::unlink) result.after_reaps = 100'000'000;
                        return result;
                      }));
  f.start();
  REQUIRE(f.settle());
  f.store_in_order(0, 4);
  stuck = true;
  f.store_one(10);
  for (int i = 0; i < 20; ++i) CHECK(f.load(tier_keys(3, 1), 8).success);
  CHECK(f.sample("evicted_chunks_total") == 0);
}

TEST_CASE("quarantined files count and are the first to go", "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture f(4);
  f.start();
  REQUIRE(f.settle());
  f.store_in_order(0, 4);
  test::flip_byte(f.path_of(tier_key(3)), 5000);
  CHECK(f.load(tier_keys(3, 1), 8).failure == TransferFailure::corrupt);
  CHECK(f.directory.files(".quarantined").size() == 1);
  REQUIRE(f.wait_for([&] { return f.sample("resident_chunks") == 3; }));
  CHECK(f.sample("allocated_bytes") == static_cast<double>(f.on_disk()));
  const bool restarts = GENERATE(false, true);
  if (restarts) {
    f.stop();
    f.start();
    CHECK(f.sample("allocated_bytes") == static_cast<double>(f.on_disk()));
  }
  f.store_one(10);
  REQUIRE(f.settle());
  CHECK(f.directory.files(".quarantined").empty());
  for (const std::uint64_t name : {0, 1, 2, 10}) CHECK(f.has(name));
  CHECK(f.sample("evicted_chunks_total") == 0);
  CHECK(f.sample("evicted_bytes_total") == static_cast<double>(f.bytes_per_chunk));
}

TEST_CASE("a short file that a load removes is counted no more", "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture f(4);
  f.start();
  REQUIRE(f.settle());
  f.store_in_order(0, 2);
  std::filesystem::resize_file(f.path_of(tier_key(0)), 4096);
  CHECK(f.load(tier_keys(0, 1), 8).failure == TransferFailure::corrupt);
  REQUIRE(f.settle());
  CHECK(f.sample("resident_chunks") == 1);
}

TEST_CASE("forgotten chunks and tenants leave the index", "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture f(8);
  f.start();
  REQUIRE(f.settle());
  f.store_in_order(0, 4);
  KeyList salted;
  for (std::uint64_t i = 0; i < 3; ++i) salted.push_back(*tier_key(50 + i).salted(42));
  for (ChunkId i = 0; i < 3; ++i) f.memory.fill(i, 50 + i);
  REQUIRE(f.store(salted).success);
  REQUIRE(f.tier->forget(1, tier_keys(1, 2)));
  REQUIRE(f.wait_for([&] { return f.sample("resident_chunks") == 5; }));
  REQUIRE(f.tier->forget_tenant(2, 42));
  REQUIRE(f.wait_for([&] { return f.sample("resident_chunks") == 2; }));
  REQUIRE(f.settle());
  CHECK(f.sample("vanished_chunks_total") == 0);
  f.store_in_order(100, 6);
  REQUIRE(f.settle());
  CHECK(f.has(0));
  CHECK(f.has(3));  // there was room for all
}

TEST_CASE("two engines on one directory each count what they know", "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture a(8);
  FsCapacityFixture b(8);
  b.config.root_dir = a.config.root_dir;
  a.start();
  b.start();
  REQUIRE(a.settle());
  REQUIRE(b.wait_for([&] { return b.sample("walk_progress") == 1; }));
  a.store_in_order(0, 4);
  b.store_in_order(100, 4);
  CHECK(a.sample("resident_chunks") == 4);
  CHECK(b.sample("resident_chunks") == 4);
  CHECK(a.has(100));  // adopted at the first hit
  CHECK(a.sample("adopted_chunks_total") == 1);
  REQUIRE(a.wait_for([&] { return a.sample("resident_chunks") == 5; }));
  // One evicts what the other knows; the other finds out when it looks.
  a.store_in_order(10, 8);
  REQUIRE(a.wait_for([&] { return a.sample("evicted_chunks_total") == 5; }));
  CHECK_FALSE(b.has(100));
  CHECK(b.load(tier_keys(100, 1), 8).failure == TransferFailure::not_found);
  CHECK(a.on_disk() <= 2 * *a.config.capacity_bytes);
  // The record of one that stops before the other is not the last word.
  a.stop();
  b.store_in_order(200, 2);
  b.stop();
  a.start();
  REQUIRE(a.settle());
  CHECK(a.sample("allocated_bytes") == static_cast<double>(a.on_disk()));
  a.stop();
}

TEST_CASE("chunks of an earlier revision count, go first, and are found when it comes back",
          "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture f(8);
  f.start();
  REQUIRE(f.settle());
  f.store_in_order(0, 6);
  REQUIRE(f.tier->set_revision("v2"));
  REQUIRE(f.wait_for([&] { return f.sample("walk_progress") == 1; }));
  CHECK_FALSE(f.has(0));
  f.store_in_order(20, 4);
  REQUIRE(f.settle());
  CHECK(f.sample("resident_chunks") == 8);
  CHECK(f.sample("evicted_chunks_total") == 2);
  const bool restarts = GENERATE(false, true);
  CAPTURE(restarts);
  if (restarts) {
    f.stop();
    f.identity.revision = "v2";
    f.start();
    CHECK(f.sample("resident_chunks") == 8);
    CHECK(f.sample("walk_progress") == 1);
  }
  REQUIRE(f.tier->set_revision(""));
  for (std::uint64_t name = 2; name < 6; ++name) CHECK(f.has(name));
  CHECK_FALSE(f.has(0));
  f.store_in_order(40, 4);  // now those of v2 are the first
  REQUIRE(f.settle());
  for (std::uint64_t name = 2; name < 6; ++name) CHECK(f.has(name));
  CHECK(f.sample("resident_chunks") == 8);
  CHECK(f.on_disk() == 8 * f.bytes_per_chunk);
  f.stop();
  CHECK(f.directory.files(".run").empty());
}

}  // namespace
}  // namespace kv_offload
