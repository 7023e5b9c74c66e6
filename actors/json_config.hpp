#pragma once

#include "kv_offload/messages/config_node.hpp"
#include "kv_offload/messages/expected.hpp"

#include <string>
#include <string_view>

namespace kv_offload {

/// Reads JSON text into a ConfigNode. Errors are one line, `name:line:column: what is wrong; what was
/// expected`, and never quote the text itself, which may hold secrets. Stricter than JSON where
/// leniency hides mistakes: a key given twice is an error. Text and nesting are bounded.
///
/// @param name  what the text came from, for messages: a file name, or "configuration"
Expected<ConfigNode> parse_json_config(std::string_view text, const std::string& name);

}  // namespace kv_offload
