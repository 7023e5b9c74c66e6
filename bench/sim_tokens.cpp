#include "kv_offload/bench/sim_tokens.hpp"

#include "kv_offload/bench/sim_latency.hpp"

#include <algorithm>

namespace kv_offload::bench {

std::uint64_t SimTokens::draw(Random& random) const {
  return static_cast<std::uint64_t>(std::clamp(lognormal(random, median, sigma), min, max));
}

SimTokens read_tokens(ConfigReader& reader, const std::string& key, double fallback) {
  SimTokens tokens;
  tokens.median = fallback;
  const ConfigNode* node = reader.child(key);
  if (node == nullptr) return tokens;
  if (node->object() == nullptr) {
    tokens.median = reader.number(key, fallback, 0, kSimTokensMax);
    tokens.min = 0;
    return tokens;
  }
  ConfigReader inner(*node, reader.path_of(key));
  tokens.median = inner.number("median", fallback, 0, kSimTokensMax);
  tokens.sigma = inner.number("sigma", 0, 0, 5);
  tokens.min = inner.number("min", 1, 0, kSimTokensMax);
  tokens.max = inner.number("max", kSimTokensMax, tokens.min, kSimTokensMax);
  if (auto error = inner.finish()) reader.fail(error->detail);
  return tokens;
}

std::size_t read_count(ConfigReader& reader, const std::string& key, std::int64_t fallback) {
  return static_cast<std::size_t>(reader.integer(key, fallback, 0, 100'000'000));
}

}  // namespace kv_offload::bench
