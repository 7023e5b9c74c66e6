#pragma once

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/tiers/tier_faults.hpp"

#include <memory>
#include <string>
#include <utility>

namespace kv_offload::test {

inline SecondaryTierConfig fs_tier(const std::string& root,
                                   std::shared_ptr<TierFaults> faults = nullptr) {
  SecondaryTierConfig tier;
  tier.type = "fs";
  ConfigNode::Object keys;
  keys.emplace("root_dir", ConfigNode(ConfigNode::Value(root)));
  tier.node = ConfigNode(ConfigNode::Value(keys));
  tier.faults = std::move(faults);
  return tier;
}

}  // namespace kv_offload::test
