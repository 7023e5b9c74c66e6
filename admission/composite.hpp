#pragma once

#include "kv_offload/admission/admission_policy.hpp"
#include "kv_offload/messages/expected.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload {

/// Admits what all of its members admit. Members are asked in list order; the first refusal decides
/// and its member is the refuser. Every hook reaches every member. Without members it admits.
class Composite final : public AdmissionPolicy {
 public:
  using Members = std::vector<std::unique_ptr<AdmissionPolicy>>;

  /// Deepest allowed nesting of composites in a configuration, the outermost counted.
  static constexpr int kMaxDepth = 4;
  static constexpr std::size_t kMaxMembers = 64;

  /// Refuses a null member, more than kMaxMembers, and two members where one name allows but one:
  /// implicit ones and gates, in whatever depth. `name` is what a preset calls itself.
  static Expected<std::unique_ptr<Composite>> make(Members members, std::string name = "composite");

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] RefusalReason should_admit(const JobMetadata& job,
                                           MonotonicTime now) const override;
  void on_admitted(const JobMetadata& job, MonotonicTime now) override;
  /// `refuser == this`: the member that decided is found by asking again, which changes nothing.
  void on_refused(const JobMetadata& job, const AdmissionPolicy* refuser,
                  MonotonicTime now) override;
  void on_completed(const JobMetadata& job, const CompletedTransfer& result,
                    MonotonicTime now) override;
  void on_withdrawn(const JobMetadata& job, MonotonicTime now) override;
  void reset() override;
  void on_verdicts(TierIndex tier, const VerdictCounts& tally, MonotonicTime now) override;
  void on_demand(const LookupDemand& demand, MonotonicTime now) override;
  void on_overdue(const JobMetadata& job, MonotonicTime now) override;
  [[nodiscard]] std::uint32_t lookup_reach(const LookupReach& lookup,
                                           MonotonicTime now) const override;
  void on_reach(const LookupReach& lookup, std::uint32_t reach, MonotonicTime now) override;
  void on_reached(const LookupReached& answer, MonotonicTime now) override;
  [[nodiscard]] bool bounds_lookups() const override;
  [[nodiscard]] bool weighs_device() const override;
  void on_computed(const ComputeSample& sample, MonotonicTime now) override;

  [[nodiscard]] std::vector<MetricSample> stats(MonotonicTime now) const override;
  [[nodiscard]] std::vector<MetricDefinition> metric_definitions() const override;

  [[nodiscard]] std::vector<GateReport> gate_reports(MonotonicTime now) const override;

  /// One section per member that has something to keep, found again by the member's name and its
  /// place among members of that name: other members may come and go in between.
  [[nodiscard]] std::string saved_state(MonotonicTime now, std::int64_t unix_ms) const override;
  /// Sections of members that are no longer there are ignored; every other is offered to its member
  /// and the first error reported.
  Expected<Ok> restore_state(std::string_view text, MonotonicTime now,
                             std::int64_t unix_ms) override;

  [[nodiscard]] const Members& members() const { return members_; }
  /// The member that refuses `job` now; nullptr if none does.
  [[nodiscard]] const AdmissionPolicy* refusing_member(const JobMetadata& job,
                                                       MonotonicTime now) const;

 private:
  Composite(Members members, std::string name)
      : members_(std::move(members)), name_(std::move(name)) {}

  Members members_;
  std::string name_;
};

/// The policy inside `policy`, or itself, that refuses `job` now: never a composite. Ask before
/// on_refused.
const AdmissionPolicy& find_refuser(const AdmissionPolicy& policy, const JobMetadata& job,
                                    MonotonicTime now);

/// Adds `from` to `into`. Of two samples with one name and labels, counters (`_total`) add up; of
/// gauges the larger stays.
void merge_samples(std::vector<MetricSample>& into, std::vector<MetricSample> from);

}  // namespace kv_offload
