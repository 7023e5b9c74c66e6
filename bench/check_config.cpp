#include "kv_offload/bench/check_config.hpp"

#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/bench/options.hpp"
#include "kv_offload/bench/report.hpp"
#include "kv_offload/messages/byte_size.hpp"

#include <algorithm>
#include <chrono>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload::bench {
namespace {

/// "1 chunk", not "1 chunks"; ms and us are no plurals, nor is "of chunks".
std::string unit_text(const EngineConfig::Effective& row) {
  if (row.value != "1" || row.unit.size() < 4 || !row.unit.ends_with('s') ||
      row.unit.find(' ') != std::string::npos)
    return row.unit;
  return row.unit.substr(0, row.unit.size() - 1);
}

/// Value and unit for people: sizes also in their largest whole unit.
std::string value_text(const EngineConfig::Effective& row) {
  if (row.unit.empty()) return row.value;
  std::string text = row.value + " " + unit_text(row);
  if (row.unit != "bytes") return text;
  if (const auto bytes = parse_bytes(row.value)) {
    const std::string human = format_bytes(*bytes);
    if (human != row.value + " B") text += " (" + human + ")";
  }
  return text;
}

void print_effective(std::ostream& out, const std::vector<EngineConfig::Effective>& rows) {
  // One long value, such as a directory, must not push every origin off the screen.
  constexpr std::size_t kColumnMax = 44;
  std::size_t keys = 0, values = 0;
  for (const auto& row : rows) {
    keys = std::max(keys, std::min(row.key.size(), kColumnMax));
    values = std::max(values, std::min(value_text(row).size(), kColumnMax));
  }
  const auto padded = [](std::string text, std::size_t width) {
    text.resize(std::max(text.size(), width), ' ');
    return text;
  };
  for (const auto& row : rows)
    out << padded(row.key, keys) << "  " << padded(value_text(row), values) << "  " << row.origin
        << '\n';
}

Json document(const EngineConfig& config, const std::vector<EngineConfig::Effective>& rows,
              const std::vector<std::string>& warnings, double wall_seconds) {
  Json json = document_head(wall_seconds);
  json["promises"] = Json::array();
  json["effective"] = Json::array();
  for (const auto& row : rows)
    json["effective"].push_back(
        {{"key", row.key}, {"value", row.value}, {"unit", row.unit}, {"origin", row.origin}});
  json["notes"] = config.notes;
  json["warnings"] = warnings;
  return json;
}

}  // namespace

int check_config(const std::string& file, std::optional<std::string> json_out, bool quiet,
                 std::ostream& out, std::ostream& err) {
  const auto start = std::chrono::steady_clock::now();
  const auto config = EngineConfig::load_file(file);
  const auto problem = config ? config->validate() : std::optional(config.error());
  if (problem) {
    err << to_string(*problem) << '\n';
    return kUsageError;
  }
  const auto rows = config->effective();
  const auto warnings = config->warnings();
  if (!quiet) {
    print_effective(out, rows);
    for (const auto& line : config->notes) out << "note: " << line << '\n';
    for (const auto& line : warnings) out << "warning: " << line << '\n';
    out << file << ": valid, " << warnings.size() << " warning" << (warnings.size() == 1 ? "" : "s")
        << '\n';
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  if (auto error = write_json(json_out, document(*config, rows, warnings, wall.count()))) {
    err << *error << '\n';
    return kUsageError;
  }
  return kHeld;
}

}  // namespace kv_offload::bench
