#pragma once

#include "kv_offload/tiers/topology/domain_plan.hpp"

#include <string>

namespace kv_offload {

/// Keeps the calling thread on the domain's CPUs (all of them: the kernel chooses among these) and its memory where it
/// runs, and calls it `name` (15 bytes are shown; empty: as before). Threads that it starts inherit both.
/// Returns what failed and why, in one line without a field; empty if nothing. For plans that pin only.
[[nodiscard]] std::string pin_thread(const Domain& domain, const std::string& name = {});

/// Does the calling thread run on one of the domain's CPUs now? Without CPUs: always.
[[nodiscard]] bool runs_on(const Domain& domain);

}  // namespace kv_offload
