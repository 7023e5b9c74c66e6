#pragma once

#include <cstdint>

namespace kv_offload::bench {

/// SplitMix64 (public domain): small, seeded, and the same on every machine, unlike the distributions of
/// the standard library. One per thread.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  /// In [0, bound); bound > 0. The bias of the remainder is below 2^-32 for the bounds used here.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  /// True in `percent` of 100 draws.
  bool chance(std::uint64_t percent) { return below(100) < percent; }

 private:
  std::uint64_t state_;
};

}  // namespace kv_offload::bench
