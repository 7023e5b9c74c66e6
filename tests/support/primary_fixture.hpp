#pragma once

#include "kv_offload/tiers/eviction/eviction_registry.hpp"
#include "kv_offload/tiers/primary/primary_cache.hpp"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace kv_offload::test {

/// Seed of a random test: $KV_OFFLOAD_TEST_SEED, else a new one. Print it with INFO, so that a failure can
/// be repeated.
inline std::uint64_t test_seed() {
  if (const char* text = std::getenv("KV_OFFLOAD_TEST_SEED"))
    return std::strtoull(text, nullptr, 10);
  return std::random_device{}();
}

inline OffloadKey key(int name) {
  const std::string text = std::to_string(name);
  return *OffloadKey::make(std::as_bytes(std::span(text)), 0);
}
inline int name_of(const OffloadKey& k) {
  const auto hash = k.content_hash();
  return std::stoi(std::string(reinterpret_cast<const char*>(hash.data()), hash.size()));
}
inline KeyList keys(const std::vector<int>& names) {
  KeyList out;
  for (const int n : names) out.push_back(key(n));
  return out;
}
/// The same for keys that are known by their hash alone; -1 for none of the first 10000.
inline std::vector<int> names(const std::vector<std::uint64_t>& hashes) {
  std::vector<int> out;
  for (const std::uint64_t hash : hashes) {
    int name = 0;
    while (name < 10'000 && key(name).hash() != hash) ++name;
    out.push_back(name < 10'000 ? name : -1);
  }
  return out;
}
inline std::vector<int> names(const KeyList& list) {
  std::vector<int> out;
  for (const auto& k : list) out.push_back(name_of(k));
  return out;
}

/// What a store call got, in plain numbers.
struct Stored {
  std::vector<int> keys;
  std::vector<ChunkId> chunks;
  std::vector<int> evicted;
  friend bool operator==(const Stored&, const Stored&) = default;
};

/// A PrimaryCache spoken to by key numbers.
class PrimaryFixture {
 public:
  explicit PrimaryFixture(PrimaryCache::Limits limits, const std::string& policy = "lru",
                          const std::atomic<std::uint32_t>* in_use = nullptr)
      : cache(limits, std::move(EvictionPolicyRegistry().make(policy, limits.num_chunks)).value(),
              in_use) {}
  explicit PrimaryFixture(ChunkId num_chunks, const std::string& policy = "lru")
      : PrimaryFixture({.num_chunks = num_chunks, .hold_chunks_max = num_chunks, .events = true},
                       policy) {}

  /// prepare_store; nullopt: refused. Takes the removed event, leaves the other ones queued in `events`.
  std::optional<Stored> prepare_store(const std::vector<int>& wanted) {
    const KeyList list = keys(wanted);
    const auto got = cache.reserve_store(list);
    Stored out;
    for (auto& e : cache.take_events()) {
      if (e.removed && got) out.evicted = names(e.keys);
      events.push_back(std::move(e));
    }
    if (!got) return std::nullopt;
    for (const auto i : got->key_idx) out.keys.push_back(wanted[i]);
    out.chunks = got->chunks;
    return out;
  }
  void complete_store(const std::vector<int>& which, bool success = true) {
    const auto list = chunks(which);
    if (success)
      cache.publish(list);
    else
      cache.drop_writing(list, false);
    for (auto& e : cache.take_events()) events.push_back(std::move(e));
  }
  void store(const std::vector<int>& which) {
    prepare_store(which);
    complete_store(which);
  }
  /// Slots of the keys that are there, in order; pins each.
  std::vector<ChunkId> prepare_load(const std::vector<int>& which) {
    auto list = chunks(which);
    for (const ChunkId c : list) cache.pin(c);
    return list;
  }
  void complete_load(const std::vector<int>& which) {
    for (const ChunkId c : chunks(which)) cache.unpin(c);
  }
  void touch(const std::vector<int>& which) { cache.touch(keys(which)); }
  [[nodiscard]] ChunkState lookup(int name) const { return cache.find(key(name)).state; }
  [[nodiscard]] ChunkId slot(int name) const { return cache.find(key(name)).chunk; }
  [[nodiscard]] std::vector<ChunkId> chunks(const std::vector<int>& which) const {
    std::vector<ChunkId> out;
    for (const int n : which)
      if (const auto found = cache.find(key(n)); found.chunk != kNoChunk)
        out.push_back(found.chunk);
    return out;
  }
  /// Everything evictable, in the order in which it would leave.
  std::vector<int> leave_order() {
    std::vector<int> order;
    int fresh = 1'000'000;
    while (const auto got = prepare_store({fresh++}))
      order.insert(order.end(), got->evicted.begin(), got->evicted.end());
    return order;
  }
  [[nodiscard]] std::string broken_identity() const {
    std::string why;
    return cache.check_identities(&why) ? std::string() : why;
  }

  PrimaryCache cache;
  std::vector<OffloadingEvent> events;
};

}  // namespace kv_offload::test
