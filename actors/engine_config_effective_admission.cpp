#include "kv_offload/actors/engine_config_admission.hpp"
#include "kv_offload/actors/engine_config_effective_rows.hpp"

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace kv_offload {
namespace {

bool starts_at(const AdmissionSetting& row, const std::string& path) {
  return row.path.starts_with(path + ".");
}

/// Paths of all values in the tree.
void collect_paths(const ConfigNode& node, const std::string& path, std::set<std::string>& paths) {
  if (const auto* object = node.object()) {
    for (const auto& [key, value] : *object) collect_paths(value, path + "." + key, paths);
  } else if (const auto* list = node.list()) {
    for (std::size_t i = 0; i < list->size(); ++i)
      collect_paths((*list)[i], path + "[" + std::to_string(i) + "]", paths);
  } else if (!node.is_null()) {
    paths.insert(path);
  }
}

}  // namespace

void add_admission_rows(EffectiveRows& rows, const EngineConfig& config) {
  std::vector<AdmissionSetting> settings;
  // Where it cannot be built, validate() tells why, and the rows are what was written.
  const auto setup = build_admission(config);
  if (setup) settings = admission_settings(*setup->policy);

  std::set<std::string> written;
  collect_paths(config.admission_policy, "admission_policy", written);
  collect_paths(config.backpressure, "backpressure", written);
  const auto own_path = [](std::size_t tier) {
    return "secondary_tiers[" + std::to_string(tier) + "].backpressure";
  };
  for (std::size_t i = 0; i < config.secondary_tiers.size(); ++i)
    if (const ConfigNode* own = config.secondary_tiers[i].node.find("backpressure"))
      collect_paths(*own, own_path(i), written);

  for (const auto& row : settings) rows.covers(row);
  if (config.admission_policy.is_null())
    rows.add("admission_policy", "always_admit", true);
  else
    rows.tree("admission_policy", config.admission_policy);
  for (const auto& row : settings)
    if (starts_at(row, "admission_policy")) rows.setting(row, written);

  for (std::size_t i = 0; i < config.secondary_tiers.size(); ++i) {
    const std::string path = own_path(i);
    bool has_detector = false;
    for (const auto& row : settings) {
      if (!starts_at(row, path)) continue;
      rows.setting(row, written);
      has_detector = true;
    }
    if (setup && !has_detector) rows.add(path, "(none)", true);
    const ConfigNode* own = config.secondary_tiers[i].node.find("backpressure");
    if (own != nullptr && !setup) rows.tree(path, *own);
  }
  if (!config.backpressure.is_null()) rows.tree("backpressure", config.backpressure);
}

}  // namespace kv_offload
