#include "kv_offload/tiers/locality_config.hpp"

#include <algorithm>
#include <cctype>
#include <string>

namespace kv_offload {

std::optional<Locality> read_locality(ConfigReader& reader) {
  const ConfigNode* node = reader.child("locality");
  if (node == nullptr || node->is_null()) return std::nullopt;
  std::string text;
  if (const auto* s = std::get_if<std::string>(&node->value())) text = *s;
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (text == to_string(Locality::local)) return Locality::local;
  if (text == to_string(Locality::remote)) return Locality::remote;
  reader.fail("locality", *node, "one of: LOCAL, REMOTE");
  return std::nullopt;
}

}  // namespace kv_offload
