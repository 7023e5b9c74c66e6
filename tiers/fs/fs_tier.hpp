#pragma once

#include "kv_offload/messages/namespace_identity.hpp"
#include "kv_offload/tiers/fs/fs_config.hpp"
#include "kv_offload/tiers/fs/fs_forgetter.hpp"
#include "kv_offload/tiers/fs/fs_storage.hpp"
#include "kv_offload/tiers/fs/unrecorded_run.hpp"
#include "kv_offload/tiers/io/lane.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"
#include "kv_offload/tiers/tier_faults.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kv_offload {

/// Chunks as files of a local or shared directory. Layout, file content and digest:
/// README.md beside this file.
class FsTier final : public SecondaryTier {
 public:
  /// Replaces the backend, in tests.
  using MakeBackend = std::function<std::unique_ptr<IoBackend>(const LaneOptions&)>;

  /// @param faults  may be null
  static Expected<std::unique_ptr<SecondaryTier>> make(const FsConfig& config,
                                                       const NamespaceIdentity& identity,
                                                       TierEnvironment environment,
                                                       std::shared_ptr<TierFaults> faults,
                                                       MakeBackend make_backend = {});

  [[nodiscard]] TierTraits traits() const override;
  Expected<Ok> start() override;
  bool probe(ProbeId probe, KeyList keys) override;
  void submit(std::vector<TransferJob> jobs) override { lane_->submit(std::move(jobs)); }
  void cancel(JobId job) override { lane_->cancel(job); }
  void cancel_queued() override { lane_->cancel_queued(); }
  bool forget(ForgetId forget, KeyList keys) override;
  bool forget_tenant(ForgetId forget, std::uint64_t salt) override;
  /// Opens the directory of the new revision on the caller's thread: a few metadata calls, once.
  Expected<Ok> set_revision(const std::string& revision) override;
  std::vector<OffloadingEvent> take_events() override;
  [[nodiscard]] TierStats stats() const override;
  [[nodiscard]] std::vector<MetricDefinition> metric_definitions() const override;
  bool stop(Duration patience) override;

 private:
  FsTier(FsConfig config, NamespaceIdentity identity, FileMapper mapper,
         TierEnvironment environment, std::shared_ptr<FsShared> shared, std::unique_ptr<Lane> lane)
      : config_(std::move(config)),
        identity_(std::move(identity)),
        mapper_(std::move(mapper)),
        environment_(std::move(environment)),
        shared_(std::move(shared)),
        lane_(std::move(lane)),
        forgetter_(environment_.sink) {}
  Expected<Ok> open_directory(const std::string& backend);
  void sweep() const;
  /// Reads what is known of the files and hands it to the lane.
  Expected<Ok> open_capacity();
  Expected<std::unique_ptr<FsNamespace>> open_namespace(const FileMapper& mapper,
                                                        const std::string& revision,
                                                        std::vector<std::string>& revisions) const;
  [[nodiscard]] FsForgetter::Removed removed() const;
  [[nodiscard]] OffloadError labelled(const OffloadError& error) const;
  void log(const std::string& line) const;

  const FsConfig config_;
  NamespaceIdentity identity_;
  FileMapper mapper_;
  const TierEnvironment environment_;
  const std::shared_ptr<FsShared> shared_;
  const std::unique_ptr<Lane> lane_;
  FsForgetter forgetter_;
  std::map<std::string, UnrecordedRun>
      unrecorded_;  // without a capacity: the directories stored into
};

}  // namespace kv_offload
