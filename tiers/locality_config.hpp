#pragma once

#include "kv_offload/messages/config_node.hpp"
#include "kv_offload/messages/tier_traits.hpp"

#include <optional>

namespace kv_offload {

/// The key `locality` of a tier, in any case; absent or null: unknown. Errors go to `reader`.
std::optional<Locality> read_locality(ConfigReader& reader);

}  // namespace kv_offload
