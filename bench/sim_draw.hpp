#pragma once

#include "kv_offload/bench/report.hpp"

#include <cstdint>
#include <string>

namespace kv_offload::bench {

/// A scenario drawn at random, with the policies `off` and `adaptive` and the two bounds between them.
struct SimDraw {
  std::uint64_t seed = 1;
  Json document = Json::object();  ///< as in a scenario file
  std::string workload, tiers;     ///< in a few words, for the table
};

/// The scenario of this seed, the same on every machine. `requests_max`: at most so many requests, for tests;
/// 0: as drawn. The ranges are in README.md; widen them, never narrow them around what breaks.
SimDraw draw_scenario(std::uint64_t seed, std::size_t requests_max = 0);

}  // namespace kv_offload::bench
