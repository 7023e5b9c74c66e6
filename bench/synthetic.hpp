#pragma once

#include "kv_offload/bench/trace.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace kv_offload::bench {

/// Names that `synthetic_trace` knows, in the order in which they are documented.
std::vector<std::string> synthetic_names();

/// Traces made on the spot, the same for the same seed on every machine:
/// - `multi-turn`: 30 chats of 8 turns that take turns at random. Each belongs to one of 3 system prompts
///   and repeats its whole history every turn, so nearly all of a turn can be found again. About 1,700
///   chunks in 8,500 references: three times a primary tier of 512, so the rest comes back from a
///   secondary tier.
/// - `shared-prefix`: 200 requests with one prefix of 32 chunks and a tail of their own.
/// - `no-reuse`: 100 requests of 16 chunks that nobody asks for again: the cost of offloading in vain.
Expected<Trace> synthetic_trace(const std::string& name, std::uint64_t seed = 1);

}  // namespace kv_offload::bench
