#include "kv_offload/actors/engine_config.hpp"

#include <algorithm>
#include <cstdint>

namespace kv_offload {

double EngineConfig::pin_share(std::size_t tier) const {
  // What the other shares leave by default is 0.4; tiers divide it evenly, so none can starve another.
  if (tier >= secondary_tiers.size()) return 0;
  return secondary_tiers[tier].pin_share.value_or(0.4 /
                                                  static_cast<double>(secondary_tiers.size()));
}

std::uint64_t EngineConfig::share_chunks(double share) const {
  if (!(share > 0)) return 0;
  // The epsilon makes 0.1 of 10 chunks one chunk, although 0.1 has no exact double.
  return static_cast<std::uint64_t>(std::min(share, 1.0) * static_cast<double>(num_chunks()) +
                                    1e-6);
}

}  // namespace kv_offload
