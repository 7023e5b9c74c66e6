#include "kv_offload/admission/admission_setup.hpp"

#include "kv_offload/admission/backpressure_config.hpp"
#include "kv_offload/admission/cascade_backpressure.hpp"
#include "kv_offload/admission/composite.hpp"
#include "kv_offload/admission/latency_cap.hpp"

#include <utility>

namespace kv_offload {
namespace {

/// Every detector of the engine and where the document asks for it.
struct Gate {
  const CascadeBackpressure* policy = nullptr;
  std::string path;
};

void collect_gates(const AdmissionPolicy& policy, const std::string& path, std::vector<Gate>& gates,
                   std::vector<std::string>& warnings) {
  if (const auto* composite = dynamic_cast<const Composite*>(&policy)) {
    if (composite->members().empty())
      warnings.push_back(path + ".policies: an empty list admits everything");
    for (std::size_t i = 0; i < composite->members().size(); ++i)
      collect_gates(*composite->members()[i], path + ".policies[" + std::to_string(i) + "]", gates,
                    warnings);
  } else if (const auto* pressure = dynamic_cast<const CascadeBackpressure*>(&policy)) {
    gates.push_back({pressure, path});
  } else if (const auto* cap = dynamic_cast<const LatencyCap*>(&policy)) {
    gates.push_back({&cap->inner(), path + ".backpressure"});
  }
}

std::string tier_path(std::size_t tier) { return "secondary_tiers[" + std::to_string(tier) + "]"; }

/// Two gates on one tier: legal, and hardly ever meant.
void warn_about_several_gates(const std::vector<Gate>& gates, std::size_t num_tiers,
                              std::vector<std::string>& warnings) {
  for (std::size_t tier = 0; tier < num_tiers; ++tier) {
    std::string paths;
    std::size_t number = 0;
    for (const Gate& gate : gates) {
      if (gate.policy->detector(static_cast<TierIndex>(tier)) == nullptr) continue;
      paths += (paths.empty() ? "" : " and ") + gate.path;
      ++number;
    }
    if (number > 1)
      warnings.push_back(tier_path(tier) + ": " + std::to_string(number) +
                         " backpressure gates on one tier, " + paths +
                         ": a cascade has to pass all of them, and the first that refuses decides");
  }
}

void warn_about_latching(const std::vector<Gate>& gates, std::vector<std::string>& warnings) {
  for (const Gate& gate : gates) {
    for (std::size_t i = 0; i < gate.policy->num_tiers(); ++i) {
      const LatencyDetector* tier = gate.policy->detector(static_cast<TierIndex>(i));
      if (tier == nullptr || tier->options().decay_half_life_s > 0) continue;
      warnings.push_back(gate.path +
                         ".decay_half_life_s: without decay a tier that is refused everything "
                         "stays under backpressure until a reset");
      break;
    }
  }
}

}  // namespace

Expected<AdmissionSetup> set_up_admission(const AdmissionConfig& config,
                                          const AdmissionEnvironment& environment,
                                          const AdmissionRegistry& registry) {
  auto configured = registry.make(config.policy, "admission_policy", environment);
  if (!configured) return configured.error();

  Composite::Members implicit;
  for (std::size_t i = 0; i < environment.tiers.size(); ++i) {
    TierBackpressureNodes nodes;
    nodes.common = config.backpressure;
    nodes.tier = i < config.tier_backpressure.size() ? config.tier_backpressure[i] : nullptr;
    nodes.tier_path = tier_path(i) + ".backpressure";
    auto policy = make_tier_backpressure(nodes, static_cast<TierIndex>(i), environment);
    if (!policy) return policy.error();
    if (*policy) implicit.push_back(std::move(*policy));
  }

  AdmissionSetup setup;
  std::vector<Gate> gates;
  collect_gates(**configured, "admission_policy", gates, setup.warnings);
  for (const auto& policy : implicit) {
    const auto* pressure = dynamic_cast<const CascadeBackpressure*>(policy.get());
    if (pressure != nullptr && pressure->num_tiers() > 0)
      gates.push_back({pressure, tier_path(pressure->num_tiers() - 1) + ".backpressure"});
  }
  warn_about_several_gates(gates, environment.tiers.size(), setup.warnings);
  warn_about_latching(gates, setup.warnings);
  if (implicit.empty()) {
    setup.policy = std::move(*configured);
    return setup;
  }
  Composite::Members members;
  members.push_back(std::move(*configured));
  for (auto& policy : implicit) members.push_back(std::move(policy));
  auto all = Composite::make(std::move(members));
  if (!all) return all.error();
  setup.policy = std::move(*all);
  return setup;
}

}  // namespace kv_offload
