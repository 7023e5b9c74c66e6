#pragma once

#include "kv_offload/messages/config_node.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/export.hpp"
#include "kv_offload/messages/namespace_identity.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"
#include "kv_offload/tiers/tier_faults.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

/// One entry of `secondary_tiers` in the configuration.
struct TierConfig {
  std::string type;  ///< name in the registry
  ConfigNode node;   ///< the whole entry, `type` included
  std::string path;  ///< where it stands: "secondary_tiers[0]"
  NamespaceIdentity identity;
  std::shared_ptr<TierFaults> faults;  ///< may be null
  /// Of a chunk in the primary tier, for ranges that depend on it; 0: not known.
  std::uint64_t row_bytes = 0;
};

/// How one kind of tier is built. Both functions may be called from any thread.
struct TierType {
  /// Builds it; opens nothing yet (SecondaryTier::start does). Also called for tiers that are never started,
  /// to learn what they declare: their sink and parent lead nowhere.
  std::function<Expected<std::unique_ptr<SecondaryTier>>(const TierConfig&, TierEnvironment)> make;
  /// The first thing wrong with the parameters; looks at nothing else. May be empty: anything goes.
  std::function<std::optional<OffloadError>(const TierConfig&)> validate;
};

/// Kinds of secondary tiers by name. Extension point: an embedder registers its own before it starts an
/// engine. Any thread.
class KV_OFFLOAD_EXPORT SecondaryTierRegistry {
 public:
  /// Fails if the name is empty or taken.
  Expected<Ok> register_tier(const std::string& type, TierType tier);

  [[nodiscard]] std::optional<OffloadError> validate(const TierConfig& config) const;
  [[nodiscard]] Expected<std::unique_ptr<SecondaryTier>> make(const TierConfig& config,
                                                              TierEnvironment environment) const;
  /// Sorted.
  [[nodiscard]] std::vector<std::string> types() const;

 private:
  [[nodiscard]] Expected<TierType> find(const TierConfig& config) const;

  mutable std::mutex mutex_;
  std::map<std::string, TierType> types_;
};

/// The registry of this process, with the built-in tiers "fs", "extent", "obj" and "example".
KV_OFFLOAD_EXPORT SecondaryTierRegistry& secondary_tiers();

}  // namespace kv_offload
