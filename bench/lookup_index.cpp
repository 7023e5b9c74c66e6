#include "kv_offload/bench/lookup_index.hpp"

#include "kv_offload/bench/random.hpp"
#include "kv_offload/tiers/eviction/eviction_registry.hpp"
#include "kv_offload/tiers/primary/primary_cache.hpp"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <numeric>
#include <vector>

namespace kv_offload::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kBatch = 512;
/// Batches made before the clock runs: as many keys as do not fit the processor's caches.
constexpr std::uint32_t kBatches = 256;
constexpr std::uint64_t kVictimsMax = 100'000;

void fill(PrimaryCache& cache, std::uint64_t keys) {
  for (std::uint64_t first = 0; first < keys; first += kBatch) {
    const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(kBatch, keys - first));
    const auto stored = cache.reserve_store(lookup_keys(first, count));
    if (stored) cache.publish(stored->chunks);
  }
}

class Finder {
 public:
  Finder(const PrimaryCache& cache, std::uint64_t keys) : cache_(cache), keys_(keys) {}

  /// Keys per second over prepared batches, over and over.
  double run(bool prompts, double seconds, std::uint64_t seed) {
    Random random(seed);
    const auto batch = static_cast<std::uint32_t>(std::min<std::uint64_t>(kBatch, keys_));
    std::vector<KeyList> batches(kBatches);
    for (KeyList& list : batches) {
      if (prompts) {
        list = lookup_keys(random.below(keys_ - batch + 1), batch);
        continue;
      }
      for (std::uint32_t i = 0; i < batch; ++i) list.push_back(lookup_key(random.below(keys_)));
    }
    std::vector<PrimaryCache::Found> found;
    std::uint64_t looked_up = 0;
    const auto start = Clock::now();
    std::chrono::duration<double> took{};
    do {
      for (const KeyList& list : batches) {
        cache_.find_all(list, found);
        looked_up += list.size();
        wrong_ +=
            static_cast<std::uint64_t>(std::count_if(found.begin(), found.end(), [](const auto& f) {
              return f.state != ChunkState::ready;
            }));
      }
      took = Clock::now() - start;
    } while (took.count() < seconds);
    return static_cast<double>(looked_up) / took.count();
  }
  [[nodiscard]] std::uint64_t wrong() const { return wrong_; }

 private:
  const PrimaryCache& cache_;
  const std::uint64_t keys_;
  std::uint64_t wrong_ = 0;
};

/// Nanoseconds per victim of one call that chooses `victims` of `keys`.
Expected<double> policy_evict_ns(std::uint64_t keys, const std::string& name,
                                 std::uint32_t victims) {
  auto made = eviction_policies().make(name, static_cast<ChunkId>(keys));
  if (!made) return made.error();
  EvictionPolicy& policy = **made;
  for (ChunkId chunk = 0; chunk < keys; ++chunk) {
    policy.insert(lookup_key(chunk), chunk);
    policy.mark_evictable(chunk);
  }
  const std::vector<std::uint32_t> stamps(keys, 0);
  std::vector<ChunkId> chosen;
  chosen.reserve(victims);
  const auto start = Clock::now();
  const bool enough = policy.evict(victims, ProtectedSlots(stamps, 1), chosen);
  const std::chrono::duration<double, std::nano> took = Clock::now() - start;
  if (!enough || chosen.size() != victims)
    return {OffloadErrc::no_space, name + ": chose fewer victims than it was asked for"};
  return took.count() / victims;
}

}  // namespace

std::uint64_t allocated_bytes() {
  const auto info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

OffloadKey lookup_key(std::uint64_t number) {
  Random random(number + 1);
  std::array<std::uint64_t, 4> words;
  for (std::uint64_t& word : words) word = random.next();
  return *OffloadKey::make(std::as_bytes(std::span(words)), 0);
}

KeyList lookup_keys(std::uint64_t first, std::uint32_t count) {
  KeyList keys;
  keys.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) keys.push_back(lookup_key(first + i));
  return keys;
}

Expected<IndexFigure> measure_index(std::uint64_t keys, const std::string& policy, double seconds,
                                    std::uint64_t seed) {
  IndexFigure figure;
  const std::uint64_t before = allocated_bytes();
  auto made = eviction_policies().make(policy, static_cast<ChunkId>(keys));
  if (!made) return made.error();
  PrimaryCache::Limits limits;
  limits.num_chunks = static_cast<ChunkId>(keys);
  limits.hold_chunks_max = limits.num_chunks;
  PrimaryCache cache(limits, std::move(*made), nullptr);
  fill(cache, keys);
  figure.bytes_per_key =
      static_cast<double>(allocated_bytes() - before) / static_cast<double>(keys);

  Finder finder(cache, keys);
  figure.prompt_keys_per_s = finder.run(true, seconds, seed);
  figure.random_keys_per_s = finder.run(false, seconds, seed);
  figure.wrong = finder.wrong();

  const auto victims = static_cast<std::uint32_t>(std::min(keys / 10, kVictimsMax));
  const KeyList fresh = lookup_keys(std::uint64_t{1} << 40, victims);
  const auto start = Clock::now();
  const auto stored = cache.reserve_store(fresh);
  const std::chrono::duration<double, std::nano> took = Clock::now() - start;
  if (!stored || stored->evicted != victims) ++figure.wrong;
  figure.replace_ns = took.count() / victims;
  const auto evict_ns = policy_evict_ns(keys, policy, victims);
  if (!evict_ns) return evict_ns.error();
  figure.evict_ns = *evict_ns;
  return figure;
}

}  // namespace kv_offload::bench
