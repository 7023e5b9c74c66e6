// A file tier with room for a tenth of what is asked for, through the engine.
#include "kv_offload/tests/support/disk_bytes.hpp"
#include "kv_offload/tests/support/engine_fixture.hpp"
#include "kv_offload/tests/support/tier_memory.hpp"
#include "kv_offload/tiers/eviction/eviction_registry.hpp"
#include "kv_offload/tiers/fs/fs_namespace.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <unordered_map>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

constexpr std::uint64_t kRow = 16 * 1024;
constexpr std::uint64_t kNames = 400;
constexpr ChunkId kRoom = kNames / 10;
constexpr int kAccesses = 3000;

/// Chunk n is asked for in proportion to 1 / (n + 1), as prefixes of conversations are, in phases that
/// want other chunks.
std::vector<std::uint64_t> accesses(std::uint64_t seed) {
  std::vector<double> sums;
  double sum = 0;
  for (std::uint64_t n = 0; n < kNames; ++n)
    sums.push_back(sum += 1.0 / static_cast<double>(n + 1));
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, sum);
  std::vector<std::uint64_t> names;
  for (int i = 0; i < kAccesses; ++i) {
    const auto at = std::lower_bound(sums.begin(), sums.end(), uniform(random)) - sums.begin();
    const auto phase = static_cast<std::uint64_t>(i / 1000) * 37;
    names.push_back((static_cast<std::uint64_t>(at) + phase) % kNames);
  }
  return names;
}

/// Hits of a directory of kRoom chunks under the policy, which sees a hit as the tier does: found, read.
int oracle_hits(const std::string& policy_name, const std::vector<std::uint64_t>& names,
                std::uint64_t capacity) {
  const auto slots = static_cast<ChunkId>(capacity / kRow + leaving_max(capacity, kRow));
  auto policy = std::move(EvictionPolicyRegistry().make(policy_name, slots)).value();
  const std::vector<std::uint32_t> stamps(slots, 0);
  std::vector<ChunkId> free;
  for (ChunkId slot = slots; slot > 0; --slot) free.push_back(slot - 1);
  std::unordered_map<std::uint64_t, ChunkId> held;
  int hits = 0;
  for (const std::uint64_t name : names) {
    const OffloadKey key = tier_key(name);
    if (const auto it = held.find(name); it != held.end()) {
      ++hits;
      for (int touch = 0; touch < 2; ++touch)
        policy->touch(std::span(&key, 1), std::span(&it->second, 1));
      policy->mark_non_evictable(it->second);
      policy->mark_evictable(it->second);
      continue;
    }
    if (held.size() == kRoom) {
      std::vector<ChunkId> victims;
      REQUIRE(policy->evict(1, ProtectedSlots(stamps, 1), victims));
      std::erase_if(held, [&](const auto& chunk) { return chunk.second == victims[0]; });
      free.push_back(victims[0]);
    }
    held[name] = free.back();
    policy->insert(key, free.back());
    policy->mark_evictable(free.back());
    free.pop_back();
  }
  return hits;
}

void fill(std::span<std::byte> row, std::uint64_t name) {
  for (std::size_t at = 0; at + 8 <= row.size(); at += 8) std::memcpy(row.data() + at, &name, 8);
}
bool holds(std::span<const std::byte> row, std::uint64_t name) {
  for (std::size_t at = 0; at + 8 <= row.size(); at += 8)
    if (std::memcmp(row.data() + at, &name, 8) != 0) return false;
  return true;
}

/// Bytes that one chunk file takes here.
std::uint64_t bytes_per_file() {
  TempDir dir;
  auto config = small_config();
  config.secondary_tiers.push_back(fs_tier(dir.path));
  auto engine = start(config);
  const auto request = *engine->new_request({.req_id = "r"}).get();
  store(*engine, request, {tier_key(1)}, std::byte{1}, true);
  return chunk_bytes_on_disk(dir.path);
}

}  // namespace

TEST_CASE(
    "a replay with a tenth of its chunks in files hits as often as the policy can, with the right "
    "bytes",
    "[engine]") {
  const auto policy = GENERATE(as<std::string>{}, "lru", "arc", "s3fifo");
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(policy, seed);
  TempDir dir;
  auto config = small_config();
  config.enable_kv_events = true;
  auto tier = fs_tier(dir.path);
  const std::uint64_t capacity = kRoom * bytes_per_file();
  auto& keys_of_tier = *tier.node.object();
  keys_of_tier.emplace("capacity_bytes",
                       ConfigNode(ConfigNode::Value(static_cast<std::int64_t>(capacity))));
  keys_of_tier.emplace("eviction_policy", ConfigNode(ConfigNode::Value(policy)));
  keys_of_tier.emplace("enable_kv_events", ConfigNode(ConfigNode::Value(true)));
  config.secondary_tiers.push_back(tier);
  auto engine = start(config);

  const auto names = accesses(seed);
  int hits = 0;
  int mismatches = 0;
  std::map<OffloadKey, bool> told;
  for (const std::uint64_t name : names) {
    const auto request = *engine->new_request({.req_id = "r"}).get();
    const KeyList wanted{tier_key(name)};
    const auto found = engine->lookup(request, wanted).get();
    REQUIRE(found);
    if (found->tier_hits.at(1) == 1) {
      const auto load = engine->prepare_load(request, wanted).get();
      REQUIRE(load);
      REQUIRE(load->chunk_ids.size() == 1);
      mismatches += holds(engine->chunk(load->chunk_ids[0]), name) ? 0 : 1;
      REQUIRE(engine->complete_load(load->lease).get());
      ++hits;
    } else {
      const auto plan = engine->prepare_store(request, wanted).get();
      REQUIRE(plan);
      for (const auto chunk : plan->chunk_ids) fill(engine->chunk(chunk), name);
      REQUIRE(engine->complete_store(plan->lease, {.wait_cascades = true}).get());
    }
    REQUIRE(engine->request_finished(request).get());
    REQUIRE(engine->reset().get());  // the next one finds it in the files or nowhere
    const auto events = engine->take_events().get();
    REQUIRE(events);
    for (const auto& event : *events)
      if (event.medium == Medium::storage)
        for (const auto& key : event.keys) {
          CHECK(told[key] == event.removed);
          told[key] = !event.removed;
        }
  }
  CHECK(mismatches == 0);
  const int possible = oracle_hits(policy, names, capacity);
  INFO(hits << " hits of " << kAccesses << ", " << possible << " by the oracle");
  CHECK(possible > kAccesses / 4);
  CHECK(hits >= possible - kAccesses / 100);
  CHECK(hits <= possible + kAccesses / 100);
  require_promises(*engine);
  CHECK(engine->shutdown());
  CHECK(chunk_bytes_on_disk(dir.path) <=
        capacity + config.row_bytes() * leaving_max(capacity, kRow));
  // The last removals may not have been taken; but nothing that is there was told as removed.
  for (std::uint64_t name = 0; name < kNames; ++name) {
    const auto mapper = FileMapper::make(dir.path, config.identity);
    if (!std::filesystem::exists(mapper->path_of(tier_key(name)))) continue;
    CAPTURE(name);
    CHECK(told[tier_key(name)]);
  }
}
