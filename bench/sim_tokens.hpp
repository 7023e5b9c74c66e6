#pragma once

#include "kv_offload/bench/random.hpp"
#include "kv_offload/messages/config_node.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kv_offload::bench {

inline constexpr double kSimTokensMax = 1e7;

/// A number of tokens: fixed, or lognormal between two bounds.
struct SimTokens {
  double median = 0, sigma = 0, min = 1, max = kSimTokensMax;

  [[nodiscard]] std::uint64_t draw(Random& random) const;
};

/// A number, or {"median", "sigma", "min", "max"}; errors go to `reader`.
SimTokens read_tokens(ConfigReader& reader, const std::string& key, double fallback);
std::size_t read_count(ConfigReader& reader, const std::string& key, std::int64_t fallback);

/// Makes chunks that nobody has had before, and lengthens prompts by them.
class SimContents {
 public:
  explicit SimContents(std::uint64_t tokens_per_chunk) : tokens_per_chunk_(tokens_per_chunk) {}
  /// Full chunks of a text of `tokens` tokens that begins with `chunks`.
  void extend(std::vector<std::uint64_t>& chunks, std::uint64_t tokens) {
    while (chunks.size() < tokens / tokens_per_chunk_) chunks.push_back(next_++);
  }

 private:
  std::uint64_t tokens_per_chunk_;
  std::uint64_t next_ = 0;
};

}  // namespace kv_offload::bench
