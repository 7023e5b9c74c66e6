#include "kv_offload/tests/tiers/extent_fixture.hpp"
#include "kv_offload/tiers/io/scripted_backend.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

namespace kv_offload {
namespace {

using test::ExtentFixture;
using test::tier_key;
using test::tier_keys;

/// What a request is for, told by where it goes.
enum class What { superblock, header, record, row, sync, other };
What what_of(const ExtentGeometry& g, const IoRequest& r) {
  if (r.op == IoOp::sync_data || r.op == IoOp::sync_file) return What::sync;
  if (r.offset < g.data_at) return What::other;
  const std::uint64_t in_segment = (r.offset - g.data_at) % g.stride;
  if (in_segment >= g.table_bytes) return What::row;
  return in_segment == 0 ? What::header : What::record;  // small tables: one block is both
}

/// A device whose writes or reads of one kind fail while a switch is on.
struct Scripted {
  std::atomic<What> fails{What::superblock};
  std::atomic<IoOp> op{IoOp::write};
  std::atomic<int> error{EIO};
  std::atomic<std::uint64_t> failures_max{~0ULL};
  std::atomic<std::uint64_t> failed{0};

  ExtentFixture::Options options(ExtentFixture::Options base = {}) {
    ExtentFixture shape(base);
    const ExtentGeometry g = shape.geometry();
    base.make_backend = [this, g](const LaneOptions&) {
      return std::make_unique<ScriptedBackend>([this, g](const IoRequest& r, std::uint64_t) {
        ScriptedResult result;
        if (what_of(g, r) == fails && (r.op == op || fails == What::sync) &&
            failed < failures_max) {
          ++failed;
          result.result = -error.load();
        }
        return result;
      });
    };
    return base;
  }
};

TEST_CASE("a row that cannot be written fails its key and no other", "[extent]") {
  Scripted device;
  ExtentFixture f(device.options());
  f.start();
  f.store_named(0, 2);
  device.error = GENERATE(EIO, ENOSPC);
  device.fails = What::row;
  const JobResult result = f.store(tier_keys(10, 3));
  CHECK(result.fates == std::vector(3, KeyFate::failed));
  CHECK(result.failure ==
        (device.error == ENOSPC ? TransferFailure::no_space : TransferFailure::io_error));
  CHECK(result.error_number == device.error);
  device.fails = What::superblock;
  CHECK(f.present(10, 3).empty());
  CHECK(f.store(tier_keys(10, 3)).success);
  f.store_named(20, 8);
  f.start();
  CHECK(f.present(0, 40).size() == 13);
  CHECK(f.memory.uses() == 0);
  CHECK(f.sink.inner.violations().empty());
}

TEST_CASE("a record that cannot be written fails its key, which is gone after a restart, too",
          "[extent]") {
  Scripted device;
  ExtentFixture f(device.options());
  f.start();
  f.store_named(0, 2);
  device.fails = What::header;  // the table is one block here
  device.failures_max = 1;
  const JobResult result = f.store(tier_keys(10, 1));
  CHECK(result.failure == TransferFailure::io_error);
  CHECK(f.present(10, 1).empty());
  f.store_named(20, 3);
  f.start();
  CHECK(f.present(0, 40) == std::vector<std::uint64_t>{0, 1, 20, 21, 22});
}

TEST_CASE("a segment whose header cannot be written is set aside, its stores fail at once",
          "[extent]") {
  Scripted device;
  ExtentFixture f(device.options());
  f.start();
  device.fails = What::header;
  device.failures_max = 2;
  CHECK(f.store(tier_keys(0, 3)).failure == TransferFailure::io_error);
  CHECK(f.store(tier_keys(0, 3)).failure == TransferFailure::io_error);
  CHECK(f.store(tier_keys(0, 3)).success);
  CHECK(f.metric("bad_segments") == 2);
  f.store_named(10, 100);
  const auto left = f.present(10, 100);
  CHECK(left.size() >= 16);
  for (const auto name : left) CHECK(f.loads_named(name));
  f.start();  // tried anew
  CHECK(f.metric("bad_segments") == 0);
}

TEST_CASE("with every header refused stores fail for want of space and loads go on", "[extent]") {
  Scripted device;
  ExtentFixture f(device.options());
  f.start();
  f.store_named(0, 8);
  device.fails = What::header;
  for (int i = 0; i < 12; ++i) {
    const JobResult result = f.store(tier_keys(100, 2));
    CHECK_FALSE(result.success);
  }
  CHECK(f.store(tier_keys(100, 2)).failure == TransferFailure::no_space);
  CHECK(f.store(tier_keys(100, 2)).error_number == ENOSPC);
}

TEST_CASE("a load that fails on the device fails with its errno and may work later", "[extent]") {
  Scripted device;
  ExtentFixture f(device.options());
  f.start();
  f.store_named(0, 3);
  device.op = IoOp::read;
  device.fails = What::row;
  const JobResult result = f.load(tier_keys(0, 2), 8);
  CHECK(result.failure == TransferFailure::io_error);
  CHECK(result.error_number == EIO);
  device.fails = What::superblock;
  CHECK(f.loads_named(0));
  CHECK(f.tier->stats().corrupt_chunks == 0);
}

TEST_CASE("a store is not done before its sync, and fails with it", "[extent]") {
  Scripted device;
  ExtentFixture f(device.options());
  f.config.durability = GENERATE(Durability::data, Durability::full);
  f.start();
  f.store_named(0, 2);
  device.fails = What::sync;
  device.failures_max = 1;
  const JobResult result = f.store(tier_keys(10, 2));
  CHECK(result.failure == TransferFailure::io_error);
  CHECK(device.failed == 1);
  CHECK(f.present(10, 2).empty());
  f.store_named(20, 2);
  f.start();  // what was written without its sync was erased again
  CHECK(f.present(0, 40) == std::vector<std::uint64_t>{0, 1, 20, 21});
}

TEST_CASE("a victim that cannot be read is dropped, one that cannot be wiped is set aside",
          "[extent]") {
  Scripted device;
  ExtentFixture f(device.options());
  f.start();
  f.store_named(0, 40);
  CHECK(f.loads_named(3));
  device.op = IoOp::read;
  device.fails = What::header;  // the victim's table
  f.store_named(40, 1);
  REQUIRE(f.metric_becomes("evicted_segments_total", 1));
  CHECK(f.metric("rewritten_chunks_total") == 0);
  CHECK(f.present(0, 8).empty());
  device.fails = What::superblock;
  f.store_named(41, 200);
  CHECK(f.present(41, 200).size() >= 32);
}

TEST_CASE("a damaged row is corrupt once, then gone, also after a restart", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.start();
  f.store_named(0, 12);
  f.stop();
  const std::uint32_t slot = GENERATE(0U, 3U, 11U);
  test::flip_byte(f.config.path, static_cast<std::streamoff>(f.geometry().row_at(slot) + 1000));
  f.start();
  const JobResult result = f.load(tier_keys(slot, 1), 8);
  CHECK(result.failure == TransferFailure::corrupt);
  CHECK(f.tier->stats().corrupt_chunks == 1);
  CHECK(f.present(0, 12).size() == 11);
  CHECK(f.load(tier_keys(slot, 1), 8).failure == TransferFailure::not_found);
  f.start();
  CHECK(f.present(0, 12).size() == 11);
  f.memory.fill(0, slot);
  CHECK(f.store(tier_keys(slot, 1)).success);
  CHECK(f.loads_named(slot));
}

TEST_CASE(
    "without digests rows are served as they are, counted, and refused once digests are on again",
    "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.config.checksum = false;
  f.start();
  f.store_named(0, 4);
  CHECK(f.loads_named(1));
  CHECK(f.tier->stats().unverified_chunks == 1);
  f.stop();
  test::flip_byte(f.config.path, static_cast<std::streamoff>(f.geometry().row_at(2) + 1000));
  f.start();
  f.memory.clear(8);
  CHECK(f.load(tier_keys(2, 1), 8).success);
  CHECK_FALSE(f.memory.holds(8, 2));
  f.config.checksum = true;
  f.start();
  CHECK(f.load(tier_keys(1, 1), 8).failure == TransferFailure::corrupt);
  CHECK(f.load(tier_keys(1, 1), 8).failure == TransferFailure::not_found);
  f.memory.fill(0, 1);
  CHECK(f.store(tier_keys(1, 1)).success);
  CHECK(f.loads_named(1));
}

TEST_CASE("a byte flipped on its way to the device is found at the load, also in joined writes",
          "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.start();
  f.faults->corrupt_every = 2;
  f.store_named(0, 8);
  f.faults->corrupt_every = 0;
  std::size_t corrupt = 0;
  for (std::uint64_t name = 0; name < 8; ++name) {
    f.memory.clear(8);
    const JobResult result = f.load(tier_keys(name, 1), 8);
    if (result.success) {
      CHECK(f.memory.holds(8, name));
    } else {
      CHECK(result.failure == TransferFailure::corrupt);
      ++corrupt;
    }
  }
  CHECK(corrupt == 4);
}

TEST_CASE("rows that were exchanged, or belong to another key, are not served", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.start();
  f.store_named(0, 2);
  f.stop();
  const auto g = f.geometry();
  std::string bytes = test::read_file(f.config.path);
  std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(g.row_at(0)),
                   bytes.begin() + static_cast<std::ptrdiff_t>(g.row_at(0) + 4096),
                   bytes.begin() + static_cast<std::ptrdiff_t>(g.row_at(1)));
  test::write_file(f.config.path, bytes);
  f.start();
  CHECK(f.load(tier_keys(0, 2), 8).failure == TransferFailure::corrupt);
  CHECK(f.tier->stats().corrupt_chunks == 2);
}

TEST_CASE("every n-th request fails when asked for, the rest is served", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.start();
  f.faults->store_error_every = 2;
  const JobResult result = f.store(tier_keys(0, 4));
  CHECK(std::count(result.fates.begin(), result.fates.end(), KeyFate::done) == 2);
  CHECK(result.failure == TransferFailure::io_error);
  f.faults->store_error_every = 0;
  f.faults->full = true;
  CHECK(f.store(tier_keys(10, 1)).failure == TransferFailure::no_space);
  f.faults->full = false;
  f.store_named(20, 8);
  f.faults->load_error_every = 1;
  CHECK(f.load(tier_keys(20, 1), 8).failure == TransferFailure::io_error);
  f.faults->load_error_every = 0;
  CHECK(f.loads_named(20));
}

TEST_CASE("a hung device holds its jobs, the stop gives up in time and the sink hears no more",
          "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.start();
  f.store_named(0, 4);
  f.faults->hang = true;
  const JobId load = f.submit(f.job(true, tier_keys(0, 2), 8));
  const JobId store = f.submit(f.job(false, tier_keys(10, 2)));
  while (f.memory.uses() < 4) f.probe(tier_keys(0, 1));
  CHECK_FALSE(f.sink.inner.has_ended(load));
  CHECK_FALSE(f.sink.inner.has_ended(store));
  SECTION("it comes back") {
    f.faults->hang = false;
    CHECK(f.end_of(load).success);
    CHECK(f.end_of(store).success);
    CHECK(f.stop());
  }
  SECTION("it does not in time") {
    CHECK_FALSE(f.stop(std::chrono::milliseconds(50)));
    CHECK_FALSE(f.sink.inner.has_ended(load));
  }
}

TEST_CASE("queued stores are cancelled and the running ones end", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.config.queue_depth = 1;
  f.config.enable_kv_events = true;
  f.start();
  f.faults->hang = true;
  const JobId running = f.submit(f.job(false, tier_keys(0, 1)));
  while (f.memory.uses() == 0) f.probe(tier_keys(50, 1));
  const JobId queued = f.submit(f.job(false, tier_keys(1, 1), 1));
  const JobId other = f.submit(f.job(false, tier_keys(2, 1), 2));
  f.tier->cancel(queued);
  CHECK(f.end_of(queued).failure == TransferFailure::cancelled);
  f.tier->cancel_queued();
  CHECK(f.end_of(other).failure == TransferFailure::cancelled);
  f.faults->hang = false;
  CHECK(f.end_of(running).success);
  CHECK(f.tier->take_events().size() == 1);
  f.stop();
  CHECK(f.end_of(f.submit(f.job(false, tier_keys(3, 1)))).failure == TransferFailure::cancelled);
}

TEST_CASE("a lane that died is reported and the file serves the next start", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  f.start();
  f.store_named(0, 4);
  f.faults->kill_lane = true;
  while (f.tier->probe(99, tier_keys(0, 1)))
    if (f.stop()) break;
  f.faults->kill_lane = false;
  f.start();
  for (std::uint64_t name = 0; name < 4; ++name) CHECK(f.loads_named(name));
}

// --- kill -9 --------------------------------------------------------------------------------------

/// Stores names 0, 1, … in a process of its own until it is killed; the parent learns what was reported.
std::uint64_t store_until_killed(ExtentFixture& f, std::uint64_t first, std::uint64_t count) {
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(pipe_ends[0]);
    if (!f.try_start()) ::_exit(1);
    for (std::uint64_t name = first;; name += 4) {
      for (ChunkId i = 0; i < 4; ++i) f.memory.fill(i, name + i);
      if (!f.store(tier_keys(name, 4)).success) ::_exit(2);
      if (::write(pipe_ends[1], &name, sizeof name) != sizeof name) ::_exit(3);
    }
  }
  ::close(pipe_ends[1]);
  std::uint64_t last = first;
  std::uint64_t name = 0;
  for (std::uint64_t n = 0; n < count && ::read(pipe_ends[0], &name, sizeof name) == sizeof name;
       ++n)
    last = name;
  ::kill(child, SIGKILL);
  while (::read(pipe_ends[0], &name, sizeof name) == sizeof name) last = name;
  ::close(pipe_ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  return last + 4;
}

TEST_CASE("after kill -9 every chunk that was reported is there, and every chunk is whole",
          "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  std::uint64_t first = 0;
  for (std::uint64_t round = 1; round <= 6; ++round) {
    const std::uint64_t end = store_until_killed(f, first, 3 * round);
    f.start();
    CHECK((round == 1 || f.log().find("not clean") != std::string::npos));
    const auto left = f.present(0, end + 100);
    const std::uint64_t kept = std::min<std::uint64_t>(end - first, 20);
    for (std::uint64_t name = end - kept; name < end; ++name)
      CHECK(std::find(left.begin(), left.end(), name) != left.end());
    for (const auto name : left) CHECK(f.loads_named(name));
    CHECK(f.tier->stats().corrupt_chunks == 0);
    f.stop();
    f.tier.reset();
    first = end + 1000;
  }
}

}  // namespace
}  // namespace kv_offload
