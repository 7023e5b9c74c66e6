#pragma once

#include "kv_offload/messages/namespace_identity.hpp"
#include "kv_offload/tiers/extent/extent_config.hpp"
#include "kv_offload/tiers/extent/extent_file.hpp"
#include "kv_offload/tiers/extent/extent_shared.hpp"
#include "kv_offload/tiers/io/lane.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"
#include "kv_offload/tiers/tier_faults.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload {

/// Chunks packed into one preallocated file. Layout, order of writes and bounds: README.md
/// beside this file.
class ExtentTier final : public SecondaryTier {
 public:
  /// Replaces the backend, in tests.
  using MakeBackend = std::function<std::unique_ptr<IoBackend>(const LaneOptions&)>;

  /// @param faults  may be null
  static Expected<std::unique_ptr<SecondaryTier>> make(const ExtentConfig& config,
                                                       const NamespaceIdentity& identity,
                                                       TierEnvironment environment,
                                                       std::shared_ptr<TierFaults> faults,
                                                       MakeBackend make_backend = {});

  [[nodiscard]] TierTraits traits() const override;
  /// Opens and recovers the file on the caller's thread.
  Expected<Ok> start() override;
  bool probe(ProbeId probe, KeyList keys) override;
  [[nodiscard]] std::optional<LookupResult> lookup(const OffloadKey& key) override;
  void submit(std::vector<TransferJob> jobs) override { lane_->submit(std::move(jobs)); }
  void cancel(JobId job) override { lane_->cancel(job); }
  void cancel_queued() override { lane_->cancel_queued(); }
  bool forget(ForgetId forget, KeyList keys) override;
  bool forget_tenant(ForgetId forget, std::uint64_t salt) override;
  Expected<Ok> set_revision(const std::string& revision) override;
  std::vector<OffloadingEvent> take_events() override;
  [[nodiscard]] TierStats stats() const override;
  [[nodiscard]] std::vector<MetricDefinition> metric_definitions() const override;
  /// Writes the checkpoint if the lane ended, and closes the file.
  bool stop(Duration patience) override;

  /// Memory per slot of the file, bytes; 0 before the start.
  [[nodiscard]] double index_bytes_per_chunk() const;

 private:
  ExtentTier(ExtentConfig config, NamespaceIdentity identity, ExtentNamespace name_space,
             TierEnvironment environment, std::shared_ptr<ExtentShared> shared,
             std::unique_ptr<Lane> lane)
      : config_(std::move(config)),
        identity_(std::move(identity)),
        namespace_(std::move(name_space)),
        environment_(std::move(environment)),
        shared_(std::move(shared)),
        lane_(std::move(lane)) {}
  Expected<Ok> open_file(const std::string& backend);
  void log_start(const std::string& backend, const struct ExtentRecovery& recovery) const;
  bool leave(ForgetWork work);
  [[nodiscard]] OffloadError labelled(const OffloadError& error) const;
  void log(const std::string& line) const;

  const ExtentConfig config_;
  NamespaceIdentity identity_;
  ExtentNamespace namespace_;
  const TierEnvironment environment_;
  const std::shared_ptr<ExtentShared> shared_;
  const std::unique_ptr<Lane> lane_;
};

}  // namespace kv_offload
