#include "kv_offload/bench/simulate_defaults.hpp"

#include "kv_offload/actors/json_config.hpp"

#include <fstream>
#include <sstream>
#include <utility>

namespace kv_offload::bench {
namespace {

constexpr std::uint64_t kDefaultChunkBytes = 16 * 1024;  // as replay
constexpr std::uint64_t kDefaultPrimaryBytes = std::uint64_t{512} << 20;
constexpr std::uint32_t kTraceTokensPerChunk = 512;  // of the public traces

OffloadError refuse(const std::string& what) { return {OffloadErrc::invalid_config, what}; }

Expected<Json> read_json(const char* option, const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return refuse(std::string(option) + ": " + file + " cannot be read");
  std::ostringstream text;
  text << in.rdbuf();
  if (auto node = parse_json_config(text.str(), file); !node) return node.error();
  return Json::parse(text.str(), nullptr, false);
}

/// What the tier keeps of its entry in an engine's configuration: how the engine treats it.
Json sim_tier(const Json& entry) {
  Json tier = Json::object();
  for (const char* key : {"pin_share", "backpressure"})
    if (entry.contains(key)) tier["engine"][key] = entry[key];
  if (entry.contains("locality")) tier["locality"] = entry["locality"];
  tier["in_memory"] = true;
  return tier;
}

}  // namespace

Expected<SimScenario> default_scenario(const SimulateOptions& options) {
  Json engine = Json::object();
  if (options.engine.config_file) {
    auto read = read_json("--config", *options.engine.config_file);
    if (!read) return read.error();
    if (!read->is_object()) return refuse("--config: expected one JSON object");
    engine = std::move(*read);
  } else {
    engine["chunk_bytes"] = kDefaultChunkBytes;
    engine["cpu_bytes_to_use"] = kDefaultPrimaryBytes;
    if (options.engine.tiers.empty())
      engine["primary"] = {{"headroom_share", 0}, {"hold_share", 1}, {"max_pinned_share", 0}};
  }
  if (!engine.contains("tokens_per_chunk")) engine["tokens_per_chunk"] = kTraceTokensPerChunk;
  Json tiers = Json::array();
  const Json configured = engine.value("secondary_tiers", Json::array());
  for (const auto& entry : configured) tiers.push_back(sim_tier(entry));
  for (std::size_t i = 0; i < options.engine.tiers.size(); ++i)
    tiers.push_back(sim_tier(Json::object()));
  engine.erase("secondary_tiers");
  Json document = {
      {"engine", std::move(engine)},
      {"tiers", std::move(tiers)},
      {"serving",
       {{"order", "sequential"}, {"touch", options.head_most_recent ? "back" : "front"}}}};
  return parse_scenario(std::move(document),
                        options.trace_file.value_or(options.synthetic.value_or("")));
}

Expected<Ok> lay_options_over(const SimulateOptions& options, SimScenario& scenario) {
  Json& document = scenario.document;
  Json& engine = document["engine"];
  if (options.engine.chunk_bytes) engine["chunk_bytes"] = *options.engine.chunk_bytes;
  if (options.engine.eviction) engine["eviction_policy"] = *options.engine.eviction;
  if (options.engine.primary_chunks) {
    auto config = EngineConfig::parse([&] {
      Json bare = engine;
      bare.erase("secondary_tiers");
      return bare.dump();
    }());
    if (!config) return config.error();
    engine["cpu_bytes_to_use"] = *options.engine.primary_chunks * config->row_bytes();
  }
  if (!options.profile_file) return Ok{};
  auto profile = read_json("--profile", *options.profile_file);
  if (!profile) return profile.error();
  const Json both = profile->is_array() ? Json{{"load", *profile}, {"store", *profile}} : *profile;
  for (const auto& [key, list] : both.items())
    if (key != "load" && key != "store" && key != "probe")
      return refuse("--profile: " + key + ": unknown; expected load, store, probe");
  for (auto& tier : document["tiers"]) {
    for (const auto& [key, list] : both.items()) tier[key + "_s"] = {{"recorded", list}};
    if (both.contains("probe")) tier["in_memory"] = false;
  }
  return Ok{};
}

}  // namespace kv_offload::bench
