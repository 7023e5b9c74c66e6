#pragma once

#include "kv_offload/admission/admission_policy.hpp"
#include "kv_offload/admission/byte_bucket.hpp"
#include "kv_offload/admission/in_flight_tickets.hpp"

#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

struct WriteBudgetOptions {
  GateMode mode = GateMode::enforce;
  std::uint64_t bytes_per_day = 0;  ///< per tier, in any 24 hours
  std::uint64_t peak_bytes = 0;     ///< most that may be written at once after a pause
  std::vector<bool> tiers;          ///< by TierIndex: limited; empty: all
};

/// Caps the bytes that cascades write to a tier, so that a device lasts: flash wears out by bytes
/// written. Bytes are taken at admission and given back for what was not written after all. A job
/// larger than the peak never passes. Promotions pass.
///
/// What was written is not forgotten by a reset, and not by a restart if the caller keeps
/// saved_state(): the device does not forget either.
class WriteBudget final : public AdmissionPolicy {
 public:
  struct Tier {
    explicit Tier(const ByteBucket& full) : bucket(full) {}
    ByteBucket bucket;
    double written_ever = 0;  ///< bytes, over restarts and resets
    std::uint64_t written_bytes = 0;
    std::uint64_t refused_jobs = 0, refused_bytes = 0;
    std::uint64_t would_refuse_jobs = 0, would_refuse_bytes = 0;  ///< mode observe
    std::uint64_t last_refused_bytes = 0;
  };

  WriteBudget(const WriteBudgetOptions& options, AdmissionEnvironment environment);

  [[nodiscard]] std::string_view name() const override { return "write_budget"; }
  [[nodiscard]] RefusalReason should_admit(const JobMetadata& job,
                                           MonotonicTime now) const override;
  void on_admitted(const JobMetadata& job, MonotonicTime now) override;
  void on_refused(const JobMetadata& job, const AdmissionPolicy* refuser,
                  MonotonicTime now) override;
  void on_completed(const JobMetadata& job, const CompletedTransfer& result,
                    MonotonicTime now) override;
  void on_withdrawn(const JobMetadata& job, MonotonicTime now) override;
  /// Forgets what is in flight, as written, and the counters. The budget goes on.
  void reset() override;

  [[nodiscard]] std::vector<MetricSample> stats(MonotonicTime now) const override;
  [[nodiscard]] std::vector<MetricDefinition> metric_definitions() const override;
  [[nodiscard]] std::int64_t in_flight_chunks() const override;
  [[nodiscard]] std::vector<PolicySetting> settings() const override;
  [[nodiscard]] std::vector<GateReport> gate_reports(MonotonicTime now) const override;

  /// Format in README.md. Damaged text leaves no bytes to write, because there was an earlier life;
  /// a tier it does not name starts full.
  [[nodiscard]] std::string saved_state(MonotonicTime now, std::int64_t unix_ms) const override;
  Expected<Ok> restore_state(std::string_view text, MonotonicTime now,
                             std::int64_t unix_ms) override;

  /// nullptr: the tier is not limited.
  [[nodiscard]] const Tier* tier(TierIndex tier) const {
    return tier < tiers_.size() && tiers_[tier] ? &*tiers_[tier] : nullptr;
  }
  [[nodiscard]] const WriteBudgetOptions& options() const { return options_; }

 private:
  Tier* limited(const JobMetadata& job);
  void count_refusal(Tier& tier, const JobMetadata& job, bool really);
  /// Takes the chunks out of flight; `returned` bytes of what they had been charged go back.
  void end(const JobMetadata& job, std::uint64_t returned, MonotonicTime now);

  WriteBudgetOptions options_;
  AdmissionEnvironment environment_;
  std::vector<std::optional<Tier>> tiers_;  // by TierIndex
  InFlightTickets in_flight_;
  InFlightTickets uncharged_;  // of in_flight_: an observing budget that was empty
};

}  // namespace kv_offload
