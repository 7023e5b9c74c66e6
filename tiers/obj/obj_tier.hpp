#pragma once

#include "kv_offload/messages/namespace_identity.hpp"
#include "kv_offload/tiers/obj/obj_config.hpp"
#include "kv_offload/tiers/obj/obj_lane.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"
#include "kv_offload/tiers/tier_faults.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kv_offload {

/// Chunks as objects of an S3 bucket. Names, metadata and behaviour: README.md beside this file.
class ObjTier final : public SecondaryTier {
 public:
  /// What tests put in the place of the process' own.
  struct Surroundings {
    Environment environment = process_environment;
    std::function<std::chrono::sys_seconds()> wall_clock;  ///< empty: this machine's
    std::uint64_t seed = 0;                                ///< 0: drawn
  };

  /// @param faults  may be null
  static Expected<std::unique_ptr<SecondaryTier>> make(const ObjConfig& config,
                                                       const NamespaceIdentity& identity,
                                                       TierEnvironment environment,
                                                       std::shared_ptr<TierFaults> faults) {
    return make(config, identity, std::move(environment), std::move(faults), Surroundings{});
  }
  static Expected<std::unique_ptr<SecondaryTier>> make(const ObjConfig& config,
                                                       const NamespaceIdentity& identity,
                                                       TierEnvironment environment,
                                                       std::shared_ptr<TierFaults> faults,
                                                       Surroundings surroundings);

  [[nodiscard]] TierTraits traits() const override;
  Expected<Ok> start() override;
  bool probe(ProbeId probe, KeyList keys) override { return lane_->probe(probe, std::move(keys)); }
  void submit(std::vector<TransferJob> jobs) override { lane_->submit(std::move(jobs)); }
  void cancel(JobId job) override { lane_->cancel(job); }
  void cancel_queued() override { lane_->cancel_queued(); }
  bool forget(ForgetId forget, KeyList keys) override { return lane_->forget({forget, std::move(keys), std::nullopt}); }
  bool forget_tenant(ForgetId forget, std::uint64_t salt) override { return lane_->forget({forget, {}, salt}); }
  Expected<Ok> set_revision(const std::string& revision) override;
  std::vector<OffloadingEvent> take_events() override;
  [[nodiscard]] TierStats stats() const override;
  [[nodiscard]] std::vector<MetricDefinition> metric_definitions() const override;
  bool stop(Duration patience) override { return lane_->stop(patience); }

 private:
  ObjTier(ObjConfig config, NamespaceIdentity identity, TierEnvironment environment, std::unique_ptr<ObjLane> lane)
      : config_(std::move(config)),
        identity_(std::move(identity)),
        environment_(std::move(environment)),
        lane_(std::move(lane)) {}
  void log(const std::string& line) const;
  void warn(const std::string& line) const;

  const ObjConfig config_;
  NamespaceIdentity identity_;
  const TierEnvironment environment_;
  const std::unique_ptr<ObjLane> lane_;
};

}  // namespace kv_offload
