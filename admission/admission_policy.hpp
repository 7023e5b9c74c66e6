#pragma once

#include "kv_offload/messages/admission.hpp"
#include "kv_offload/messages/compute_sample.hpp"
#include "kv_offload/messages/config_node.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/gate_report.hpp"
#include "kv_offload/messages/load_verdict.hpp"
#include "kv_offload/messages/metric_definition.hpp"
#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/messages/tier_traits.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kv_offload {

/// One key of a policy's configuration with the value in force.
struct PolicySetting {
  std::string key;
  std::string value;
  std::string unit;  ///< empty: a name, or a number without one
};

/// What one request wanted beyond what the device had.
struct LookupDemand {
  std::uint64_t primary = 0;              ///< chunks found in the primary tier
  std::span<const std::uint32_t> served;  ///< by tier: chunks found there
  std::span<const OffloadKey> unserved;   ///< wanted and found nowhere, in order
  bool prefix = true;                     ///< a chunk is of no use without those before it
};

/// A prefix lookup before it asks a tier: which keys it is about. Valid during the call.
struct LookupReach {
  static constexpr std::uint32_t kEverything = std::numeric_limits<std::uint32_t>::max();

  TierIndex tier = 0;
  std::span<const OffloadKey> keys;
  std::uint32_t first_key = 0;  ///< that the device lacks
};
/// How such a lookup ended.
struct LookupReached {
  LookupReach asked;
  std::uint32_t served_until = 0;   ///< behind the last leading key that the tier served; 0: none
  std::uint32_t served_chunks = 0;  ///< that the tier served beyond the device
  std::uint32_t asked_from = 0;     ///< the first key beyond the device that it was asked for
  std::uint32_t asked_until = 0;    ///< behind the last; 0: none
  Duration probing{};               ///< waiting for the tier's word
};

/// Gate before submission: decides whether a transfer may start. Arithmetic and own state, nothing
/// else: no clock, no randomness, no threads; time comes as an argument. Owned by the admission
/// controller and called from that one actor only, so check and count cannot drift apart.
///
/// `should_admit` is a pure predicate: asking a thousand times changes nothing. State moves only in
/// the on_* hooks and in reset. Counts are in chunks and balance:
/// admitted = completed + withdrawn + in flight.
class AdmissionPolicy {
 public:
  virtual ~AdmissionPolicy() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;

  /// RefusalReason::none admits.
  [[nodiscard]] virtual RefusalReason should_admit(const JobMetadata& job,
                                                   MonotonicTime now) const = 0;
  /// The job was admitted by every policy and is being submitted.
  virtual void on_admitted(const JobMetadata& job, MonotonicTime now) = 0;
  /// The job was refused by `refuser` (compare with `this`); only the refuser moves its credit.
  virtual void on_refused(const JobMetadata& job, const AdmissionPolicy* refuser,
                          MonotonicTime now) = 0;
  /// `job.num_chunks` chunks of the ticket ended with their transfer (at Quiesced).
  virtual void on_completed(const JobMetadata& job, const CompletedTransfer& result,
                            MonotonicTime now) = 0;
  /// `job.num_chunks` chunks of the ticket were admitted but could not be submitted.
  virtual void on_withdrawn(const JobMetadata& job, MonotonicTime now) = 0;
  /// Equals a fresh object, but for what a cache cannot forget: bytes that wore out a device.
  /// Counters start at 0 again.
  virtual void reset() = 0;

  /// What loads from `tier` were worth, since the last call.
  virtual void on_verdicts(TierIndex /*tier*/, const VerdictCounts& /*tally*/,
                           MonotonicTime /*now*/) {}
  /// A request's lookup has ended; spans are valid during the call.
  virtual void on_demand(const LookupDemand& /*demand*/, MonotonicTime /*now*/) {}
  /// Up to which key is the tier worth asking? Pure, and followed by on_reach with what all policies agreed on.
  [[nodiscard]] virtual std::uint32_t lookup_reach(const LookupReach& /*lookup*/,
                                                   MonotonicTime /*now*/) const {
    return LookupReach::kEverything;
  }
  virtual void on_reach(const LookupReach& /*lookup*/, std::uint32_t /*reach*/,
                        MonotonicTime /*now*/) {}
  virtual void on_reached(const LookupReached& /*answer*/, MonotonicTime /*now*/) {}
  /// Whether lookup_reach may bound anything: else nobody is asked.
  [[nodiscard]] virtual bool bounds_lookups() const { return false; }
  /// Whether on_computed is to be called: it takes a message per stored prompt.
  [[nodiscard]] virtual bool weighs_device() const { return false; }
  /// The device has computed a prompt.
  virtual void on_computed(const ComputeSample& /*sample*/, MonotonicTime /*now*/) {}
  /// The deadline gave `job.num_chunks` chunks of the ticket up. They stay in flight; their end
  /// still comes, with whatever result.
  virtual void on_overdue(const JobMetadata& /*job*/, MonotonicTime /*now*/) {}

  /// Present values of the declared series (cumulative counters, gauges as of `now`).
  [[nodiscard]] virtual std::vector<MetricSample> stats(MonotonicTime /*now*/) const { return {}; }
  [[nodiscard]] virtual std::vector<MetricDefinition> metric_definitions() const { return {}; }
  /// Chunks admitted, not completed, not withdrawn; for the balance check. Policies without such a
  /// count answer -1.
  [[nodiscard]] virtual std::int64_t in_flight_chunks() const { return -1; }

  /// Every key with the value in force, for check-config and the start log.
  [[nodiscard]] virtual std::vector<PolicySetting> settings() const { return {}; }
  /// What the policy is doing and why, one report per tier.
  [[nodiscard]] virtual std::vector<GateReport> gate_reports(MonotonicTime /*now*/) const {
    return {};
  }
  /// What must survive a restart, as text of the policy's own; empty if nothing must. `unix_ms` is
  /// the time of day in milliseconds: the steady clock starts anew in every process.
  [[nodiscard]] virtual std::string saved_state(MonotonicTime /*now*/,
                                                std::int64_t /*unix_ms*/) const {
    return {};
  }
  /// Takes over what saved_state() gave in an earlier life. Call before the first decision.
  virtual Expected<Ok> restore_state(std::string_view /*text*/, MonotonicTime /*now*/,
                                     std::int64_t /*unix_ms*/) {
    return Ok{};
  }
};

/// What a policy is built with besides its own parameters.
struct AdmissionEnvironment {
  std::vector<TierTraits> tiers;         ///< in order of TierIndex
  std::vector<std::string> tier_labels;  ///< metric labels, co-indexed ("1:fs")
  std::uint64_t tokens_per_chunk = 1;
  std::uint64_t chunk_bytes = 0;    ///< the least that a job moves; 0: unknown
  double compute_tokens_per_s = 0;  ///< as configured; 0: unknown, measured
  double store_deadline_s = 30;     ///< that a cascade may take, its queue included

  /// Of a tier beyond the end too.
  [[nodiscard]] std::string label_of(std::size_t tier) const {
    if (tier < tier_labels.size()) return tier_labels[tier];
    return tier_label(static_cast<TierIndex>(tier),
                      tier < tiers.size() ? tiers[tier].type : std::string("unknown"));
  }
};

}  // namespace kv_offload
