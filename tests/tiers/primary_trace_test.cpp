#include "kv_offload/tests/support/lru_oracle.hpp"
#include "kv_offload/tests/support/primary_fixture.hpp"

#include <catch2/catch.hpp>

#include <algorithm>

namespace kv_offload::test {
namespace {

/// Replays one request as a caller would: load the leading hits, store the rest, touch everything.
std::size_t replay(PrimaryFixture& f, const std::vector<std::uint64_t>& ids,
                   LruOracle::Touch order) {
  std::vector<int> request(ids.begin(), ids.end());
  std::size_t hits = 0;
  while (hits < request.size() && f.lookup(request[hits]) == ChunkState::ready) ++hits;
  const std::vector<int> loads(request.begin(),
                               request.begin() + static_cast<std::ptrdiff_t>(hits));
  f.prepare_load(loads);
  f.complete_load(loads);
  if (const auto got =
          f.prepare_store({request.begin() + static_cast<std::ptrdiff_t>(hits), request.end()}))
    f.complete_store(got->keys);
  if (order == LruOracle::Touch::front_to_back) std::reverse(request.begin(), request.end());
  f.touch(request);  // handled from the last to the first
  f.events.clear();
  return hits;
}

TEST_CASE("random traces hit under LRU exactly where an oracle says", "[primary][unit]") {
  const auto order = GENERATE(LruOracle::Touch::front_to_back, LruOracle::Touch::back_to_front);
  const std::uint64_t seed = test_seed();
  INFO("KV_OFFLOAD_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const auto pick = [&](std::uint64_t n) { return random() % n; };
  for (int trace = 0; trace < 30; ++trace) {
    const auto capacity = static_cast<ChunkId>(4 + pick(40));
    LruOracle oracle(capacity, order);
    PrimaryFixture f(capacity);
    std::size_t hits = 0;
    for (int r = 0; r < 200; ++r) {
      std::vector<std::uint64_t>
          ids;  // a conversation of some length: shared prefixes, growing tails
      const std::uint64_t conversation = pick(12);
      const std::uint64_t length = 1 + pick(capacity / 2 + 3);
      for (std::uint64_t i = 0; i < length; ++i) ids.push_back(i < 2 ? i : conversation * 1000 + i);
      INFO("trace " << trace << ", request " << r << ", capacity " << capacity);
      const std::size_t got = replay(f, ids, order);
      REQUIRE(got == oracle.request(ids));
      hits += got;
    }
    REQUIRE(hits > 0);
    REQUIRE(f.cache.counters().resident == oracle.resident());
    REQUIRE(f.broken_identity() == "");
  }
}

}  // namespace
}  // namespace kv_offload::test
