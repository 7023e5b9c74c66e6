#pragma once

#include "kv_offload/messages/config_node.hpp"

namespace kv_offload {

/// `checksum` of a tier's entry: whether it keeps digests of its chunks and compares them at every load.
/// "on"/"off", and true/false for the same; on if absent.
bool read_checksum(ConfigReader& reader);

}  // namespace kv_offload
