#include "kv_offload/admission/admission_settings.hpp"

#include "kv_offload/admission/cascade_backpressure.hpp"
#include "kv_offload/admission/composite.hpp"
#include "kv_offload/admission/latency_cap.hpp"
#include "kv_offload/admission/promotion_concurrency.hpp"

#include <cstdio>
#include <utility>

namespace kv_offload {
namespace {

using Settings = std::vector<AdmissionSetting>;

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

/// The fields of one detector; `path` and `sources` hold keys only.
Settings fields_of(const LatencyDetectorOptions& options, LatencySignal signal) {
  const bool per_mib = signal == LatencySignal::per_mib;
  const std::string latency = per_mib ? "s/MiB" : "s";
  const bool is_drop = options.response == PressureResponse::drop;
  Settings fields;
  const auto add = [&](const std::string& key, std::string value, const std::string& unit) {
    fields.push_back({key, std::move(value), unit, "", {key}});
  };
  add("high_water_s", text_of(options.high_water), latency);
  add("low_water_s", text_of(options.low_water), latency);
  for (auto& mark : fields) mark.preset = options.preset;
  add("alpha", text_of(options.alpha), "");
  add("warmup_completions", std::to_string(options.warmup_completions), "completions");
  add("decay_half_life_s", text_of(options.decay_half_life_s), "s");
  if (!per_mib) return fields;
  add("cooldown_s", text_of(options.cooldown_s), "s");
  add("policy.type", is_drop ? "drop" : "throttled", "");
  fields.back().sources.emplace_back("policy_cls");
  if (!is_drop) add("policy.ramp_factor", text_of(options.ramp_factor), "x high_water_s");
  return fields;
}

/// A policy that watches every tier: one row where all tiers agree.
void add_configured(const CascadeBackpressure& policy, const std::string& path, Settings& settings) {
  settings.push_back(
      {path + ".signal", std::string(to_string(policy.signal())), "", "", {path + ".signal"}});
  std::vector<std::pair<std::string, Settings>> tiers;
  for (std::size_t i = 0; i < policy.num_tiers(); ++i)
    if (const auto* detector = policy.detector(static_cast<TierIndex>(i)))
      tiers.emplace_back(policy.label_of(static_cast<TierIndex>(i)),
                         fields_of(detector->options(), policy.signal()));
  if (tiers.empty()) return;
  for (std::size_t field = 0; field < tiers.front().second.size(); ++field) {
    bool all_agree = true;
    for (const auto& tier : tiers)
      all_agree = all_agree && tier.second[field].value == tiers.front().second[field].value;
    for (auto& [label, fields] : tiers) {
      AdmissionSetting row = std::move(fields[field]);
      row.path = path + "." + row.path + (all_agree ? "" : "[" + label + "]");
      for (auto& source : row.sources) source = path + "." + source;
      settings.push_back(std::move(row));
      if (all_agree) break;
    }
  }
}

/// A tier's own detector: its object wins field by field over the common one.
void add_implicit(const CascadeBackpressure& policy, Settings& settings) {
  const auto tier = static_cast<TierIndex>(policy.num_tiers() - 1);
  const LatencyDetector* detector = policy.detector(tier);
  if (detector == nullptr) return;
  const std::string path = "secondary_tiers[" + std::to_string(tier) + "].backpressure";
  const auto add = [&](AdmissionSetting row) {
    std::vector<std::string> sources;
    for (const std::string& object : {path, std::string("backpressure")})
      for (const auto& key : row.sources) sources.push_back(object + "." + key);
    row.path = path + "." + row.path;
    row.sources = std::move(sources);
    settings.push_back(std::move(row));
  };
  add({"backpressure_cls", "EMABackpressureDetector", "", "", {"backpressure_cls"}});
  for (auto& row : fields_of(detector->options(), policy.signal())) add(row);
}

void add_settings(const AdmissionPolicy& policy, const std::string& path, Settings& settings) {
  if (const auto* composite = dynamic_cast<const Composite*>(&policy)) {
    std::size_t number = 0;
    for (const auto& member : composite->members()) {
      // The preset's members are written as keys of its own object.
      const std::string name = member->name() == "cascade_backpressure" ? "backpressure" : std::string(member->name());
      const bool is_preset = composite->name() == "adaptive";
      add_settings(*member, path + (is_preset ? "." + name : ".policies[" + std::to_string(number++) + "]"), settings);
    }
  } else if (const auto* cap = dynamic_cast<const LatencyCap*>(&policy)) {
    add_settings(cap->inner(), path, settings);
  } else if (const auto* pressure = dynamic_cast<const CascadeBackpressure*>(&policy)) {
    if (pressure->is_implicit())
      add_implicit(*pressure, settings);
    else
      add_configured(*pressure, path, settings);
  } else if (const auto* concurrency = dynamic_cast<const PromotionConcurrency*>(&policy)) {
    const std::string key = path + ".max_inflight_promotions";
    settings.push_back({key, std::to_string(concurrency->max_inflight_promotions()), "chunks", "", {key}});
  } else {
    for (const PolicySetting& row : policy.settings()) {
      const std::string at = path + "." + row.key;
      settings.push_back({at, row.value, row.unit, "", {at}});
    }
  }
}

/// Is this the composite around the configured policy and the tiers' own, which no document writes?
bool has_implicit(const Composite& composite) {
  if (composite.members().empty()) return false;
  const auto* last = dynamic_cast<const CascadeBackpressure*>(composite.members().back().get());
  return last != nullptr && last->is_implicit();
}

}  // namespace

std::vector<AdmissionSetting> admission_settings(const AdmissionPolicy& policy) {
  Settings settings;
  const auto* all = dynamic_cast<const Composite*>(&policy);
  if (all != nullptr && has_implicit(*all)) {
    for (const auto& member : all->members()) add_settings(*member, "admission_policy", settings);
  } else {
    add_settings(policy, "admission_policy", settings);
  }
  return settings;
}

}  // namespace kv_offload
