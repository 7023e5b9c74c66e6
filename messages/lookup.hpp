#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/messages/offload_key.hpp"

namespace kv_offload {

/// What a lookup says of one key.
enum class LookupResult : std::uint8_t {
  miss,
  hit,          ///< present, readable now
  hit_pending,  ///< present, a write into it is in flight: counts as a hit, the caller must wait
  retry,        ///< unknown yet, ask again next step; does not count as a hit
};

constexpr std::string_view to_string(LookupResult result) {
  switch (result) {
    case LookupResult::miss: return "miss";
    case LookupResult::hit: return "hit";
    case LookupResult::hit_pending: return "hit_pending";
    case LookupResult::retry: return "retry";
  }
  return "unknown";
}

/// Which keys of a batch matter to the caller.
enum class LookupScan : std::uint8_t {
  prefix,  ///< keys are in prefix order; the scan ends at the first miss
  window,  ///< every key is resolved on its own (sliding-window cache groups)
};

/// When a lookup answers.
enum class LookupWait : std::uint8_t {
  landed,    ///< when every promotion it started or joined has landed or failed
  resolved,  ///< when every tier has spoken; keys still being loaded are hit_pending
  /// At once, from memory; for callers that ask again every step. A tier that has to look says retry.
  /// Promotions are submitted at step_end, one job per request and tier; keys behind a retry are asked, too.
  polled,
};

struct LookupOptions {
  LookupScan scan = LookupScan::prefix;
  LookupWait wait = LookupWait::landed;
  /// Hold each reported hit until prepare_load or the end of the request.
  bool hold = true;
  /// Tokens of this prompt that the device already has, from its front. Unknown counts as 0. A prefix
  /// scan takes keys that end below as found: nothing is held or loaded for them. Name at least the last
  /// such chunk: that a tier has what the device had anyway is what `payoff` learns most from.
  std::uint64_t device_tokens = 0;
  /// Where the first key's chunk begins in the prompt, in tokens; the others follow without a gap.
  std::uint64_t first_token = 0;
  /// When it has passed the call answers with what has landed by then; the rest counts as `gave_up`. Loads on
  /// their way go on, and what lands late is held for the request like any promotion, until it is read or ends.
  /// 0, or more than the engine's `deadlines.lookup`: that. Met by the actors' tick, up to 100 ms late.
  Duration give_up{};

  bool operator==(const LookupOptions&) const = default;
};

/// When a prefetch answers. Whatever it is, the loads go on, and what lands is held for the request like any promotion.
enum class PrefetchMode : std::uint8_t {
  best_effort,  ///< when the loads are submitted, as many as have slots now: nothing is waited for but the tiers' word
  complete,     ///< when all have landed or failed; waits in line for slots
  timeout,      ///< as complete, but with what has landed by then; see LookupOptions::give_up
};

/// A prefetch is a lookup (it counts as one) whose caller has no use for the chunks yet.
struct PrefetchOptions {
  PrefetchMode mode = PrefetchMode::best_effort;
  Duration timeout{};               ///< of mode timeout, more than 0; at most the engine's `deadlines.lookup`
  bool hold = true;                 ///< of hits that need no load; as in LookupOptions, like the following
  std::uint64_t device_tokens = 0;
  std::uint64_t first_token = 0;
};
constexpr LookupOptions lookup_options(const PrefetchOptions& p) {
  LookupOptions o;
  o.wait = p.mode == PrefetchMode::best_effort ? LookupWait::resolved : LookupWait::landed;
  o.hold = p.hold;
  o.device_tokens = p.device_tokens;
  o.first_token = p.first_token;
  if (p.mode == PrefetchMode::timeout) o.give_up = p.timeout;
  return o;
}

/// What loading the leading hits is expected to take against computing them. The engine says, the scheduler
/// decides.
struct LoadWorth {
  double load_s = 0;         ///< as measured of late: landing of what is still on its way, then the copy to the device
  double compute_s = 0;      ///< of the same chunks, by compute_tokens_per_s; 0: not configured
  std::uint32_t chunks = 0;  ///< leading ones beyond the device's that are sooner loaded than computed; all while a number is unknown
};

struct LookupAnswer {
  std::vector<LookupResult> results;  ///< one per key; keys the scan never reached are miss, the device's own are hit
  std::uint32_t leading_hits = 0;     ///< keys from the front that are hit or hit_pending, the device's own included
  std::uint32_t promoted = 0;         ///< chunks this call had loaded from secondary tiers
  std::uint32_t unheld = 0;           ///< hits reported without a hold: the hold share was used up
  std::uint32_t truncated = 0;        ///< tier hits beyond what the primary tier could grant
  std::uint32_t refused = 0;          ///< tier hits that admission refused
  std::uint32_t capped = 0;           ///< keys not asked: beyond the request's max_load_tokens
  std::uint32_t gave_up = 0;          ///< keys whose wait ended by deadline or a full table
  LoadWorth worth;                    ///< of the leading hits beyond the device's own
  std::vector<std::uint32_t> tier_hits;  ///< leading hits beyond the device's by origin: [0] primary, [1+t] tier t
};

}  // namespace kv_offload
