#include "kv_offload/actors/engine_config_admission.hpp"
#include "kv_offload/actors/engine_metrics.hpp"
#include "kv_offload/actors/engine_metrics_series.hpp"
#include "kv_offload/admission/slow_tier_gates.hpp"
#include "kv_offload/messages/tier_traits.hpp"
#include "kv_offload/tiers/secondary_tier_registry.hpp"

#include <algorithm>

namespace kv_offload {
namespace {

/// The first to declare a name has it; two tiers of one type declare the same.
void add(std::vector<MetricDefinition>& all, std::vector<MetricDefinition> more) {
  for (auto& definition : more) {
    const auto is_same = [&](const MetricDefinition& d) { return d.name == definition.name; };
    if (std::none_of(all.begin(), all.end(), is_same)) all.push_back(std::move(definition));
  }
}

/// Asks a tier that is built, but never started.
std::vector<MetricDefinition> tier_definitions(const EngineConfig& config, std::size_t i) {
  const SecondaryTierConfig& tier = config.secondary_tiers[i];
  TierEnvironment environment;
  environment.label = tier_label(static_cast<TierIndex>(i), tier.type);
  environment.primary.row_bytes = config.row_bytes();
  environment.primary.payload_bytes = config.chunk_bytes;
  environment.now = [] { return MonotonicTime{}; };
  environment.log = [](const std::string&) {};
  const auto built = secondary_tiers().make(
      TierConfig{tier.type, tier.node, tier.path, config.identity, nullptr}, environment);
  return built ? (*built)->metric_definitions() : std::vector<MetricDefinition>{};
}

}  // namespace

std::vector<MetricDefinition> metric_definitions(const EngineConfig& config) {
  std::vector<MetricDefinition> all;
  for (const EngineSeries& series : engine_series())
    if (series.is_shown == nullptr || series.is_shown(config)) all.push_back(series.definition);
  all.push_back(left_out_definition());
  if (const auto admission = build_admission(config); admission && admission->policy != nullptr)
    // The gates that watch without being configured have nothing to show where no tier is.
    add(all, config.secondary_tiers.empty()
                 ? admission->policy->metric_definitions()
                 : admission_metric_definitions(*admission->policy, admission_environment(config)));
  for (std::size_t i = 0; i < config.secondary_tiers.size(); ++i)
    add(all, tier_definitions(config, i));
  return all;
}

}  // namespace kv_offload
