// A store that dies again and again in the middle of everything.
#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tests/support/tier_obj_fixture.hpp"

#include <algorithm>
#include <random>
#include <set>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
using test::becomes_true;
using test::ObjFixture;
using test::tier_keys;

constexpr std::uint64_t kKeysPerJob = 4;

/// One round: a load, a store and a probe, and the store ends in the middle of them.
struct Storm {
  explicit Storm(std::uint64_t seed) : random(seed), f({.num_chunks = 16, .row_bytes = 64 << 10}) {
    f.config.max_inflight = 4;
    f.config.max_probes = 4;
    f.config.retry.attempts = 3;
    f.config.breaker = {.failures = 6, .open = 1ms, .open_max = 4ms};
    f.config.request_timeout = 2s;
    f.config.probe_timeout = 2s;
    f.start();
    for (std::uint64_t name = 0; name < 64; name += 8) f.store_named(name, 8);
  }
  std::uint64_t draw(std::uint64_t below) {
    return std::uniform_int_distribution<std::uint64_t>(0, below - 1)(random);
  }

  void round() {
    const std::uint64_t loaded = draw(64 - kKeysPerJob);
    const std::uint64_t stored = next_name;
    next_name += kKeysPerJob;
    for (ChunkId i = 0; i < kKeysPerJob; ++i) {
      f.memory.clear(i);
      f.memory.fill(4 + i, stored + i);
    }
    std::vector<TransferJob> jobs;
    jobs.push_back(f.job(true, tier_keys(loaded, kKeysPerJob), 0));
    jobs.push_back(f.job(false, tier_keys(stored, kKeysPerJob), 4));
    const auto ids = f.submit(std::move(jobs));
    const ProbeId probe = f.begin_probe(tier_keys(10'000 + 4 * stored, 4));
    std::this_thread::sleep_for(std::chrono::microseconds(draw(1500)));
    if (draw(3) == 0) {
      f.server.stop();
      if (draw(2) == 0) std::this_thread::sleep_for(std::chrono::microseconds(draw(2000)));
      REQUIRE(f.server.start());
    } else {
      f.server.close_connections();
    }
    const JobResult load = f.end_of(ids[0]);
    const JobResult store = f.end_of(ids[1]);
    for (const LookupResult verdict : f.end_of_probe(probe)) CHECK(verdict != LookupResult::hit);
    CHECK(f.memory.uses() == 0);
    for (const JobResult* each : {&load, &store}) {
      CHECK(each->success == (each->failure == TransferFailure::none));
      failed += each->success ? 0 : 1;
    }
    for (ChunkId i = 0; i < kKeysPerJob; ++i) {
      if (load.fates[i] == KeyFate::done) CHECK(f.memory.holds(i, loaded + i));
      if (store.fates[i] == KeyFate::done) kept.insert(stored + i);
    }
  }

  std::mt19937_64 random;
  ObjFixture f;
  std::uint64_t next_name = 1000;
  std::set<std::uint64_t> kept;
  int failed = 0;
};

TEST_CASE(
    "a store that is killed in the middle of transfers costs jobs, never bytes, slots or "
    "descriptors",
    "[obj][io]") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  const std::size_t before = test::open_descriptors();
  {
    Storm storm(seed);
    std::size_t most = 0;
    for (int i = 0; i < 200; ++i) {
      INFO("round " << i);
      storm.round();
      most = std::max(most, test::open_descriptors());
    }
    // Both ends of each connection are in this process: 2 * 4 transfers, 4 probes, and the sockets
    // and pollers of store and loop.
    CHECK(most <= before + 2 * (2 * 4 + 4) + 16);
    // Whatever was said to be stored is there, whole.
    ObjFixture& f = storm.f;
    f.config.breaker.failures = 0;
    f.start();
    for (const std::uint64_t name : storm.kept) {
      CHECK(f.load(tier_keys(name, 1), 15).success);
      CHECK(f.memory.holds(15, name));
    }
    CHECK(storm.kept.size() >= 20);  // of 800; a fast machine keeps most of them
    CHECK(f.tier->stats().corrupt_chunks == 0);
  }
  CHECK(test::open_descriptors() == before);
}

TEST_CASE("a store that comes back is used again without a restart", "[obj][io]") {
  ObjFixture f;
  f.config.breaker = {.failures = 3, .open = 1ms, .open_max = 10ms};
  f.start();
  f.store_named(1, 2);
  f.server.stop();
  const JobResult lost = f.load(tier_keys(1, 2), 8);
  CHECK(lost.failure == TransferFailure::io_error);
  CHECK(f.probe(tier_keys(50, 2)) == std::vector(2, LookupResult::retry));
  CHECK(f.answers("unreachable") >= 1);
  REQUIRE(f.server.start());
  CHECK(becomes_true([&] { return f.load(tier_keys(1, 2), 8).success; }));
  CHECK(f.memory.holds(8, 1));
  CHECK(f.probe(tier_keys(50, 1)) == std::vector{LookupResult::miss});
}

}  // namespace
}  // namespace kv_offload
