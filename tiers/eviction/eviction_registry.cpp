#include "kv_offload/tiers/eviction/eviction_registry.hpp"

#include "kv_offload/tiers/eviction/arc_policy.hpp"
#include "kv_offload/tiers/eviction/lru_policy.hpp"
#include "kv_offload/tiers/eviction/s3fifo_policy.hpp"

#include <exception>
#include <utility>

namespace kv_offload {
namespace {

template <class Policy>
std::unique_ptr<EvictionPolicy> build(ChunkId num_chunks) {
  return std::make_unique<Policy>(num_chunks);
}

OffloadError config_error(const std::string& name, const std::string& what) {
  return {OffloadErrc::invalid_config, "eviction_policy: \"" + name + "\" " + what};
}

}  // namespace

EvictionPolicyRegistry::EvictionPolicyRegistry()
    : factories_{
          {"arc", build<ArcPolicy>}, {"lru", build<LruPolicy>}, {"s3fifo", build<S3FifoPolicy>}} {}

Expected<Ok> EvictionPolicyRegistry::register_policy(std::string name, Factory factory) {
  if (name.empty() || !factory) return config_error(name, "needs a name and a factory");
  const std::lock_guard lock(mutex_);
  if (factories_.contains(name)) return config_error(name, "is registered already");
  factories_.emplace(std::move(name), std::move(factory));
  return Ok{};
}

Expected<std::unique_ptr<EvictionPolicy>> EvictionPolicyRegistry::make(const std::string& name,
                                                                       ChunkId num_chunks) const {
  Factory factory;
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = factories_.find(name); it != factories_.end()) factory = it->second;
  }
  if (!factory) {
    std::string known;
    for (const auto& n : names()) known += (known.empty() ? "" : ", ") + n;
    return config_error(name, "is not known; expected one of: " + known);
  }
  try {  // the factory may be somebody else's code
    auto policy = factory(num_chunks);
    if (policy == nullptr)
      return config_error(name, "could not be built: its factory returned nothing");
    return policy;
  } catch (const std::exception& e) {
    return config_error(name, std::string("could not be built: ") + e.what());
  } catch (...) {
    return config_error(name, "could not be built: its factory threw");
  }
}

std::vector<std::string> EvictionPolicyRegistry::names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  out.reserve(factories_.size());
  for (const auto& [name, factory] : factories_) out.push_back(name);
  return out;
}

EvictionPolicyRegistry& eviction_policies() {
  static EvictionPolicyRegistry registry;
  return registry;
}

}  // namespace kv_offload
