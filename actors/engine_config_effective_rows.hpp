#pragma once

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/actors/engine_config_fields.hpp"
#include "kv_offload/admission/admission_settings.hpp"

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Inside EngineConfig::effective only.
namespace kv_offload {

/// Collects rows and finds out where each value came from.
class EffectiveRows {
 public:
  explicit EffectiveRows(const EngineConfig& config) : config_(config) {}

  /// A configurable value. Unmentioned in the document it is the default, or set by the program.
  /// @param source  path in the document, where it is not `key`
  void add(const std::string& key, std::string value, bool is_default, std::string_view unit = "",
           const std::string& source = "") {
    const auto origin = config_.origins.find(source.empty() ? key : source);
    push(key, std::move(value), unit,
         origin != config_.origins.end() ? origin->second
         : is_default                    ? "default"
                                         : "program");
  }
  template <class T>
  void number(const std::string& key, const T& value, const T& by_default, std::string_view unit) {
    add(key, std::to_string(value), value == by_default, unit);
  }
  void share(const std::string& key, double value, double by_default) {
    add(key, config_fields::number_text(value), value == by_default, "of chunks");
  }
  void flag(const std::string& key, bool value, bool by_default) {
    add(key, value ? "true" : "false", value == by_default);
  }
  void text(const std::string& key, const std::string& value, const std::string& by_default) {
    add(key, value.empty() ? "(empty)" : value, value == by_default);
  }
  void derived(const std::string& key, std::string value, std::string_view unit,
               const std::string& how) {
    push(key, std::move(value), unit, "derived: " + how);
  }
  /// What a share of the primary tier comes to.
  void share_chunks(const std::string& key, double share) {
    derived(key, std::to_string(config_.share_chunks(share)), "chunks",
            config_fields::number_text(share) + " x " +
                config_fields::counted(config_.num_chunks(), "chunk"));
  }
  /// A value with defaults and presets filled in. The first of its sources among the `written` paths
  /// has set it.
  void setting(const AdmissionSetting& row, const std::set<std::string>& written) {
    std::string origin = row.preset.empty() ? "default" : "default for " + row.preset + " tiers";
    for (const auto& source : row.sources) {
      if (!written.contains(source)) continue;
      const auto at = config_.origins.find(source);
      origin = (at != config_.origins.end() ? at->second : "program") +
               (source == row.path ? "" : ": " + source);
      break;
    }
    push(row.path, row.value, row.unit, std::move(origin));
  }
  /// Its sources are shown as a setting: tree() leaves them out.
  void covers(const AdmissionSetting& row) {
    covered_.insert(row.sources.begin(), row.sources.end());
  }
  /// Keys that a tier or policy reads itself, as they were written; secrets only as "(set)". What
  /// is covered by settings is left out.
  void tree(const std::string& path, const ConfigNode& node) {
    if (covered_.contains(path)) return;
    if (const auto* object = node.object()) {
      for (const auto& [key, value] : *object) {
        if (config_fields::is_secret(key)) {
          add(path + "." + key, "(set)", false);
        } else {
          tree(path + "." + key, value);
        }
      }
      return;
    }
    if (const auto* list = node.list()) {
      for (std::size_t i = 0; i < list->size(); ++i)
        tree(path + "[" + std::to_string(i) + "]", (*list)[i]);
      if (list->empty()) add(path, "[]", false);
      return;
    }
    const auto* string = std::get_if<std::string>(&node.value());
    add(path, string != nullptr ? *string : node.text(), false);
  }

  std::vector<EngineConfig::Effective> take() { return std::move(rows_); }

 private:
  void push(const std::string& key, std::string value, std::string_view unit, std::string origin) {
    rows_.push_back(
        {config_fields::one_line(key), config_fields::one_line(std::move(value)), std::string(unit), std::move(origin)});
  }

  const EngineConfig& config_;
  std::vector<EngineConfig::Effective> rows_;
  std::set<std::string> covered_;
};

/// Every secondary tier but its `backpressure`.
void add_tier_rows(EffectiveRows& rows, const EngineConfig& config);

/// The admission policy and every tier's `backpressure`, resolved.
void add_admission_rows(EffectiveRows& rows, const EngineConfig& config);

}  // namespace kv_offload
