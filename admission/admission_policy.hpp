#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kv_offload/messages/admission.hpp"
#include "kv_offload/messages/config_node.hpp"
#include "kv_offload/messages/metric_definition.hpp"
#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/messages/tier_traits.hpp"

namespace kv_offload {

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
  [[nodiscard]] virtual RefusalReason should_admit(const JobMetadata& job, MonotonicTime now) const = 0;
  /// The job was admitted by every policy and is being submitted.
  virtual void on_admitted(const JobMetadata& job, MonotonicTime now) = 0;
  /// The job was refused by `refuser` (compare with `this`); only the refuser moves its credit.
  virtual void on_refused(const JobMetadata& job, const AdmissionPolicy* refuser, MonotonicTime now) = 0;
  /// `job.num_chunks` chunks of the ticket ended with their transfer (at Quiesced).
  virtual void on_completed(const JobMetadata& job, const CompletedTransfer& result, MonotonicTime now) = 0;
  /// `job.num_chunks` chunks of the ticket were admitted but could not be submitted.
  virtual void on_withdrawn(const JobMetadata& job, MonotonicTime now) = 0;
  /// Equals a fresh object.
  virtual void reset() = 0;

  /// Present values of the declared series (cumulative counters, gauges as of `now`).
  [[nodiscard]] virtual std::vector<MetricSample> stats(MonotonicTime /*now*/) const { return {}; }
  [[nodiscard]] virtual std::vector<MetricDefinition> metric_definitions() const { return {}; }
  /// Chunks admitted, not completed, not withdrawn; for the balance check. Policies without such a
  /// count answer -1.
  [[nodiscard]] virtual std::int64_t in_flight_chunks() const { return -1; }
};

/// What a policy is built with besides its own parameters.
struct AdmissionEnvironment {
  std::vector<TierTraits> tiers;         ///< in order of TierIndex
  std::vector<std::string> tier_labels;  ///< metric labels, co-indexed ("1:fs")
};

}  // namespace kv_offload
