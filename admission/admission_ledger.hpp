#pragma once

#include "kv_offload/admission/admission_policy.hpp"
#include "kv_offload/admission/admission_totals.hpp"
#include "kv_offload/admission/decision_log.hpp"
#include "kv_offload/admission/slow_tier_gates.hpp"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kv_offload {

struct CascadeDecision {
  bool admitted = false;
  AdmissionTicket ticket = 0;  ///< 0 if not admitted
  RefusalReason reason = RefusalReason::none;
  std::string_view refuser;  ///< who refused; valid as long as the ledger
};

struct PromotionCandidate {
  OffloadKey key;
  TierIndex tier = 0;
};

/// The leading candidates that may be loaded. Chunks of one tier share one ticket.
struct PromotionDecision {
  std::vector<AdmissionTicket> tickets;        ///< one per admitted candidate, in order of the call
  RefusalReason reason = RefusalReason::none;  ///< of the candidate behind them; none: all admitted
  std::string_view refuser;
  [[nodiscard]] std::size_t num_admitted() const { return tickets.size(); }
};

/// Admission as a plain object: owns the policy, asks it, counts what it admitted, and is told how
/// every admitted chunk ended. Check and count happen in one call, so they cannot drift apart.
///
/// Owned by the admission actor and called from there only. Time is an argument and does not go
/// back. Memory: one ticket per job in flight, bounded by the pin shares. A refusal allocates
/// nothing and uses no ticket.
class AdmissionLedger {
 public:
  /// `tier_pin_share_chunks`: per tier, the most chunks in flight in each direction. With
  /// an `environment`, payoff and lookups are measured also where no gate is configured.
  AdmissionLedger(std::unique_ptr<AdmissionPolicy> policy,
                  std::vector<std::uint32_t> tier_pin_share_chunks,
                  const AdmissionEnvironment& environment = {});

  /// May these chunks be copied to `tier` as one job? All or none. Without keys nothing is asked.
  CascadeDecision decide_cascade(TierIndex tier, std::span<const OffloadKey> keys,
                                 std::uint64_t bytes, const RequestContext* request,
                                 MonotonicTime now);
  /// Decides chunk by chunk in order, each counted before the next is asked; stops at the first
  /// refused one, what is behind it is not asked.
  PromotionDecision decide_promotions(std::span<const PromotionCandidate> candidates,
                                      std::uint64_t chunk_bytes, const RequestContext* request,
                                      MonotonicTime now);

  /// `num_chunks` chunks of the ticket were admitted but will not be submitted.
  void withdraw(AdmissionTicket ticket, std::uint32_t num_chunks, MonotonicTime now);
  /// `num_chunks` chunks of the ticket ended with their transfer. Call at Quiesced.
  void complete(AdmissionTicket ticket, std::uint32_t num_chunks, const CompletedTransfer& result,
                MonotonicTime now);
  /// The deadline gave `num_chunks` chunks of the ticket up. Call at Outcome; complete() still
  /// comes.
  void overdue(AdmissionTicket ticket, std::uint32_t num_chunks, MonotonicTime now);
  /// `num_chunks` chunks of a store call are below the prefix that a skipped lookup left unproven:
  /// counted as refused (save_floor), no policy is asked. `is_whole_job`: none of the call is left.
  void refuse_below_floor(TierIndex tier, std::uint32_t num_chunks, bool is_whole_job,
                          MonotonicTime now);

  /// Is `tier` asked about a prompt of which the device holds `device_tokens` (0: unknown)? A skip
  /// is counted as one unpaid verdict at once; every other answer expects one answer_lookup.
  LookupDecision decide_lookup(TierIndex tier, std::uint64_t prompt_tokens,
                               std::uint64_t device_tokens, MonotonicTime now);
  /// A lookup that runs without having been asked about; like a decision that was not `skip`.
  void count_lookup(TierIndex tier, std::uint64_t prompt_tokens, std::uint64_t device_tokens,
                    MonotonicTime now);
  void answer_lookup(TierIndex tier, const GatedAnswer& answer);
  /// Cumulative verdicts of one scheduler_step on one tier, without skipped lookups.
  void observe_verdicts(DomainId sender, TierIndex tier, const VerdictCounts& total,
                        MonotonicTime now);

  /// Up to which of its keys is a lookup to ask the tier? Counted as decided.
  std::uint32_t decide_reach(const LookupReach& lookup, MonotonicTime now) {
    const std::uint32_t reach = policy_->lookup_reach(lookup, now);
    policy_->on_reach(lookup, reach, now);
    return reach;
  }
  void observe_reach(const LookupReached& answer, MonotonicTime now) {
    policy_->on_reached(answer, now);
  }
  void observe_computed(const ComputeSample& sample, MonotonicTime now) {
    policy_->on_computed(sample, now);
  }

  /// What a request wanted of the tiers, once per request.
  void observe_demand(const LookupDemand& demand, MonotonicTime now) { policy_->on_demand(demand, now); }

