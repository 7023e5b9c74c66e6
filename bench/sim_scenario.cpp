#include "kv_offload/bench/sim_scenario.hpp"

#include "kv_offload/bench/sim_expression.hpp"

#include "kv_offload/actors/json_config.hpp"
#include "kv_offload/admission/admission_registry.hpp"
#include "kv_offload/bench/sim_engine.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <utility>

namespace kv_offload::bench {
namespace {

OffloadError refuse(const std::string& what) { return {OffloadErrc::invalid_config, what}; }

/// Also what no run looks at: where the numbers come from, and what the scenario is for.
constexpr const char* kSections[] = {"about",    "origins", "engine",  "tiers",    "device",
                                     "workload", "serving", "measure", "policies", "expect",
                                     "grid",     "seeds",   "judge"};

/// Of these, what a policy's `set` may change.
constexpr const char* kModelled[] = {"engine", "tiers", "device", "workload", "serving", "measure"};

/// A place of the scenario that a run looks at.
bool is_modelled(const std::string& pointer) {
  return std::any_of(std::begin(kModelled), std::end(kModelled), [&](const std::string& section) {
    return pointer.starts_with("/" + section + "/") || pointer == "/" + section;
  });
}

Expected<SimPolicy> read_policy(const Json& entry, const std::string& path) {
  SimPolicy policy;
  if (entry.is_string()) {
    policy.name = entry.get<std::string>();
    if (policy.name == "off")
      policy.offload = false;
    else
      policy.admission = Json{{"type", policy.name}};
    return policy;
  }
  if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string())
    return refuse(path + ": expected a policy's name, or an object with \"name\"");
  policy.name = entry["name"].get<std::string>();
  for (const auto& [key, value] : entry.items()) {
    if (key == "name") continue;
    if (key == "set" && value.is_object()) {
      for (const auto& [pointer, to] : value.items())
        if (!is_modelled(pointer))
          return refuse(path + ".set: \"" + pointer +
                        "\" is not allowed; expected a pointer into engine, tiers, device, "
                        "workload, serving or measure");
      policy.set = value;
    } else if (key == "policy" && value.is_string()) {
      if (value == "off")
        policy.offload = false;
      else
        policy.admission = Json{{"type", value}};
    } else if (key == "policy" && value.is_object()) {
      policy.admission = value;
    } else {
      return refuse(path + "." + key +
                    ": expected name, policy (a name or an object) or set (an object)");
    }
  }
  return policy;
}

Expected<ConfigNode> section(const Json& document, const char* name) {
  const auto it = document.find(name);
  return parse_json_config(it == document.end() ? "{}" : it->dump(), name);
}

/// The engine's own document: the section, with one tier of type "sim" for every modelled one.
Expected<EngineConfig> read_engine(const Json& document, const SimPolicy& policy) {
  Json engine = document.value("engine", Json::object());
  if (!engine.is_object()) return refuse("engine: expected an object");
  Json list = Json::array();
  const Json tiers = document.value("tiers", Json::array());
  for (const auto& tier : tiers) {
    Json entry = tier.value("engine", Json::object());
    entry["type"] = "sim";
    if (tier.contains("locality")) entry["locality"] = tier["locality"];
    list.push_back(std::move(entry));
  }
  engine["secondary_tiers"] = std::move(list);
  if (policy.admission) engine["admission_policy"] = *policy.admission;
  auto config = EngineConfig::parse(engine.dump());
  if (!config) return refuse("engine: " + to_string(config.error()));
  if (auto error = config->validate()) return refuse("engine: " + to_string(*error));
  return config;
}

std::optional<OffloadError> read_tiers(const Json& document, SimSetup& setup) {
  const auto it = document.find("tiers");
  if (it == document.end()) return std::nullopt;
  if (!it->is_array()) return refuse("tiers: expected a list of tier models");
  for (std::size_t i = 0; i < it->size(); ++i) {
    const std::string path = "tiers[" + std::to_string(i) + "]";
    if (!(*it)[i].is_object()) return refuse(path + ": expected an object, a tier model");
    if (!(*it)[i].value("engine", Json::object()).is_object())
      return refuse(path + ".engine: expected an object, the tier's own keys");
    auto node = parse_json_config((*it)[i].dump(), path);
    if (!node) return node.error();
    ConfigReader reader(*node, path);
    reader.child("engine");
    setup.tiers.push_back(read_tier_model(reader));
    if (auto error = reader.finish()) return error;
  }
  return std::nullopt;
}

}  // namespace

