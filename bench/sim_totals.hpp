#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kv_offload::bench {

/// What one run of one policy came to. Requests that ended within the measured span, unless said
/// otherwise; seconds are virtual.
struct SimTotals {
  std::uint64_t requests = 0;
  std::uint64_t chunk_references = 0;
  std::uint64_t prompt_tokens = 0, output_tokens = 0;
  std::uint64_t device_tokens = 0;    ///< of the prompts, found in the device's own cache
  std::uint64_t loaded_tokens = 0;    ///< … brought back by the engine
  std::uint64_t computed_tokens = 0;  ///< … prefilled
  std::uint64_t hit_chunks = 0;  ///< leading, in any tier of the engine, beyond the device's own
  std::vector<std::uint64_t> tier_hits;           ///< the same by tier, [0] primary
  std::vector<std::uint64_t> loaded_tier_tokens;  ///< loaded_tokens by tier of origin
  std::vector<double> ttft_s;                     ///< one per request
  std::vector<double> ttft_no_tier_s;             ///< of those that found nothing in a secondary tier
  std::vector<double> lookup_s;  ///< arrival's lookup to its answer, promotions landed
  double span_s = 0;             ///< measured
  // Of the whole run:
  std::uint64_t saved_bytes = 0;  ///< copied from the device for storing
  std::uint64_t not_stored = 0;  ///< chunks that found no room in the primary tier
  std::uint64_t unheld = 0, truncated = 0, gave_up = 0, lost_before_load = 0;
  std::uint64_t never_fit = 0;  ///< requests larger than the device
  std::uint64_t call_errors = 0;
  std::string first_error;
  double stalled_s = 0, prefill_busy_s = 0, end_s = 0;
};

/// Exact, of the sorted values; 0 if there are none.
double quantile(std::vector<double> values, double share);

}  // namespace kv_offload::bench
