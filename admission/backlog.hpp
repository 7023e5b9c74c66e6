#pragma once

#include "kv_offload/admission/admission_policy.hpp"
#include "kv_offload/admission/busy_rate.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace kv_offload {

struct BacklogOptions {
  GateMode mode = GateMode::enforce;
  /// Seconds of work that a tier's queue of stores may hold. A pin share bounds it in chunks, which a slow tier takes
  /// minutes to write: its jobs then end by their deadline, and a tier that does not end them in time is disabled.
  double max_queued_s = 15;
  double half_life_s =
      1;  ///< of writing: a tier that has become slow is known to be before much more is queued
};

/// Refuses cascades to a tier that has more queued than it writes in `max_queued_s`, by the rate at which it ended
/// stores while it had any. A tier without a store in flight is always given one. Promotions pass. The rate is a function
/// of time: a tier that ends nothing slows down by itself, before its first late completion.
class Backlog final : public AdmissionPolicy {
 public:
  struct Tier {
    explicit Tier(double half_life_s) : writing(half_life_s) {}

    BusyRate writing;  ///< of chunks
    std::uint64_t queued_bytes = 0;
    bool has_ended = false;  ///< any store yet
    std::uint64_t refused_jobs = 0, refused_chunks = 0, would_refuse_chunks = 0;
  };

  Backlog(const BacklogOptions& options, AdmissionEnvironment environment);

  [[nodiscard]] std::string_view name() const override { return "backlog"; }
  [[nodiscard]] RefusalReason should_admit(const JobMetadata& job,
                                           MonotonicTime now) const override;
  void on_admitted(const JobMetadata& job, MonotonicTime now) override;
  void on_refused(const JobMetadata& job, const AdmissionPolicy* refuser,
                  MonotonicTime now) override;
  void on_completed(const JobMetadata& job, const CompletedTransfer& result,
                    MonotonicTime now) override;
  void on_withdrawn(const JobMetadata& job, MonotonicTime now) override;
  void reset() override;

  [[nodiscard]] std::vector<MetricSample> stats(MonotonicTime now) const override;
  [[nodiscard]] std::vector<MetricDefinition> metric_definitions() const override;
  [[nodiscard]] std::vector<PolicySetting> settings() const override;
  [[nodiscard]] std::vector<GateReport> gate_reports(MonotonicTime now) const override;
  [[nodiscard]] std::int64_t in_flight_chunks() const override;

  [[nodiscard]] const BacklogOptions& options() const { return options_; }
  [[nodiscard]] const Tier& tier(TierIndex tier) const { return tiers_[tier]; }
  /// Bytes a second; 0: nothing is known yet, or nothing moves.
  [[nodiscard]] double rate(TierIndex tier, MonotonicTime now) const;
  /// Seconds until `bytes` more were written behind what is queued; 0 while nothing is known.
  [[nodiscard]] double queued_s(TierIndex tier, std::uint64_t bytes, MonotonicTime now) const;

 private:
  [[nodiscard]] bool is_judged(const JobMetadata& job) const {
    return !job.is_promotion && job.tier < tiers_.size();
  }
  [[nodiscard]] bool is_full(const JobMetadata& job, MonotonicTime now) const;
  void end(const JobMetadata& job, bool counts, MonotonicTime now);

  BacklogOptions options_;
  AdmissionEnvironment environment_;
  std::vector<Tier> tiers_;  // by TierIndex
};

}  // namespace kv_offload
