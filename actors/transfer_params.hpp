#pragma once

#include "kv_offload/messages/request.hpp"

namespace kv_offload {

/// Reads `request.kv_transfer_params` into load_tiers, max_offload_tokens and max_load_tokens; what is wrong
/// with it goes into param_faults, and that field is treated as absent. Never fails: parameters come from
/// clients, and no client may stop the engine. Called on the caller's thread.
///
///     {"kv_load_tiers": [{"medium": "STORAGE", "locality": "LOCAL"}, …], "max_offload_tokens": 4096,
///      "max_load_tokens": 8192}
///
/// kv_load_tiers: absent or not a list allows every tier, [] none. A side that an entry leaves out matches
/// all; an entry may also be one word ("LOCAL"). Entries with unknown words are skipped; if no entry is
/// left of some, every tier is allowed. More than 64 KiB are dropped whole. Upper and lower case are the same.
void read_transfer_params(NewRequest& request);

}  // namespace kv_offload
