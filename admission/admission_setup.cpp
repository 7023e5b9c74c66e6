#include "kv_offload/admission/admission_setup.hpp"

#include "kv_offload/admission/backpressure_config.hpp"
#include "kv_offload/admission/cascade_backpressure.hpp"
#include "kv_offload/admission/composite.hpp"
#include "kv_offload/admission/promotion_concurrency.hpp"

#include <cstdio>
#include <utility>

namespace kv_offload {
namespace {

void warn_about(const AdmissionPolicy& policy, const std::string& path, bool has_implicit,
                std::vector<std::string>& warnings) {
  if (const auto* composite = dynamic_cast<const Composite*>(&policy)) {
    if (composite->members().empty())
      warnings.push_back(path + ".policies: an empty list admits everything");
    for (std::size_t i = 0; i < composite->members().size(); ++i)
      warn_about(*composite->members()[i], path + ".policies[" + std::to_string(i) + "]",
                 has_implicit, warnings);
  } else if (const auto* pressure = dynamic_cast<const CascadeBackpressure*>(&policy)) {
    const LatencyDetector* tier = pressure->detector(0);
    if (has_implicit)
      warnings.push_back(path +
                         ": cascade_backpressure watches tiers that have a backpressure of "
                         "their own; the first that refuses decides");
    if (tier != nullptr && tier->options().decay_half_life_s <= 0 &&
        tier->options().response == PressureResponse::drop)
      warnings.push_back(path +
                         ".decay_half_life_s: without decay a tier that is refused "
                         "everything stays under backpressure until a reset");
  }
}

std::string tier_line(const CascadeBackpressure& policy, TierIndex tier,
                      const LatencyDetector& detector) {
  const LatencyDetectorOptions& o = detector.options();
  const std::string unit(unit_of(policy.signal()));
  char text[256];
  std::snprintf(text, sizeof text,
                ": tier %u, signal %s, high water %g %s, low water %g %s, alpha %g, warm-up %u "
                "completions, half-life %g s",
                unsigned{tier}, to_string(policy.signal()).data(), o.high_water, unit.c_str(),
                o.low_water, unit.c_str(), o.alpha, o.warmup_completions, o.decay_half_life_s);
  std::string line = std::string(policy.name()) + text;
  if (policy.signal() == LatencySignal::wall_clock) return line;
  if (o.response == PressureResponse::drop)
    std::snprintf(text, sizeof text, ", cooldown %g s, drops all", o.cooldown_s);
  else
    std::snprintf(text, sizeof text, ", cooldown %g s, throttled with ramp factor %g", o.cooldown_s,
                  o.ramp_factor);
  return line + text;
}

void describe_into(const AdmissionPolicy& policy, std::vector<std::string>& lines) {
  if (const auto* composite = dynamic_cast<const Composite*>(&policy)) {
    lines.push_back("composite: " + std::to_string(composite->members().size()) + " policies");
    for (const auto& member : composite->members()) describe_into(*member, lines);
  } else if (const auto* pressure = dynamic_cast<const CascadeBackpressure*>(&policy)) {
    for (std::size_t i = 0; i < pressure->num_tiers(); ++i) {
      const auto tier = static_cast<TierIndex>(i);
      if (const auto* detector = pressure->detector(tier))
        lines.push_back(tier_line(*pressure, tier, *detector));
    }
  } else if (const auto* cap = dynamic_cast<const PromotionConcurrency*>(&policy)) {
    lines.push_back("promotion_concurrency: at most " +
                    std::to_string(cap->max_inflight_promotions()) + " chunks in flight");
  } else {
    lines.emplace_back(policy.name());
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
    nodes.tier_path = "secondary_tiers[" + std::to_string(i) + "].backpressure";
    auto policy = make_tier_backpressure(nodes, static_cast<TierIndex>(i), environment);
    if (!policy) return policy.error();
    if (*policy) implicit.push_back(std::move(*policy));
  }

  AdmissionSetup setup;
  warn_about(**configured, "admission_policy", !implicit.empty(), setup.warnings);
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

std::vector<std::string> describe_admission(const AdmissionPolicy& policy) {
  std::vector<std::string> lines;
  describe_into(policy, lines);
  return lines;
}

}  // namespace kv_offload