Expected<SimScenario> parse_scenario(Json document, std::string name) {
  if (!document.is_object()) return refuse(name + ": expected one JSON object");
  for (const auto& [key, value] : document.items()) {
    if (std::find(std::begin(kSections), std::end(kSections), key) != std::end(kSections)) continue;
    std::string known;
    for (const auto* section : kSections)
      known += (known.empty() ? "" : ", ") + std::string(section);
    return refuse(name + ": " + key + ": unknown section; known: " + known);
  }
  SimScenario scenario;
  scenario.name = std::move(name);
  const Json policies = document.value("policies", Json::array());
  const Json expectations = document.value("expect", Json::array());
  const Json grid = document.value("grid", Json::array());
  for (const auto& [key, value] : {std::pair{"policies", &policies}, {"expect", &expectations}, {"grid", &grid}})
    if (!value->is_array()) return refuse(std::string(key) + ": expected a list");
  for (std::size_t i = 0; i < policies.size(); ++i) {
    auto policy = read_policy(policies[i], "policies[" + std::to_string(i) + "]");
    if (!policy) return policy.error();
    for (const auto& other : scenario.policies)
      if (other.name == policy->name)
        return refuse("policies[" + std::to_string(i) + "].name: \"" + policy->name +
                      "\" is not allowed; expected a name that no other policy has");
    scenario.policies.push_back(std::move(*policy));
  }
  for (std::size_t i = 0; i < expectations.size(); ++i) {
    const Json& entry = expectations[i];
    if (!entry.is_object() || !entry.contains("that") || !entry["that"].is_string() ||
        !entry.value("name", Json("")).is_string())
      return refuse("expect[" + std::to_string(i) +
                    "]: expected an object with \"name\" and \"that\"");
    scenario.expectations.push_back(
        {entry.value("name", entry["that"].get<std::string>()), entry["that"].get<std::string>()});
    std::vector<std::string> names;
    for (const auto& policy : scenario.policies) names.push_back(policy.name);
    if (auto form = check_form(scenario.expectations.back().that, names); !form)
      return refuse("expect[" + std::to_string(i) + "]: " + form.error().detail);
  }
  for (const auto& pointer : grid) {
    if (!pointer.is_string()) return refuse("grid: expected a list of JSON pointers");
    scenario.grid.push_back(pointer.get<std::string>());
    Json tried = document;
    if (auto scaled = scale(tried, scenario.grid.back(), 1); !scaled) return scaled.error();
  }
  const Json seeds = document.value("seeds", Json(1));
  if (!seeds.is_number_integer() || seeds.get<std::int64_t>() < 1 ||
      seeds.get<std::int64_t>() > 10'000)
    return refuse("seeds: " + seeds.dump() +
                  " is not allowed; expected a whole number in [1, 10000]");
  scenario.seeds = seeds.get<std::uint32_t>();
  const Json judge = document.value("judge", Json("each"));
  if (judge != "each" && judge != "mean")
    return refuse("judge: " + judge.dump() +
                  " is not allowed; expected \"each\" seed or the \"mean\" of all");
  scenario.judge_mean = judge == "mean";
  scenario.document = std::move(document);
  return scenario;
}

Expected<SimScenario> load_scenario(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return refuse("--scenario: " + file + " cannot be read");
  std::ostringstream text;
  text << in.rdbuf();
  // Also finds keys given twice, which nlohmann would pass over.
  if (auto node = parse_json_config(text.str(), file); !node) return node.error();
  return parse_scenario(Json::parse(text.str(), nullptr, false), file);
}

Expected<Json> SimScenario::with(const SimPolicy& policy) const {
  Json changed = document;
  for (const auto& [pointer, value] : policy.set.items()) {
    try {
      changed[Json::json_pointer(pointer)] = value;
    } catch (const Json::exception&) {
      return refuse("policy " + policy.name + ": set: " + pointer + " is no place in the scenario");
    }
  }
  return changed;
}

Expected<SimPolicy> find_policy(const SimScenario& scenario, const std::string& name) {
  for (const auto& policy : scenario.policies)
    if (policy.name == name) return policy;
  const auto known = admission_policies().names();
  if (name == "off" || std::find(known.begin(), known.end(), name) != known.end())
    return read_policy(Json(name), "--policies");
  std::string list = "off";
  for (const auto& policy : scenario.policies) list += ", " + policy.name;
  for (const auto& other : known) list += ", " + other;
  return refuse("--policies: \"" + name + "\" is not allowed; expected one of: " + list);
}

Expected<Ok> scale(Json& document, const std::string& pointer, double factor) {
  try {
    Json& value = document.at(Json::json_pointer(pointer));
    if (value.is_number_integer()) {
      value = static_cast<std::int64_t>(std::llround(value.get<double>() * factor));
      return Ok{};
    }
    if (value.is_number_float()) {
      value = value.get<double>() * factor;
      return Ok{};
    }
  } catch (const Json::exception&) {  // said below
  }
  return refuse("grid: " + pointer + " is no number of the scenario");
}

Expected<SimSetup> build_setup(const Json& document, const SimPolicy& policy) {
  register_sim_tier_type();
  SimSetup setup;
  setup.offload = policy.offload;
  if (auto error = read_tiers(document, setup)) return *error;
  auto engine = read_engine(document, policy);
  if (!engine) return engine.error();
  setup.engine = std::move(*engine);
  const auto device = section(document, "device");
  const auto serving = section(document, "serving");
  const auto measure = section(document, "measure");
  for (const auto* node : {&device, &serving, &measure})
    if (!*node) return node->error();
  {
    ConfigReader reader(*device, "device");
    setup.device = read_device_model(reader);
    if (auto error = reader.finish()) return *error;
  }
  {
    ConfigReader reader(*serving, "serving");
    setup.sequential =
        reader.choice("order", "concurrent", {"concurrent", "sequential"}) == "sequential";
    setup.head_most_recent = reader.choice("touch", "back", {"front", "back"}) == "back";
    setup.step_tokens = static_cast<std::uint64_t>(reader.integer("step_tokens", 8192, 1, 1 << 30));
    setup.look_up_at_arrival = reader.choice("look_up", "admission", {"admission", "arrival"}) == "arrival";
    setup.offers = reader.choice("offers", "computed", {"computed", "unclaimed"}) == "unclaimed"
                       ? SimOffers::unclaimed
                       : SimOffers::computed;
    if (auto error = reader.finish()) return *error;
  }
  ConfigReader reader(*measure, "measure");
  setup.from_s = reader.number("from_s", 0, 0, 1e9);
  setup.to_s = reader.number("to_s", 0, 0, 1e9);
  if (auto error = reader.finish()) return *error;
  if (setup.to_s != 0 && setup.to_s <= setup.from_s)
    return refuse("measure.to_s: " + Json(setup.to_s).dump() +
                  " is not allowed; expected 0 (until the workload ends) or more than "
                  "from_s (" +
                  Json(setup.from_s).dump() + ")");
  const Json workload = document.value("workload", Json::object());
  if (setup.to_s == 0 && workload.is_object() && workload.value("kind", Json()) == "multi_turn" &&
      workload.value("requests", Json(0)) == 0)
    return refuse(
        "workload.requests: 0 is not allowed without measure.to_s: such a workload never ends; "
        "expected 1 or more");
  if (setup.engine.tokens_per_chunk == 0)
    return refuse("engine.tokens_per_chunk: required by a simulation");
  return setup;
}

}  // namespace kv_offload::bench
