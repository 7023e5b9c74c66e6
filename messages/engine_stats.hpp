#pragma once

#include "kv_offload/messages/admission.hpp"
#include "kv_offload/messages/export.hpp"
#include "kv_offload/messages/gate_report.hpp"
#include "kv_offload/messages/metric_definition.hpp"
#include "kv_offload/messages/transfer_job.hpp"
#include "kv_offload/messages/worker_order.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kv_offload {

/// All numbers here are cumulative since the start of the engine unless marked "gauge". Each struct is
/// owned by one kind of actor, which publishes it whole; nothing is ever sent as a difference.

struct Amount {
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
  void add(std::uint64_t n, std::uint64_t chunk_bytes) {
    chunks += n;
    bytes += n * chunk_bytes;
  }
  Amount& operator+=(const Amount& o) {
    chunks += o.chunks;
    bytes += o.bytes;
    return *this;
  }
  friend bool operator==(const Amount&, const Amount&) = default;
};

/// Why admitted or offered work was given up without an I/O error.
enum class DropReason : std::uint8_t {
  no_space,   ///< the primary tier could not grant a slot
  hold_lost,  ///< the hold share was used up at publication, and the chunk left before its pin
  joined,     ///< another request loads the same key: its load is shared
  jobs_full,  ///< the table of open jobs is full
  reset,
  shutdown,
  evicted,    ///< it had left the primary tier before its cascade could start
  deadline,   ///< parked behind a write, or in line for slots, for longer than its call had
  sibling,    ///< a chunk of the same atomic group set was refused
};
inline constexpr std::size_t kNumDropReasons = 9;
constexpr std::string_view to_string(DropReason r) {
  constexpr std::string_view kNames[] = {"no_space", "hold_lost", "joined",  "jobs_full",
                                         "reset",    "shutdown",  "evicted", "deadline", "sibling"};
  return kNames[static_cast<std::size_t>(r)];
}

/// Why a looked-up key got neither hit nor miss from a tier.
enum class GiveUpReason : std::uint8_t {
  deadline,     ///< the verdict or the load did not come in time
  probes_full,  ///< the tier's probe table was full
  tier_down,    ///< its actor or lane is gone
  error,        ///< the tier could not tell
  aborted,      ///< the request ended first
  reset,
};
inline constexpr std::size_t kNumGiveUpReasons = 6;
constexpr std::string_view to_string(GiveUpReason r) {
  constexpr std::string_view kNames[] = {"deadline", "probes_full", "tier_down", "error", "aborted", "reset"};
  return kNames[static_cast<std::size_t>(r)];
}

/// Fixed-bucket histogram with counts per bucket (not cumulative); the last bucket is +Inf.
struct Histogram {
  std::vector<double> bounds;
  std::vector<std::uint64_t> counts;
  double sum = 0;

  Histogram() = default;
  explicit Histogram(std::vector<double> upper_bounds)
      : bounds(std::move(upper_bounds)), counts(bounds.size() + 1) {}
  void observe(double value, std::uint64_t n = 1) {
    std::size_t i = 0;
    while (i < bounds.size() && value > bounds[i]) ++i;
    counts[i] += n;
    sum += value * static_cast<double>(n);
  }
  [[nodiscard]] std::uint64_t count() const {
    std::uint64_t n = 0;
    for (const auto c : counts) n += c;
    return n;
  }
};

/// What an actor says of itself.
struct ActorTotals {
  std::uint64_t messages = 0;
  std::uint64_t foreign_executions = 0;  ///< handlers run outside the actor's domain
  friend bool operator==(const ActorTotals&, const ActorTotals&) = default;
};

