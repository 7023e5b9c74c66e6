#pragma once

#include "kv_offload/admission/admission_policy.hpp"
#include "kv_offload/admission/breaker.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

namespace kv_offload {

struct CircuitBreakerOptions {
  GateMode mode = GateMode::enforce;
  BreakerOptions cascades;    ///< nobody waits for a cascade: probed often
  BreakerOptions promotions;  ///< a request waits for its probe: probed ever more seldom
};

/// Stops transfers to and from a tier most of whose transfers fail, and lets a few probes through
/// from time to time. One breaker per tier and direction: a full disk still loads.
///
/// A job that its deadline gave up is a failure at that moment, not when its I/O ends at last.
/// Withdrawn jobs and results that speak of the data rather than of the tier (gone, foreign,
/// cancelled, of a slot that changed) count for nothing.
class CircuitBreaker final : public AdmissionPolicy {
 public:
  CircuitBreaker(const CircuitBreakerOptions& options, AdmissionEnvironment environment);

  [[nodiscard]] std::string_view name() const override { return "circuit_breaker"; }
  [[nodiscard]] RefusalReason should_admit(const JobMetadata& job,
                                           MonotonicTime now) const override;
  void on_admitted(const JobMetadata& job, MonotonicTime now) override;
  void on_refused(const JobMetadata& job, const AdmissionPolicy* refuser,
                  MonotonicTime now) override;
  void on_completed(const JobMetadata& job, const CompletedTransfer& result,
                    MonotonicTime now) override;
  void on_withdrawn(const JobMetadata& job, MonotonicTime now) override;
  void on_overdue(const JobMetadata& job, MonotonicTime now) override;
  void reset() override;

  [[nodiscard]] std::vector<MetricSample> stats(MonotonicTime now) const override;
  [[nodiscard]] std::vector<MetricDefinition> metric_definitions() const override;
  [[nodiscard]] std::int64_t in_flight_chunks() const override;
  [[nodiscard]] std::vector<PolicySetting> settings() const override;
  [[nodiscard]] std::vector<GateReport> gate_reports(MonotonicTime now) const override;

  [[nodiscard]] const Breaker& breaker(TierIndex tier, bool is_promotion) const {
    return sides_[side_of(tier, is_promotion)].breaker;
  }
  [[nodiscard]] std::uint32_t probes_in_flight(TierIndex tier, bool is_promotion) const {
    return sides_[side_of(tier, is_promotion)].probes_in_flight;
  }
  [[nodiscard]] const CircuitBreakerOptions& options() const { return options_; }

 private:
  /// One direction of one tier.
  struct Side {
    explicit Side(const BreakerOptions& options) : breaker(options) {}
    Breaker breaker;
    std::uint32_t probes_in_flight = 0;  // jobs
    std::uint64_t refused_jobs = 0, would_refuse_jobs = 0;
  };
  struct Flight {
    std::size_t side = 0;
    std::uint32_t chunks = 0;
    std::uint32_t overdue = 0;  // chunks whose failure was counted already
    bool is_probe = false;
    std::uint64_t episode = 0;
  };

  static std::size_t side_of(TierIndex tier, bool is_promotion) {
    return std::size_t{tier} * 2 + (is_promotion ? 1 : 0);
  }
  [[nodiscard]] bool passes(const JobMetadata& job, MonotonicTime now) const;
  void count(const Flight& flight, bool success, MonotonicTime now);
  void end(const JobMetadata& job);
  std::vector<Side> fresh_sides() const;

  CircuitBreakerOptions options_;
  AdmissionEnvironment environment_;
  std::vector<Side> sides_;
  std::unordered_map<AdmissionTicket, Flight> flights_;  // never iterated
  std::uint64_t chunks_ = 0;
};

}  // namespace kv_offload
