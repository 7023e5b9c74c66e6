#pragma once

#include "kv_offload/admission/admission_policy.hpp"
#include "kv_offload/messages/expected.hpp"

#include <memory>
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

  /// Refuses a null member, more than kMaxMembers and two implicit members of one name.
  static Expected<std::unique_ptr<Composite>> make(Members members);

  [[nodiscard]] std::string_view name() const override { return "composite"; }
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

  [[nodiscard]] std::vector<MetricSample> stats(MonotonicTime now) const override;
  [[nodiscard]] std::vector<MetricDefinition> metric_definitions() const override;

  [[nodiscard]] const Members& members() const { return members_; }
  /// The member that refuses `job` now; nullptr if none does.
  [[nodiscard]] const AdmissionPolicy* refusing_member(const JobMetadata& job,
                                                       MonotonicTime now) const;

 private:
  explicit Composite(Members members) : members_(std::move(members)) {}

  Members members_;
};

/// The policy inside `policy`, or itself, that refuses `job` now: never a composite. Ask before
/// on_refused.
const AdmissionPolicy& find_refuser(const AdmissionPolicy& policy, const JobMetadata& job,
                                    MonotonicTime now);

/// Adds `from` to `into`. Of two samples with one name and labels, counters (`_total`) add up; of
/// gauges the larger stays.
void merge_samples(std::vector<MetricSample>& into, std::vector<MetricSample> from);

}  // namespace kv_offload