/// Per tier, as the scheduler_step actor counts it ([0] is the primary tier where it applies).
struct LookupTotals {
  std::uint64_t looked_up = 0;  ///< = hit + miss + Σ gave_up at every idle point, chunks
  std::uint64_t hit = 0;
  std::uint64_t miss = 0;
  std::array<std::uint64_t, kNumGiveUpReasons> gave_up{};
  std::uint64_t chunk_queries = 0;  ///< first resolution per (request, tier, key) before allocation
  std::uint64_t chunk_hits = 0;
  Histogram sync_delay;   ///< seconds
  Histogram async_delay;  ///< seconds
};

/// Per secondary tier, scheduler_step's side of promise 2.
struct OfferTotals {
  Amount cascades_offered;
  std::array<Amount, kNumRefusalReasons> cascades_refused{};
  std::array<Amount, kNumDropReasons> cascades_dropped{};
  std::uint64_t cascade_jobs_refused = 0;   ///< vllm:…cascades_dropped
  std::uint64_t promotions_refused_once = 0; ///< vllm:…promotions_dropped: once per (request, chunk)
  Amount promotions_offered;
  std::array<Amount, kNumRefusalReasons> promotions_refused{};
  std::array<Amount, kNumDropReasons> promotions_dropped{};
};

/// Copies by the engine's workers in one direction; a lease is one of them.
struct CopyTotals {
  std::uint64_t started = 0;  ///< = succeeded + failed + open, at any time
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;  ///< a worker failed, died or was too late
  std::uint64_t open = 0;    ///< gauge: rows may still be touched
  std::uint64_t bytes = 0;   ///< of those that succeeded, all workers
  double time_s = 0;         ///< of those, the slowest worker's
  Histogram size;            ///< of those, bytes
};

struct SchedulerTotals {
  ActorTotals actor;
  std::vector<LookupTotals> lookups;  ///< [0] primary, [1+t] tier t
  std::vector<OfferTotals> offers;    ///< [t]
  std::uint64_t requests_started = 0;
  std::uint64_t requests_ended = 0;
  std::uint64_t requests_live = 0;    ///< gauge
  std::uint64_t calls_open = 0;       ///< gauge: lookups, reservations and cascades being resolved
  std::uint64_t leases_open = 0;      ///< gauge
  std::uint64_t jobs_numbered = 0;    ///< job ids handed out, in sequence from 0
  std::uint64_t allocation_failures = 0;            ///< prepare_store answered no_space
  std::uint64_t promotion_allocation_failures = 0;  ///< tier hits that got no slot
  std::uint64_t device_stored_chunks = 0;
  std::uint64_t device_loaded_chunks = 0;
  std::uint64_t stores_capped_chunks = 0;  ///< offered to prepare_store beyond max_offload_tokens or the prompt
  std::uint64_t loads_capped_chunks = 0;   ///< looked up beyond max_load_tokens
  std::array<std::uint64_t, kNumTransferParamFaults> transfer_param_faults{};
  std::uint64_t promotions_pending = 0;    ///< gauge: chunks granted in the polling view, not yet submitted
  std::uint64_t cascades_parked = 0;       ///< gauge: chunks waiting for a write to end before they cascade
  std::uint64_t external_requests = 0;     ///< that tiers asked on behalf of others
  std::uint64_t external_expired = 0;      ///< calls through a handle that had been revoked
  std::uint64_t forgotten_chunks = 0;      ///< removed from the primary tier by forget
  std::uint64_t remote_stored_chunks = 0;  ///< that found room in another domain's memory only
  std::uint64_t remote_loaded_chunks = 0;  ///< that the device read from another domain's memory
  CopyTotals store_copies, load_copies;    ///< by the workers
  WorkerHubStats workers;                  ///< no ranks: none are configured
};

/// Per secondary tier, as the job tracker counts it.
struct TransferTotals {
  Amount stored, already_present;
  std::array<Amount, kNumTransferFailures> store_failed{};
  Amount loaded;
  std::array<Amount, kNumTransferFailures> load_failed{};
  std::uint64_t read_bytes = 0, write_bytes = 0;
  double read_time_s = 0, write_time_s = 0;
  std::uint64_t promotion_job_failures = 0, cascade_job_failures = 0;
  std::uint64_t active_promotion_jobs = 0, active_cascade_jobs = 0;      ///< gauges
  std::uint64_t active_promotion_chunks = 0, active_cascade_chunks = 0;  ///< gauges
  std::uint64_t quarantined_chunks = 0;  ///< gauge: between Outcome and Quiesced
  bool disabled = false;                 ///< gauge
};

