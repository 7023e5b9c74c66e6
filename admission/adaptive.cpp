#include "kv_offload/admission/adaptive.hpp"

#include "kv_offload/admission/composite.hpp"
#include "kv_offload/admission/latency_cap.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload {
namespace {

/// A key of the preset: a number, or a name where `text` is not null.
struct PresetKey {
  const char* key;
  double number;
  const char* text = nullptr;
};

/// One member of the preset: what it is called in the configuration, and the keys that differ from
/// the policy's own defaults.
struct Part {
  const char* key;
  const char* type;
  std::vector<PresetKey> preset;
  bool only_if_configured = false;
};

/// Cheap and hard limits first: payoff's share is then one of what could have been stored at all.
std::vector<Part> parts() {
  return {
      // A cascade's probe costs nobody a wait, so a tier that recovers is found within two seconds.
      {"circuit_breaker", "circuit_breaker", {{"open_s", 1.0}, {"max_open_cascades_s", 1.5}}},
      // A quarter of the default's half-life and half its cooldown: from an average at the cap the
      // first store passes after 0.5 s, and all passes half a second after the pressure has ended.
      // A burst into an object store that keeps up on average reaches the default marks, and what is
      // refused then is missing for good: twice the marks.
      {"backpressure",
       "cascade_backpressure",
       {{"signal", 0, "per_mib"},
        {"remote_high_water_s", 0.1},
        {"remote_low_water_s", 0.02},
        {"decay_half_life_s", 0.5},
        {"cooldown_s", 0.5}}},
      {"backlog", "backlog", {}},
      // Slots and shares bound what promotions take; a lower cap makes requests compute what they could load.
      {"promotion_concurrency", "promotion_concurrency", {{"max_inflight_promotions", 4096}}},
      {"write_budget", "write_budget", {}, true},
      {"demand", "demand", {}},
      {"load_worth", "load_worth", {}},
      // Where the primary tier serves most, a tier's claims are rare and payoff would starve it; demand asks the
      // same question of the workload instead. What payoff would do stays visible.
      {"payoff", "payoff", {{"mode", 0, "observe"}}},
      {"lookup_gate", "lookup_gate", {{"mode", 0, "off"}}},
  };
}

/// The preset with the configured keys laid over it.
ConfigNode merged(const Part& part, const ConfigNode* configured) {
  ConfigNode node;
  ConfigNode::Object& object = *node.object();
  if (configured != nullptr) object = *configured->object();
  const auto set = [&](const char* key, const ConfigNode::Value& value) {
    object.try_emplace(key, value);  // what is configured stays
  };
  set("type", std::string(part.type));
  for (const PresetKey& preset : part.preset) {
    if (preset.text != nullptr)
      set(preset.key, std::string(preset.text));
    else if (std::floor(preset.number) == preset.number)
      set(preset.key, static_cast<std::int64_t>(preset.number));
    else
      set(preset.key, preset.number);
  }
  return node;
}

std::unique_ptr<AdmissionPolicy> make_part(const Part& part, const ConfigNode* configured,
                                           ConfigReader& reader, const AdmissionBuild& build) {
  const std::string path = reader.path_of(part.key);
  if (configured != nullptr && configured->object() == nullptr) {
    reader.fail(part.key, *configured, "an object");
    return nullptr;
  }
  for (const char* fixed : {"type", "signal"}) {
    const ConfigNode* node = configured == nullptr ? nullptr : configured->find(fixed);
    if (node == nullptr) continue;
    reader.fail(path + "." + fixed + ": " + node->text() +
                " is not allowed; expected no such key, the preset fixes it");
    return nullptr;
  }
  auto made = build.registry.make_member(merged(part, configured), path, build);
  if (!made) {
    reader.fail(made.error().detail);
    return nullptr;
  }
  // Only the library's own class can be bounded; a registry may hold another under the name.
  if (auto* pressure = dynamic_cast<CascadeBackpressure*>(made->get())) {
    (void)made->release();
    return std::make_unique<LatencyCap>(std::unique_ptr<CascadeBackpressure>(pressure),
                                        kAdaptiveRecoverySeconds);
  }
  return std::move(*made);
}

}  // namespace

std::unique_ptr<AdmissionPolicy> make_adaptive(ConfigReader& reader, const AdmissionBuild& build) {
  if (build.composite_depth >= Composite::kMaxDepth) {
    reader.fail(reader.path_of("type") + ": \"adaptive\" is not allowed here; expected at most " +
                std::to_string(Composite::kMaxDepth) + " composites inside each other");
    return nullptr;
  }
  Composite::Members members;
  for (const Part& part : parts()) {
    const ConfigNode* configured = reader.child(part.key);
    if (part.only_if_configured && configured == nullptr) continue;
    auto member = make_part(part, configured, reader, build);
    if (!member) return nullptr;
    members.push_back(std::move(member));
  }
  auto all = Composite::make(std::move(members), "adaptive");
  if (!all) {
    reader.fail(reader.path_of("type") + ": " + all.error().detail);
    return nullptr;
  }
  return std::move(*all);
}

}  // namespace kv_offload
