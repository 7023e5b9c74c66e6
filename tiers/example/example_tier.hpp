#pragma once

#include "kv_offload/messages/config_node.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/digest.hpp"
#include "kv_offload/tiers/io/lane_faults.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"
#include "kv_offload/tiers/tier_faults.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

/// Parameters of an `example` tier.
struct ExampleConfig {
  std::string example_parameter;        ///< does nothing; shows where a parameter goes
  std::uint32_t chunks_max = 1U << 16;  ///< stores beyond it fail with no_space
};
Expected<ExampleConfig> parse_example_config(const ConfigNode& node, const std::string& path);

/// The smallest tier that keeps the contract: chunks in memory, every answer given inside the call.
/// The model for tiers from outside the library and the reference double in tests. A load with any
/// absent key fails as a whole. Called by one thread at a time.
class ExampleTier final : public SecondaryTier {
 public:
  ExampleTier(ExampleConfig config, TierEnvironment environment,
              std::shared_ptr<TierFaults> faults = nullptr);

  [[nodiscard]] TierTraits traits() const override;
  Expected<Ok> start() override;
  bool probe(ProbeId probe, KeyList keys) override;
  std::optional<LookupResult> lookup(const OffloadKey& key) override;
  void submit(std::vector<TransferJob> jobs) override;
  void cancel(JobId /*job*/) override {}  // nothing is ever queued
  void cancel_queued() override {}
  bool forget(ForgetId forget, KeyList keys) override;
  bool forget_tenant(ForgetId forget, std::uint64_t salt) override;
  [[nodiscard]] TierStats stats() const override { return stats_; }
  bool stop(Duration patience) override;

  /// Chunks held; for tests.
  [[nodiscard]] std::size_t size() const { return chunks_.size(); }

 private:
  struct Chunk {
    std::vector<std::byte> row;
    ChunkDigest digest;
  };
  JobResult store(const TransferJob& job);
  JobResult load(const TransferJob& job);
  [[nodiscard]] bool is_valid(const TransferJob& job) const;

  const ExampleConfig config_;
  const TierEnvironment environment_;
  const ChunkDigester digester_;
  LaneFaults faults_;
  std::map<OffloadKey, Chunk> chunks_;  // bounded by chunks_max
  TierStats stats_;
  bool is_running_ = false;
};

}  // namespace kv_offload