struct TrackerTotals {
  ActorTotals actor;
  std::vector<TransferTotals> tiers;
  std::uint64_t jobs_registered = 0;
  std::uint64_t outcomes = 0;         ///< exactly one per registered job
  std::uint64_t quiesced = 0;         ///< one of quiesced or abandoned per registered job
  std::uint64_t abandoned = 0;
  std::uint64_t deadline_outcomes = 0;
  std::uint64_t late_results = 0;     ///< arrived after their deadline had been given; discarded
  std::uint64_t unknown_results = 0;  ///< of no registered job: a bug in a tier
  std::uint64_t stale_results = 0;    ///< from before a reset
  std::uint64_t jobs_active = 0;      ///< gauge: registered, not quiesced
};

struct PrimaryTotals {
  ActorTotals actor;
  std::uint64_t num_chunks = 0, resident = 0, free = 0, evictable = 0, write_pending = 0;  ///< gauges
  std::uint64_t pinned = 0, held = 0, quarantined = 0;  ///< gauges, distinct chunks
  std::uint64_t pins_open = 0, holds_open = 0;          ///< gauges, with multiplicity
  std::uint64_t pins_abandoned = 0;  ///< gauge: of jobs whose lane died; kept until the engine ends
  std::uint64_t waiters = 0, claims = 0;                ///< gauges
  std::uint64_t evictions = 0, holds_refused = 0, events_dropped = 0;
  std::uint64_t promoted = 0;                ///< chunks that landed from a tier
  std::uint64_t promoted_evicted_unread = 0; ///< thrash: landed, evicted before anyone read them
  std::uint64_t pins_expired_unread = 0;     ///< holds of unread promotions that expired by clock
  std::uint64_t stores_skipped = 0;          ///< keys looked up less often than store_threshold
  std::uint64_t reuse_tracked = 0;           ///< gauge: keys whose lookups are counted
  std::uint64_t reused_in_use = 0;           ///< slots found in use when they were to be handed out; stays 0
  std::string identity_violation;            ///< empty while the recount agrees with the counters
  Histogram allocation_size;
};

/// Jobs and their chunks. A cascade is one job; promotions of one batch and tier are one.
struct JobAmount {
  std::uint64_t jobs = 0, chunks = 0;
};

/// One tier and direction as admission counts it: offered = admitted + Σ refused, admitted = completed +
/// withdrawn + erased + in_flight, in jobs and in chunks.
struct AdmissionFlow {
  JobAmount offered, admitted, completed, withdrawn, erased;
  JobAmount in_flight;  ///< gauge
  std::array<JobAmount, kNumRefusalReasons> refused{};
};

struct AdmissionTierTotals {
  std::uint64_t offered = 0, admitted = 0, completed = 0, withdrawn = 0, erased = 0;  ///< chunks
  std::uint64_t in_flight = 0;  ///< gauge, chunks
  std::array<std::uint64_t, kNumRefusalReasons> refused{};
  AdmissionFlow cascades, promotions;  ///< the same by direction
  std::uint64_t pin_share_chunks = 0;  ///< most chunks in flight
  bool disabled = false;               ///< gauge
};

/// Refusals by whoever said no: a policy's name, or the ledger's own reason.
struct RefuserTotals {
  std::string policy;
  TierIndex tier = 0;
  bool is_promotion = false;
  std::uint64_t decisions = 0, chunks = 0;
};

/// A setting of a gate that counts events, so that it can be shown in seconds.
struct GateCadence {
  std::string gate, setting;
  double events = 0;
};

