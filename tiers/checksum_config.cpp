#include "kv_offload/tiers/checksum_config.hpp"

#include <string>

namespace kv_offload {

bool read_checksum(ConfigReader& reader) {
  const ConfigNode* node = reader.child("checksum");
  if (node == nullptr) return true;
  if (const auto* b = std::get_if<bool>(&node->value())) return *b;
  if (const auto* s = std::get_if<std::string>(&node->value())) {
    if (*s == "on") return true;
    if (*s == "off") return false;
  }
  reader.fail("checksum", *node, "one of: on, off, true, false");
  return true;
}

}  // namespace kv_offload