  /// Forgets what is in flight (counted as erased) and the policy's state. Totals, the sequence of
  /// tickets and disabled tiers stay.
  void reset();

  /// While disabled everything for the tier is refused; what is in flight still ends normally.
  void disable_tier(TierIndex tier, bool disabled);

  /// Moves whenever something happened that can turn a refusal into an admission: a completion, a
  /// withdrawal, a reset, a tier enabled, or a policy that admits again what it refused before.
  [[nodiscard]] std::uint64_t pressure_epoch() const { return pressure_epoch_; }

  [[nodiscard]] std::size_t num_tiers() const { return tiers_.size(); }
  [[nodiscard]] const TierAdmissionTotals& totals(TierIndex tier) const {
    return tiers_[tier].totals;
  }
  [[nodiscard]] bool is_disabled(TierIndex tier) const { return tiers_[tier].disabled; }
  [[nodiscard]] std::uint32_t pin_share_chunks(TierIndex tier) const {
    return tiers_[tier].pin_share;
  }
  /// Chunks in ends that named an unknown or already ended ticket; nothing else happened to them.
  [[nodiscard]] std::uint64_t stale_chunks() const { return stale_chunks_; }
  [[nodiscard]] const DecisionLog& decisions() const { return log_; }
  [[nodiscard]] const AdmissionPolicy& policy() const { return *policy_; }
  [[nodiscard]] const LookupGates& lookup_gates() const { return gates_.lookups(); }
  [[nodiscard]] const Payoff& payoff() const { return gates_.payoff(); }
  [[nodiscard]] std::uint64_t verdict_resynchronisations() const {
    return verdicts_.resynchronisations();
  }
  /// The policy's series. Counters go on over a reset although the policy starts afresh.
  [[nodiscard]] std::vector<MetricSample> stats(MonotonicTime now) const;
  /// What every gate is doing and why.
  [[nodiscard]] std::vector<GateReport> gate_reports(MonotonicTime now) const;
  /// Of those, the ones whose cadence asks for a log line since the last call.
  std::vector<GateReport> due_reports(MonotonicTime now);

  /// What must survive a restart; empty if nothing must. Keep it whole and hand it to restore_state
  /// of the next ledger before its first decision. Versioned text, format in README.md.
  [[nodiscard]] std::string saved_state(MonotonicTime now, std::int64_t unix_ms) const;
  /// Empty text: there was no earlier life. An error leaves the ledger usable, as README.md says.
  Expected<Ok> restore_state(std::string_view text, MonotonicTime now, std::int64_t unix_ms);

  /// Do the totals, the tickets and the policy's own counts agree? Else `why` says what does not.
  bool check_balance(std::string* why) const;
  /// The same, and nothing is in flight.
  bool check_idle(std::string* why) const;

 private:
  struct Tier {
    std::uint32_t pin_share = 0;
    bool disabled = false;
    bool refused_before[2] = {false, false};  ///< by the policy, last answer: cascades, promotions
    TierAdmissionTotals totals;
    AdmissionTicket batch_ticket = 0;  ///< of the running batch
    std::uint32_t batch_chunks = 0;
    std::uint32_t batch_left = 0;  ///< of its candidates, not decided yet
  };
  struct Ticket {
    TierIndex tier = 0;
    bool is_promotion = false;
    bool any_completed = false;
    std::uint32_t chunks = 0;
    std::uint64_t chunk_bytes = 0;
  };
  struct Answer {
    RefusalReason reason = RefusalReason::none;
    std::string_view refuser;
  };

  Answer ask(const JobMetadata& job, MonotonicTime now);
  void commit(const JobMetadata& job, MonotonicTime now);
  void log_batch(TierIndex tier, MonotonicTime now);
  AdmissionTotals& totals_of(TierIndex tier, bool is_promotion);
  void count_verdicts(TierIndex tier, const VerdictCounts& tally, MonotonicTime now);
  [[nodiscard]] std::vector<MetricSample> all_samples(MonotonicTime now) const;
  /// Takes chunks off a ticket into `count`; job.num_chunks 0: it was stale.
  JobMetadata end_chunks(AdmissionTicket ticket, std::uint32_t num_chunks, bool completed);

  std::unique_ptr<AdmissionPolicy> policy_;
  SlowTierGates gates_;  // of policy_, or its own where policy_ has none
  VerdictFeed verdicts_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> reported_;  // by gate and tier
  std::vector<Tier> tiers_;                                                // by TierIndex
  std::unordered_map<AdmissionTicket, Ticket> tickets_;  // never iterated where order shows
  AdmissionTicket next_ticket_ = 1;                      // 0 means none
  std::uint64_t pressure_epoch_ = 0;
  std::uint64_t stale_chunks_ = 0;
  DecisionLog log_;
  std::vector<MetricSample> counters_before_reset_;
};

}  // namespace kv_offload
