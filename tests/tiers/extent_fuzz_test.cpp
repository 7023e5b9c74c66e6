#include "kv_offload/tests/tiers/extent_fixture.hpp"
#include "kv_offload/tiers/io/scripted_backend.hpp"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <random>

namespace kv_offload {
namespace {

using test::ExtentFixture;
using test::tier_keys;

std::uint64_t seed_of_run() {
  if (const char* given = std::getenv("KV_OFFLOAD_TEST_SEED"))
    return std::strtoull(given, nullptr, 0);
  return std::random_device{}();
}

/// Damages the file's bytes the way accidents do.
void damage(std::string& bytes, const ExtentGeometry& g, std::mt19937_64& random) {
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  // Half of all damage where the structures are, which are a small part of the file.
  const auto place = [&]() -> std::uint64_t {
    if (bytes.empty()) return 0;
    switch (below(4)) {
      case 0: return below(std::min<std::uint64_t>(bytes.size(), g.data_at));
      case 1:
        return std::min<std::uint64_t>(
            bytes.size() - 1,
            g.segment_at(static_cast<std::uint32_t>(below(g.num_segments))) + below(g.table_bytes));
      default: return below(bytes.size());
    }
  };
  for (std::uint64_t n = 1 + below(8); n > 0 && !bytes.empty(); --n) {
    const std::uint64_t at = place();
    const std::uint64_t length = std::min<std::uint64_t>(1 + below(9000), bytes.size() - at);
    switch (below(8)) {
      case 0:
      case 1:
      case 2: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
      case 3: std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), length, '\0'); break;
      case 4:
        for (std::uint64_t i = 0; i < length; ++i) bytes[at + i] = static_cast<char>(random());
        break;
      case 5: {  // a block of the file stands elsewhere, too
        const std::uint64_t from = place() / 4096 * 4096;
        const std::uint64_t to = place() / 4096 * 4096;
        const std::uint64_t n_bytes = std::min<std::uint64_t>(
            {4096 * (1 + below(3)), bytes.size() - from, bytes.size() - to});
        bytes.replace(to, n_bytes, bytes.substr(from, n_bytes));
        break;
      }
      case 6: bytes.resize(at); break;
      default: bytes.append(below(5000), 'x');
    }
  }
}

TEST_CASE("whatever happened to the file, a load is the chunk's bytes or fails", "[extent][fuzz]") {
  const std::uint64_t seed = seed_of_run();
  INFO("KV_OFFLOAD_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  ExtentFixture::Options options;
  options.num_chunks = 64;
  options.slots_per_segment = 40;  // a table of two blocks
  options.num_segments = 4;
  options.make_backend = [](const LaneOptions&) { return std::make_unique<ScriptedBackend>(); };
  ExtentFixture f(options);
  f.start();
  f.store_named(0, 100);
  for (const std::uint64_t hot : {3U, 50U, 90U}) CHECK(f.loads_named(hot));
  f.stop();
  const std::string good = test::read_file(f.config.path);
  std::uint64_t starts = 0;
  std::uint64_t served = 0;
  std::uint64_t lost = 0;
  for (int round = 0; round < 60; ++round) {
    std::string bytes = good;
    damage(bytes, f.geometry(), random);
    test::write_file(f.config.path, bytes);
    const auto started = f.try_start();
    if (!started) {  // refused in one line
      CHECK(started.error().detail.find('\n') == std::string::npos);
      continue;
    }
    ++starts;
    for (std::uint64_t first = 0; first < 100; first += 20) {
      for (ChunkId i = 0; i < 20; ++i) f.memory.clear(i);
      const JobResult result = f.load(tier_keys(first, 20));
      for (ChunkId i = 0; i < 20; ++i) {
        if (result.fates[i] == KeyFate::done) {
          ++served;
          CHECK(f.memory.holds(i, first + i));
        } else {
          ++lost;
          CHECK((result.failure == TransferFailure::not_found ||
                 result.failure == TransferFailure::corrupt));
        }
      }
    }
    // It still takes stores, and evicts them.
    f.store_named(1000, 150);
    CHECK(f.loads_named(1149));
    for (const auto name : f.present(1000, 150)) CHECK(f.loads_named(name));
  }
  CHECK(starts > 20);
  CHECK(served > 1000);
  CHECK(lost > 0);
}

}  // namespace
}  // namespace kv_offload
