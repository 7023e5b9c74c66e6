#pragma once

#include "kv_offload/bench/random.hpp"
#include "kv_offload/messages/config_node.hpp"
#include "kv_offload/messages/monotonic_time.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload::bench {

/// In [0, 1).
double uniform(Random& random);
/// Median times e^(sigma · normal); sigma 0 is the median.
double lognormal(Random& random, double median, double sigma);
/// Of a Poisson process with this mean distance.
double exponential(Random& random, double mean);

/// How long one operation takes before its bytes flow: constant, lognormal, or drawn from what was
/// recorded of a real device.
struct SimLatency {
  double median_s = 0;
  double sigma = 0;
  double max_s = 0;                                        ///< cut here; 0: not cut
  std::vector<std::pair<std::uint64_t, double>> recorded;  ///< bytes, seconds; whole operations

  /// Of an operation of `bytes`. A recorded operation of another size is scaled by its bytes.
  [[nodiscard]] Duration draw(Random& random, std::uint64_t bytes) const;
  [[nodiscard]] bool is_zero() const { return median_s == 0 && recorded.empty(); }
};

/// A number (seconds), {"median_s", "sigma", "max_s"} or {"recorded": [[bytes, seconds], …]}; errors go
/// to `reader`.
SimLatency read_latency(ConfigReader& reader, const std::string& key);
/// A list of [bytes, seconds].
bool read_recorded(const ConfigNode& node, SimLatency& latency);

}  // namespace kv_offload::bench
