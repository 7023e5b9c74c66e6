#pragma once

#include "kv_offload/admission/admission_policy.hpp"
#include "kv_offload/admission/device_costs.hpp"
#include "kv_offload/admission/load_times.hpp"
#include "kv_offload/admission/recent_keys.hpp"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace kv_offload {

struct LoadWorthOptions {
  GateMode mode = GateMode::enforce;
  /// Loads pass that take the device less than this share of what computing them would.
  double device_share = 0.9;
  /// A load may take as long as computing its chunks, and this share of what prompts wait for the device anyway.
  double wait_share = 0.5;
  std::uint32_t probe_every =
      64;  ///< refused lookups until one loads all the same; doubles while it stays refused
  std::uint32_t probe_chunks = 64;       ///< that such a one loads at most
  std::uint32_t memory_chunks = 262144;  ///< offered keys that are remembered, 4 bytes each
};

/// Loads from a tier, and asks it, only as far as that is worth more than computing:
///
///  * promotions: a lookup's chunks of one tier are loaded if that costs the device less than computing them would
///    (DeviceCosts), and keeps the request no longer than computing and the wait for the device would (LoadTimes);
///  * lookups: keys that were never offered to the tier are asked for while the tier has some of them now and then (an
///    earlier life, another engine), weighed against what asking takes; nothing is asked where nothing is loaded.
///
/// What is refused is tried again now and then, a few chunks at a time, so that a tier that has become faster is found.
/// Stores pass; `demand` weighs them. One estimate per tier; every decision is one per lookup and tier.
class LoadWorth final : public AdmissionPolicy {
 public:
  struct Tier {
    LoadTimes times;
    std::uint64_t in_flight = 0;  ///< chunks
    std::uint32_t batches = 0;    ///< lookups whose loads are in flight
    double stranger_chunks =
        0;                    ///< served per lookup of keys that were never offered, moving average
    double known_chunks = 0;  ///< served per lookup of keys that were
    double probing_s = 0;     ///< per lookup that asked, moving average
    std::uint64_t stranger_answers = 0, known_answers = 0;
    std::uint64_t skippable =
        0;  ///< lookups that could have been cut short since the last that was not
    std::uint32_t cut_every = 0;  ///< the present distance; 0: probe_every
    std::uint64_t refused_since_probe = 0;
    std::uint32_t probe_every = 0;  ///< the present distance; 0: probe_every of the options
    std::uint64_t refused_lookups = 0, would_refuse_lookups = 0, probes = 0;
    std::uint64_t cut_lookups = 0, refused_for_device = 0, refused_for_time = 0;
    std::uint64_t log_moments = 0;
    bool loads = true;  ///< as last decided, for the log
  };
  enum class Verdict : std::uint8_t { load, device, time };

  LoadWorth(const LoadWorthOptions& options, AdmissionEnvironment environment);

  [[nodiscard]] std::string_view name() const override { return "load_worth"; }
  [[nodiscard]] RefusalReason should_admit(const JobMetadata& job,
                                           MonotonicTime now) const override;
  void on_admitted(const JobMetadata& job, MonotonicTime now) override;
  void on_refused(const JobMetadata& job, const AdmissionPolicy* refuser,
                  MonotonicTime now) override;
  void on_completed(const JobMetadata& job, const CompletedTransfer& result,
                    MonotonicTime now) override;
  void on_withdrawn(const JobMetadata& job, MonotonicTime now) override;
  void reset() override;

  [[nodiscard]] std::uint32_t lookup_reach(const LookupReach& lookup,
                                           MonotonicTime now) const override;
  void on_reach(const LookupReach& lookup, std::uint32_t reach, MonotonicTime now) override;
  void on_reached(const LookupReached& answer, MonotonicTime now) override;
  [[nodiscard]] bool weighs_device() const override { return options_.mode != GateMode::off; }
  [[nodiscard]] bool bounds_lookups() const override { return options_.mode == GateMode::enforce; }
  void on_computed(const ComputeSample& sample, MonotonicTime now) override {
    costs_.add(sample, now);
  }

  [[nodiscard]] std::vector<MetricSample> stats(MonotonicTime now) const override;
  [[nodiscard]] std::vector<MetricDefinition> metric_definitions() const override;
  [[nodiscard]] std::vector<PolicySetting> settings() const override;
  [[nodiscard]] std::vector<GateReport> gate_reports(MonotonicTime now) const override;
  [[nodiscard]] std::int64_t in_flight_chunks() const override;

  [[nodiscard]] const LoadWorthOptions& options() const { return options_; }
  [[nodiscard]] const Tier& tier(TierIndex tier) const { return tiers_[tier]; }
  [[nodiscard]] const DeviceCosts& costs() const { return costs_; }
  /// Of `chunks` chunks of `chunk_bytes` each, to be loaded now.
  [[nodiscard]] Verdict judge(TierIndex tier, std::uint64_t chunks,
                              std::uint64_t chunk_bytes) const;

 private:
  struct Batch {
    std::uint32_t left = 0;    ///< chunks not ended
    std::uint32_t chunks = 0;  ///< that were loaded
    std::uint64_t ahead = 0;   ///< in flight when it began
    std::uint32_t room = 0;    ///< chunks it may still have
    MonotonicTime begun;
    bool moved = false;
  };
  [[nodiscard]] double chunk_s() const;
  [[nodiscard]] bool is_probe_due(const Tier& tier) const;
  /// Up to which key the lookup is about what was offered before; first_key: nothing of it was.
  [[nodiscard]] std::uint32_t known(const LookupReach& lookup) const;
  void end(const JobMetadata& job, bool completed, MonotonicTime finished);
  [[nodiscard]] GateReport report_of(TierIndex tier) const;

  LoadWorthOptions options_;
  AdmissionEnvironment environment_;
  DeviceCosts costs_;
  RecentKeys offered_;
  std::vector<Tier> tiers_;                             // by TierIndex
  std::unordered_map<AdmissionTicket, Batch> batches_;  // bounded by the pin shares; never iterated
  std::uint64_t chunk_bytes_ = 0;                       // of the last job
};

}  // namespace kv_offload
