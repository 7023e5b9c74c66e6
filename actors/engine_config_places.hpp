#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>

namespace kv_offload {

/// Where the tier stands in a configuration.
inline std::string tier_path(std::size_t tier) {
  return "secondary_tiers[" + std::to_string(tier) + "]";
}

/// A path in the one form in which two of the same place are equal: links are followed where they exist.
inline std::string canonical_place(const std::string& path) {
  std::error_code error;
  auto canonical = std::filesystem::weakly_canonical(path, error);
  if (error) canonical = std::filesystem::path(path).lexically_normal();
  std::string place = canonical.string();
  while (place.size() > 1 && place.back() == '/') place.pop_back();
  return place;
}

}  // namespace kv_offload
