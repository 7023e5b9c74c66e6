#pragma once

#include "kv_offload/actors/engine_config.hpp"

#include <stdexcept>
#include <string>

namespace kv_offload {

/// A document that is valid without a secondary tier, with `more` keys in it ("" or "\"a\": 1, …").
inline std::string document(const std::string& more = "") {
  return R"({"chunk_bytes": 4096, "cpu_bytes_to_use": 4096000)" +
         (more.empty() ? "" : ", " + more) + "}";
}

/// What an operator is told about a document: the error line, or "valid".
inline std::string line_about(const std::string& json) {
  const auto config = EngineConfig::parse(json);
  if (!config) return config.error().detail;
  const auto error = config->validate();
  return error ? error->detail : "valid";
}

/// A configuration that must be good.
inline EngineConfig good_config(const std::string& json) {
  auto config = EngineConfig::parse(json);
  if (!config) throw std::runtime_error(config.error().detail);
  return *config;
}

}  // namespace kv_offload
