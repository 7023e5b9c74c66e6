#include "kv_offload/actors/engine_config_admission.hpp"

#include "kv_offload/messages/tier_traits.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace kv_offload {
namespace {

/// `locality` is a key of most tiers; any case is welcome.
std::optional<Locality> locality_of(const ConfigNode& node) {
  const ConfigNode* value = node.find("locality");
  const auto* text = value != nullptr ? std::get_if<std::string>(&value->value()) : nullptr;
  if (text == nullptr) return std::nullopt;
  std::string upper;
  for (const char c : *text) upper += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  for (const Locality locality : {Locality::local, Locality::remote})
    if (upper == to_string(locality)) return locality;
  return std::nullopt;
}

}  // namespace

AdmissionEnvironment admission_environment(const EngineConfig& config) {
  AdmissionEnvironment environment;
  environment.tokens_per_chunk = std::max<std::uint32_t>(1, config.tokens_per_chunk);
  environment.chunk_bytes = config.row_bytes();
  environment.compute_tokens_per_s = config.compute_tokens_per_s;
  environment.store_deadline_s = to_seconds(config.deadlines.store);
  for (std::size_t i = 0; i < config.secondary_tiers.size(); ++i) {
    const SecondaryTierConfig& tier = config.secondary_tiers[i];
    environment.tiers.push_back({tier.type, std::nullopt, locality_of(tier.node)});
    environment.tier_labels.push_back(tier_label(static_cast<TierIndex>(i), tier.type));
  }
  return environment;
}

Expected<AdmissionSetup> build_admission(const EngineConfig& config) {
  AdmissionConfig parts;
  parts.policy = &config.admission_policy;
  if (!config.backpressure.is_null()) parts.backpressure = &config.backpressure;
  for (const auto& tier : config.secondary_tiers)
    parts.tier_backpressure.push_back(tier.node.find("backpressure"));
  return set_up_admission(parts, admission_environment(config));
}

}  // namespace kv_offload
