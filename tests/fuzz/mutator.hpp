#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace kv_offload::fuzz {

/// Makes damaged texts of good ones: flipped bits, cut ends, chunks that stand twice or elsewhere, halves of two
/// texts, and words put where they do not belong. The same seed makes the same text.
class Mutator {
 public:
  static constexpr std::size_t kBytesMax = std::size_t{64} << 10;

  explicit Mutator(std::vector<std::string> corpus);
  [[nodiscard]] std::string text(std::uint64_t seed) const;

 private:
  void mutate(std::string& text, std::mt19937_64& random) const;

  const std::vector<std::string> corpus_;
  std::vector<std::string> words_;
};

}  // namespace kv_offload::fuzz
