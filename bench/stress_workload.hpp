#pragma once

#include "kv_offload/bench/random.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace kv_offload::bench {

/// Which prompts the callers of a stress run send: conversations that share the front of their prompt,
/// asked again at random lengths by any thread, most of them recent. New ones appear over the whole run
/// at a pace that keeps the tiers writing but their directories bounded. Shared by all threads.
class StressWorkload {
 public:
  /// At most `chunks_max` different chunks over a run of `duration_s`.
  StressWorkload(std::uint64_t chunks_max, double duration_s)
      : conversations_max_(std::max<std::uint64_t>(chunks_max / kLengthMax, kRecent)),
        duration_s_(duration_s) {}

  /// Chunk numbers of the next prompt, in prefix order.
  std::vector<std::uint64_t> next_prompt(Random& random, double elapsed_s) {
    const std::uint64_t conversation = pick(random, elapsed_s);
    const std::uint64_t length = 1 + random.below(kLengthMax);
    std::vector<std::uint64_t> chunks(length);
    for (std::uint64_t i = 0; i < length; ++i)
      chunks[i] =
          i < kShared ? kSharedTag | (conversation % kFamilies) << 16 | i : conversation << 16 | i;
    return chunks;
  }

 private:
  static constexpr std::uint64_t kLengthMax = 32, kShared = 4, kFamilies = 8, kRecent = 48;
  static constexpr std::uint64_t kSharedTag = std::uint64_t{1} << 62;

  std::uint64_t pick(Random& random, double elapsed_s) {
    const std::uint64_t created = created_.load(std::memory_order_relaxed);
    const double due = static_cast<double>(conversations_max_ - kRecent) * elapsed_s / duration_s_;
    if (created < conversations_max_ && created < kRecent + static_cast<std::uint64_t>(due) &&
        random.chance(50))
      return created_.fetch_add(1, std::memory_order_relaxed);
    if (random.chance(70)) return created - 1 - random.below(std::min(created, kRecent));
    return random.below(created);
  }

  std::uint64_t conversations_max_;
  double duration_s_;
  std::atomic<std::uint64_t> created_{1};
};

}  // namespace kv_offload::bench
