#include "kv_offload/actors/load_costs.hpp"

namespace kv_offload {

void LoadCosts::add(double& average, std::size_t chunks, Duration took) {
  constexpr double kWeight = 1.0 / 16;
  if (chunks == 0 || took < Duration::zero()) return;
  const double sample = to_seconds(took) / static_cast<double>(chunks);
  average = average == 0 ? sample : average + kWeight * (sample - average);
}

LoadWorth LoadCosts::worth(std::span<const std::uint8_t> origins, double compute_s_per_chunk) const {
  LoadWorth worth;
  double best_gain = 0;
  for (std::size_t i = 0; i < origins.size(); ++i) {
    worth.load_s += copy_s_ + (origins[i] > 0 ? landing_s_[origins[i] - 1U] : 0);
    worth.compute_s += compute_s_per_chunk;
    const double gain = worth.compute_s - worth.load_s;
    if (compute_s_per_chunk > 0 && gain < best_gain) continue;
    best_gain = gain;
    worth.chunks = static_cast<std::uint32_t>(i + 1);
  }
  return worth;
}

}  // namespace kv_offload
