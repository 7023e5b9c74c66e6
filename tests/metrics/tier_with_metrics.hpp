#pragma once

#include "kv_offload/tiers/secondary_tier_registry.hpp"

namespace kv_offload::test {

/// A tier from outside the library that stores nothing, but has a series of its own.
class TierWithMetrics : public SecondaryTier {
 public:
  static constexpr const char* kType = "test-tier-with-metrics";
  static constexpr const char* kSeries = "test_tier_temperature";

  /// Once per process; engines find it under kType.
  static void make_known() {
    TierType type;
    type.make = [](const TierConfig&, TierEnvironment) {
      return Expected<std::unique_ptr<SecondaryTier>>(std::make_unique<TierWithMetrics>());
    };
    static const bool kIsKnown = bool(secondary_tiers().register_tier(kType, std::move(type)));
    if (!kIsKnown) throw std::logic_error("registered by somebody else");
  }

  [[nodiscard]] std::vector<MetricDefinition> metric_definitions() const override {
    return {{kSeries,
             MetricKind::gauge,
             "Degrees at present, labeled by tier and side.",
             {"tier", "side"},
             {}}};
  }

  [[nodiscard]] TierTraits traits() const override { return {kType, {}, {}}; }
  Expected<Ok> start() override { throw std::logic_error("asking for metrics starts nothing"); }
  bool probe(ProbeId, KeyList) override { return false; }
  void submit(std::vector<TransferJob>) override {}
  void cancel(JobId) override {}
  void cancel_queued() override {}
  [[nodiscard]] TierStats stats() const override { return {}; }
  bool stop(Duration) override { return true; }
};

}  // namespace kv_offload::test
