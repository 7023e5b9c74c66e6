#include "kv_offload/admission/backpressure_config.hpp"

#include "kv_offload/admission/cascade_backpressure.hpp"

#include <cstdio>
#include <utility>

namespace kv_offload {
namespace {

// Bounds that no sane setting meets: an hour, a day, a million completions.
constexpr double kMaxWaterMark = 3600;
constexpr double kMaxHalfLife = 86400;
constexpr std::int64_t kMaxWarmup = 1'000'000;
constexpr double kMaxRamp = 1000;

std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

/// Overwrites what the object names and leaves the rest, so that objects can be laid over others.
void read_average(ConfigReader& reader, LatencyDetectorOptions& options) {
  options.high_water = reader.number("high_water_s", options.high_water, 0, kMaxWaterMark, true);
  options.low_water = reader.number("low_water_s", options.low_water, 0, kMaxWaterMark, true);
  options.alpha = reader.number("alpha", options.alpha, 0, 1, true);
  options.warmup_completions = static_cast<std::uint32_t>(
      reader.integer("warmup_completions", options.warmup_completions, 0, kMaxWarmup));
  // Both 0 and -1 are common ways to write "never".
  options.decay_half_life_s =
      reader.number("decay_half_life_s", options.decay_half_life_s, -1, kMaxHalfLife);
}

/// Marks for object stores and remote tiers alone, where one pair for all would be too low or too high.
void read_far_marks(ConfigReader& reader, LatencyDetectorOptions& options, bool far) {
  const double high = reader.number("remote_high_water_s", options.high_water, 0, kMaxWaterMark, true);
  const double low = reader.number("remote_low_water_s", options.low_water, 0, kMaxWaterMark, true);
  if (!far) return;
  options.high_water = high;
  options.low_water = low;
}

void read_response(ConfigReader& reader, LatencyDetectorOptions& options) {
  options.cooldown_s = reader.number("cooldown_s", options.cooldown_s, 0, kMaxWaterMark);
  const ConfigNode* node = reader.child("policy");
  if (node == nullptr) return;
  ConfigReader policy(*node, reader.path_of("policy"));
  const LatencyDetectorOptions defaults = per_mib_defaults({});
  const bool drops = policy.choice("type", "throttled", {"drop", "throttled"}) == "drop";
  options.response = drops ? PressureResponse::drop : PressureResponse::throttled;
  options.ramp_factor = drops
                            ? defaults.ramp_factor
                            : policy.number("ramp_factor", defaults.ramp_factor, 0, kMaxRamp, true);
  if (const auto error = policy.finish()) reader.fail(error->detail);
}

/// Class names as the public configuration spells them, short or dotted.
void read_class_names(ConfigReader& reader, LatencyDetectorOptions& options) {
  const auto class_of = [&](const char* key, std::vector<std::string> allowed) -> std::string {
    const ConfigNode* node = reader.child(key);
    if (node == nullptr) return {};
    const auto* text = std::get_if<std::string>(&node->value());
    if (text == nullptr) return reader.choice(key, "", allowed);
    const std::string name = text->substr(text->rfind('.') + 1);
    for (const auto& a : allowed)
      if (name == a) return name;
    return reader.choice(key, "", allowed);  // its line names what is allowed
  };
  class_of("backpressure_cls", {"EMABackpressureDetector"});
  const std::string policy = class_of("policy_cls", {"DropStorePolicy", "ThrottledDropPolicy"});
  if (policy.empty()) return;
  if (reader.has("policy"))
    reader.fail(reader.path_of("policy_cls") + ": \"" + policy +
                "\" is not allowed beside policy; expected one of the two");
  options.response =
      policy == "DropStorePolicy" ? PressureResponse::drop : PressureResponse::throttled;
  options.ramp_factor = per_mib_defaults({}).ramp_factor;  // a class name brings no parameters
}

std::string marks_error(const std::string& low_path, const LatencyDetectorOptions& options,
                        const char* high_key = "high_water_s") {
  if (options.low_water <= options.high_water) return {};
  return low_path + ": " + short_text(options.low_water) + " is not allowed; expected at most " +
         high_key + " (" + short_text(options.high_water) + ")";
}

std::string label_of(const AdmissionEnvironment& environment, std::size_t tier) {
  if (tier < environment.tier_labels.size()) return environment.tier_labels[tier];
  return tier_label(static_cast<TierIndex>(tier), environment.tiers[tier].type);
}

}  // namespace

std::unique_ptr<AdmissionPolicy> make_cascade_backpressure(
    ConfigReader& reader, const AdmissionEnvironment& environment) {
  CascadeBackpressure::Options options;
  const bool per_mib =
      reader.choice("signal", "wall_clock", {"wall_clock", "per_mib"}) == "per_mib";
  options.signal = per_mib ? LatencySignal::per_mib : LatencySignal::wall_clock;
  const auto read = [&](const TierTraits& tier) {
    LatencyDetectorOptions detector = per_mib ? per_mib_defaults(tier) : wall_clock_defaults();
    read_average(reader, detector);
    if (per_mib) read_response(reader, detector);
    const bool far = per_mib && per_mib_defaults(tier).high_water != per_mib_defaults({}).high_water;
    if (per_mib) read_far_marks(reader, detector, far);
    if (reader.failed()) return detector;
    const bool far_low = far && reader.has("remote_low_water_s");
    const bool far_high = far && reader.has("remote_high_water_s");
    const std::string error =
        marks_error(reader.path_of(far_low ? "remote_low_water_s" : "low_water_s"), detector,
                    far_high ? "remote_high_water_s" : "high_water_s");
    if (!error.empty()) reader.fail(error);
    return detector;
  };
  if (environment.tiers.empty()) read({});  // the fields are checked even where nothing uses them
  for (std::size_t tier = 0; tier < environment.tiers.size(); ++tier) {
    options.tiers.emplace_back(read(environment.tiers[tier]));
    options.tier_labels.push_back(label_of(environment, tier));
  }
  if (reader.failed()) return nullptr;
  return std::make_unique<CascadeBackpressure>(std::move(options));
}

Expected<std::unique_ptr<AdmissionPolicy>> make_tier_backpressure(
    const TierBackpressureNodes& nodes, TierIndex tier, const AdmissionEnvironment& environment) {
  LatencyDetectorOptions detector = per_mib_defaults(environment.tiers[tier]);
  std::string low_path = nodes.tier_path + ".low_water_s";
  bool has_fields = false;
  for (const bool own : {false, true}) {
    const ConfigNode* node = own ? nodes.tier : nodes.common;
    if (node == nullptr || node->is_null()) continue;
    const std::string& path = own ? nodes.tier_path : nodes.common_path;
    ConfigReader reader(*node, path);
    read_average(reader, detector);
    read_response(reader, detector);
    read_class_names(reader, detector);
    if (auto error = reader.finish()) return *std::move(error);
    has_fields = has_fields || !node->object()->empty();
    if (reader.has("high_water_s") || reader.has("low_water_s"))
      low_path = reader.path_of("low_water_s");
  }
  if (nodes.tier == nullptr && !has_fields) return std::unique_ptr<AdmissionPolicy>();
  if (std::string error = marks_error(low_path, detector); !error.empty())
    return {OffloadErrc::invalid_config, std::move(error)};

  CascadeBackpressure::Options options;
  options.name = "backpressure[" + label_of(environment, tier) + "]";
  options.signal = LatencySignal::per_mib;
  options.implicit = true;
  options.tiers.resize(tier);
  options.tiers.emplace_back(detector);
  for (std::size_t i = 0; i <= tier; ++i) options.tier_labels.push_back(label_of(environment, i));
  std::unique_ptr<AdmissionPolicy> policy =
      std::make_unique<CascadeBackpressure>(std::move(options));
  return policy;
}

}  // namespace kv_offload
