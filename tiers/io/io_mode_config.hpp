#pragma once

#include "kv_offload/messages/config_node.hpp"
#include "kv_offload/tiers/io_mode.hpp"

#include <optional>

namespace kv_offload {

/// The key `io` of one tier; absent: as the engine's own. Errors go to `reader`.
std::optional<IoMode> read_io_mode(ConfigReader& reader);

}  // namespace kv_offload
