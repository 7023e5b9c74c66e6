#include "kv_offload/tests/support/primary_fixture.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>

namespace kv_offload::test {
namespace {

constexpr ChunkId kChunks = 1'000'000;

// A scan that starts anew for each victim would make 2.5 * 10^11 steps here and meet the test's time limit.
TEST_CASE("evicting half a million chunks past as many that must stay takes one pass",
          "[eviction][unit]") {
  const auto name = GENERATE(as<std::string>{}, "lru", "arc", "s3fifo");
  CAPTURE(name);
  auto policy = std::move(EvictionPolicyRegistry().make(name, kChunks)).value();
  std::array<std::byte, 8> hash{};
  for (ChunkId c = 0; c < kChunks; ++c) {
    std::memcpy(hash.data(), &c, sizeof(c));
    policy->insert(*OffloadKey::make(hash, 0), c);
    policy->mark_evictable(c);
  }
  std::vector<std::uint32_t> stamps(kChunks, 0);
  std::fill(stamps.begin(), stamps.begin() + kChunks / 2, 1U);  // the older half
  std::vector<ChunkId> victims;
  REQUIRE(policy->evict(kChunks / 2, ProtectedSlots(stamps, 1), victims));
  std::vector<ChunkId> expected(kChunks / 2);
  std::iota(expected.begin(), expected.end(), kChunks / 2);
  CHECK((victims == expected));  // in parentheses: a failure does not print a million numbers
  CHECK_FALSE(policy->evict(1, ProtectedSlots(stamps, 1), victims));
  CHECK(victims.size() == kChunks / 2);
}

}  // namespace
}  // namespace kv_offload::test