/// One answer of admission, kept to explain it later.
struct AdmissionDecision {
  MonotonicTime at;
  TierIndex tier = 0;
  bool is_promotion = false;
  std::uint32_t chunks = 0;
  bool admitted = false;
  RefusalReason reason = RefusalReason::none;
  std::string refuser;  ///< the policy's name; empty if admitted
  std::uint64_t in_flight_chunks = 0;  ///< of the tier and direction, right after the answer
  /// The refuser's numbers when the refusal was first published, at most a tick after it; null: none.
  std::shared_ptr<const std::string> numbers;
};

struct AdmissionActorTotals {
  ActorTotals actor;
  std::vector<AdmissionTierTotals> tiers;
  std::uint64_t pressure_epoch = 0;
  std::uint64_t stale_tickets = 0;
  std::uint64_t tickets_open = 0;   ///< gauge
  std::string balance_violation;    ///< empty while admitted = completed + withdrawn + erased + in flight
  std::vector<MetricSample> policy_samples;
  std::vector<GateReport> gates;             ///< what each gate does and why, per tier
  std::vector<AdmissionDecision> decisions;  ///< the last ones, oldest first
  std::vector<RefuserTotals> refusers;       ///< sorted by policy, tier and direction
  std::vector<GateCadence> cadences;
};

struct TierActorTotals {
  ActorTotals actor;
  std::uint64_t queued_jobs = 0, running_jobs = 0, probes_open = 0;  ///< gauges
  std::uint64_t unverified_chunks = 0, corrupt_chunks = 0, foreign_refused = 0, probes = 0;
  std::uint64_t verdicts = 0;       ///< gauge: keys whose verdict is kept for the polling view
  std::uint64_t verdicts_full = 0;  ///< keys that found that table full
  std::uint64_t forgotten_chunks = 0;  ///< removed by forget
  bool alive = true;  ///< gauge
  std::vector<MetricSample> samples;
};

/// Where the memory of a domain's slices lay right after its first touch; nothing moves it afterwards. All 0 where memory
/// is not bound to nodes.
struct DomainMemory {
  std::uint64_t planned_bytes = 0;
  std::uint64_t near_bytes = 0;  ///< on the domain's node; by a sample of pages above 1 GiB
  /// What is neither was not in memory, or could not be asked for.
  std::uint64_t elsewhere_bytes = 0;
};

/// What one domain's actors and memory had to do; sums of them are in SchedulerTotals and PrimaryTotals.
struct DomainTotals {
  ActorTotals scheduler_step, primary_tier;
  std::uint64_t requests_started = 0;
  std::uint64_t resident = 0;  ///< gauge: chunks whose home it is
  std::uint64_t remote_stored_chunks = 0, remote_loaded_chunks = 0;
  DomainMemory memory;
};

/// Everything the engine counts, taken behind a fence: all results tracked before the call are in it.
struct EngineStats {
  std::vector<std::string> tier_labels;  ///< [0] "0:primary", [1+t] tier t
  std::uint64_t chunk_bytes = 0;         ///< row length
  std::uint32_t tokens_per_chunk = 0;    ///< 0: unknown
  std::uint32_t worker_ranks = 0;        ///< workers that the engine orders
  SchedulerTotals scheduler;
  TrackerTotals tracker;
  PrimaryTotals primary;
  AdmissionActorTotals admission;
  std::vector<TierActorTotals> tiers;
  ActorTotals supervisor, metrics;
  std::vector<DomainTotals> domains;
};

/// One promise of the engine and whether the numbers agree with it.
struct PromiseCheck {
  int number = 0;
  std::string name;
  bool held = true;
  std::string why;  ///< the numbers that disagree
};

/// Checks what can be told from the counters alone: promises 2 to 6 at an idle point (no call open, no
/// job active). With `idle == false` only what holds at any time.
KV_OFFLOAD_EXPORT std::vector<PromiseCheck> check_promises(const EngineStats& stats, bool idle);

}  // namespace kv_offload
