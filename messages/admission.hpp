#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kv_offload/messages/ids.hpp"
#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/messages/transfer_job.hpp"

namespace kv_offload {

/// Why admission said no. `none` means admitted.
enum class RefusalReason : std::uint8_t {
  none,
  backpressure,           ///< the tier's store latency is above its water mark
  promotion_concurrency,  ///< promotions in flight reached the cap
  pin_share,              ///< the tier's share of pinned primary chunks is used up
  tier_disabled,          ///< its actor or lane died
  payoff,                 ///< saving does not pay (slow-tier admission)
  save_floor,             ///< below the prefix that a skipped lookup left unproven
  lookup_gate,            ///< the tier was not asked: no answer could have been worth a load
  write_budget,           ///< the bytes that may be written to the tier are used up
  custom,                 ///< a policy from outside the library
  circuit_breaker,        ///< too many of the tier's transfers fail
  demand,                 ///< too little of what is offered to the tier is asked for again
  load_worth,             ///< loading takes longer, or costs the device more, than computing
  backlog,                ///< more is queued than the tier writes in the time it may take
};
inline constexpr std::size_t kNumRefusalReasons = 14;

constexpr std::string_view to_string(RefusalReason r) {
  switch (r) {
    case RefusalReason::none: return "none";
    case RefusalReason::backpressure: return "backpressure";
    case RefusalReason::promotion_concurrency: return "promotion_concurrency";
    case RefusalReason::pin_share: return "pin_share";
    case RefusalReason::tier_disabled: return "tier_disabled";
    case RefusalReason::payoff: return "payoff";
    case RefusalReason::save_floor: return "save_floor";
    case RefusalReason::lookup_gate: return "lookup_gate";
    case RefusalReason::write_budget: return "write_budget";
    case RefusalReason::custom: return "custom";
    case RefusalReason::circuit_breaker: return "circuit_breaker";
    case RefusalReason::demand: return "demand";
    case RefusalReason::load_worth: return "load_worth";
    case RefusalReason::backlog: return "backlog";
  }
  return "unknown";
}

/// A candidate as a policy sees it: never slots, never job ids. Cascades are asked as a whole
/// (num_chunks = keys of the job), promotions one chunk at a time.
struct JobMetadata {
  AdmissionTicket ticket = 0;
  TierIndex tier = 0;
  bool is_promotion = false;
  std::uint32_t num_chunks = 0;
  std::uint64_t bytes = 0;
  std::span<const OffloadKey> keys;         ///< valid during the call; empty in on_completed/on_withdrawn
  const RequestContext* request = nullptr;  ///< valid during the call; may be null
  /// Promotions: chunks that the lookup wants of this tier, from this one on and itself included; else 0.
  std::uint32_t batch_chunks = 0;
};

/// How an admitted job ended, as a policy sees it. `num_chunks` of JobMetadata tells how much of it.
struct CompletedTransfer {
  bool success = false;
  std::uint64_t transfer_bytes = 0;  ///< really moved
  MonotonicTime submitted_at;
  MonotonicTime finished_at;         ///< lane's completion time; queueing in the lane is included
  /// Of the first chunk that failed; `none` beside success == false is a failure of unknown kind.
  TransferFailure failure = TransferFailure::none;
};

}  // namespace kv_offload
