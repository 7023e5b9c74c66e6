#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/export.hpp"
#include "kv_offload/messages/ids.hpp"
#include "kv_offload/tiers/eviction_policy.hpp"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace kv_offload {

/// Eviction policies by name. Extension point: register your own before the first engine that names it
/// starts, and put the name under `eviction_policy`. Built in: "lru", "arc", "s3fifo".
///
/// Every member function may be called from any thread. A factory is called with the number of slots
/// of one primary tier, once per tier, outside the registry's lock.
class KV_OFFLOAD_EXPORT EvictionPolicyRegistry {
 public:
  using Factory = std::function<std::unique_ptr<EvictionPolicy>(ChunkId num_chunks)>;

  EvictionPolicyRegistry();

  /// Fails if the name is empty or taken, or the factory is empty; nothing changes then.
  Expected<Ok> register_policy(std::string name, Factory factory);
  /// Fails with one line that lists the known names; also if the factory throws or returns nothing.
  [[nodiscard]] Expected<std::unique_ptr<EvictionPolicy>> make(const std::string& name,
                                                               ChunkId num_chunks) const;
  /// Known names in alphabetical order.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Factory> factories_;
};

/// The registry that engines of this process use.
KV_OFFLOAD_EXPORT EvictionPolicyRegistry& eviction_policies();

}  // namespace kv_offload
