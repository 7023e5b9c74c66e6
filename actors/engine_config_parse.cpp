#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/actors/engine_config_fields.hpp"
#include "kv_offload/actors/engine_config_sections.hpp"
#include "kv_offload/actors/json_config.hpp"
#include "kv_offload/messages/byte_size.hpp"
#include "kv_offload/tiers/io_mode.hpp"
#include "kv_offload/tiers/topology/domain_plan.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

namespace kv_offload {
namespace {

using namespace config_fields;

/// A secret of the wrong type would be quoted by whoever reads it: refuse it first, unquoted.
std::optional<std::string> find_malformed_secret(const ConfigNode& node, const std::string& path) {
  if (const auto* object = node.object()) {
    for (const auto& [key, value] : *object) {
      const std::string at = path.empty() ? shortened(key) : path + "." + shortened(key);
      if (is_secret(key) && !value.is_null() && !std::holds_alternative<std::string>(value.value()))
        return at + ": this value is not allowed; expected a string";
      if (auto found = find_malformed_secret(value, at)) return found;
    }
  }
  if (const auto* list = node.list()) {
    for (std::size_t i = 0; i < list->size(); ++i)
      if (auto found = find_malformed_secret((*list)[i], path + "[" + std::to_string(i) + "]"))
        return found;
  }
  return std::nullopt;
}

void note_origins(const ConfigNode& node, const std::string& path, EngineConfig& config) {
  if (const auto* object = node.object()) {
    for (const auto& [key, value] : *object)
      note_origins(value, path.empty() ? key : path + "." + key, config);
  } else if (const auto* list = node.list(); list != nullptr && !list->empty()) {
    for (std::size_t i = 0; i < list->size(); ++i)
      note_origins((*list)[i], path + "[" + std::to_string(i) + "]", config);
  } else if (!node.is_null()) {
    config.origins[path] = "config";
  }
}

void read_domains(ConfigReader& document, EngineConfig& config) {
  config.topology = document.string("topology", "");
  if (auto error = topology_source_error(config.topology); !error.empty())
    return document.fail(error);
  const ConfigNode* node = document.child("domains");
  if (node == nullptr) return;
  if (const auto* i = std::get_if<std::int64_t>(&node->value()))
    config.domains = std::to_string(*i);
  const auto* s = std::get_if<std::string>(&node->value());
  if (s != nullptr) config.domains = *s;
  const bool is_number = std::holds_alternative<std::int64_t>(node->value());
  if ((s == nullptr && !is_number) || !is_domains(config.domains))
    document.fail("domains", *node, std::string(kDomainsForms));
}

void read_admission(ConfigReader& document, EngineConfig& config) {
  const ConfigNode* node = document.child("admission_policy");
  if (node == nullptr || node->is_null()) return;
  if (node->object() == nullptr)
    return document.fail("admission_policy", *node, "an object with a type, or null");
  config.admission_policy = *node;
}

Expected<EngineConfig> read_document(std::string_view text, const std::string& name) {
  auto root = parse_json_config(text, name);
  if (!root) return root.error();
  if (auto line = find_malformed_secret(*root, ""))
    return OffloadError{OffloadErrc::invalid_config, one_line(*line)};

  EngineConfig config;
  ConfigReader document(*root, "");
  if (root->object() != nullptr) note_origins(*root, "", config);
  config.cpu_bytes_to_use = read_bytes(document, "cpu_bytes_to_use", 0, 1, kCpuBytesMax);
  for (const auto& field : kIntegers)
    config.*field.member = static_cast<std::uint32_t>(
        document.integer(std::string(field.key), config.*field.member, field.min, field.max));
  for (const auto& field : kBooleans)
    config.*field.member = document.boolean(std::string(field.key), config.*field.member);
  config.eviction_policy = document.string("eviction_policy", config.eviction_policy);
  config.log_level = document.choice("log_level", config.log_level, choices(kLogLevels));
  config.identity.revision = document.string("revision", "");
  config.admission_state_file = document.string("admission_state_file", "");
  read_domains(document, config);
  config.io = document.choice("io", config.io, choices(kIoModeNames));
  read_admission(document, config);
  config_sections::read_primary(document, config);
  config_sections::read_deadlines(document, config);
  config_sections::read_metrics(document, config);
  config_sections::read_identity(document, config);
  config_sections::read_chunk_size(document, config);
  config_sections::read_workers(document, config);
  config_sections::read_atomic_groups(document, config);
  config_sections::read_secondary_tiers(document, config);
  config_sections::read_keys_without_effect(document, config);
  if (auto error = document.finish()) {
    error->detail = one_line(error->detail);
    return *error;
  }
  return config;
}

}  // namespace

Expected<EngineConfig> EngineConfig::parse(const std::string& json_text) {
  return read_document(json_text, "configuration");
}

Expected<EngineConfig> EngineConfig::load_file(const std::string& file) {
  const auto unreadable = [&] {
    const int code = errno;
    return OffloadError{OffloadErrc::io_error,
                        one_line(file) + ": cannot be read: " +
                            (code != 0 ? std::strerror(code) : "unknown input error")};
  };
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) return unreadable();
  // One byte beyond the parser's own bound, so that a trace given by mistake is not read whole.
  constexpr std::size_t kReadMax = (std::size_t{4} << 20) + 1;
  std::string text(kReadMax, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return unreadable();
  text.resize(static_cast<std::size_t>(in.gcount()));
  return read_document(text, one_line(file));
}

}  // namespace kv_offload
