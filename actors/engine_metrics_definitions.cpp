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

/// For a tier that is never started: what it says goes nowhere, and nobody answers it.
struct NoSink final : TierSink {
  void probed(ProbeId, std::vector<LookupResult>) override {}
  void job_outcome(JobResult) override {}
  void job_quiesced(JobId) override {}
  void lane_died(std::string) override {}
};
struct NoParent final : ParentManager {
  template <class T>
  static void refuse(const Callback<T>& callback) {
    if (callback) callback(OffloadError{OffloadErrc::expired, "the tier was never started"});
  }
  void new_request(NewRequest, Callback<OpenedRequest> callback) override { refuse(callback); }
  void lookup(RequestHandle, KeyList, LookupOptions, Callback<LookupAnswer> callback) override { refuse(callback); }
  void create_store_job(RequestHandle, KeyList, Callback<StoreJobPlan> callback) override { refuse(callback); }
  void request_finished(RequestHandle, Callback<RequestSummary> callback) override { refuse(callback); }
};

/// Asks a tier that is built, but never started.
std::vector<MetricDefinition> tier_definitions(const EngineConfig& config, std::size_t i) {
  const SecondaryTierConfig& tier = config.secondary_tiers[i];
  NoSink sink;
  NoParent parent;
  TierEnvironment environment;
  environment.sink = &sink;
  environment.parent = &parent;
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
