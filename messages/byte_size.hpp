#pragma once

#include "kv_offload/messages/config_node.hpp"
#include "kv_offload/messages/expected.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace kv_offload {

/// Units of sizes in configuration and on the command line: powers of two only, so that "GB" can
/// never be taken for the wrong one of its two meanings.
inline constexpr std::array<std::pair<std::string_view, int>, 5> kByteUnits{
    {{"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}}};
inline constexpr std::string_view kByteSizeForms = "a whole number of bytes, KiB, MiB, GiB or TiB";

/// Reads "16 KiB", "1MiB", "2GiB", "512 B" or a plain number of bytes. One-line errors.
inline Expected<std::uint64_t> parse_bytes(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    std::string shown;
    for (const char c : text.substr(0, 40))
      shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    return Expected<std::uint64_t>(OffloadErrc::invalid_argument,
                                   '"' + shown + "\" is not allowed; expected " +
                                       std::string(kByteSizeForms) + std::string(why));
  };
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) return refuse(" below 16 EiB");
  if (error != std::errc{}) return refuse("");
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (!unit.empty() && unit.front() == ' ') {
    unit.remove_prefix(1);
    if (unit.empty()) return refuse("");
  }
  if (unit.empty()) return number;
  for (const auto& [name, shift] : kByteUnits) {
    if (unit != name) continue;
    if (number > (std::numeric_limits<std::uint64_t>::max() >> shift))
      return refuse(" below 16 EiB");
    return number << shift;
  }
  return refuse("");
}

/// The size in its largest unit that keeps it whole ("16 KiB", "4097 B"); parse_bytes reads it back.
inline std::string format_bytes(std::uint64_t bytes) {
  auto best = kByteUnits.front();
  for (const auto& unit : kByteUnits)
    if (bytes != 0 && (bytes >> unit.second << unit.second) == bytes) best = unit;
  return std::to_string(bytes >> best.second) + " " + std::string(best.first);
}

/// "a whole number of bytes, … in [4 KiB, 1 TiB]", as error lines name it.
inline std::string byte_range(std::uint64_t min, std::uint64_t max) {
  std::string text(kByteSizeForms);
  for (const auto& part : {std::string(" in ["), format_bytes(min), std::string(", "),
                           format_bytes(max), std::string("]")})
    text += part;
  return text;
}

/// A size out of a configuration object: an integer or a string as parse_bytes reads it. Absent keys
/// give `fallback`; anything outside [min, max] becomes the reader's error.
/// @param meaning  what the bounds come to, for the error: ", 1 to 4 chunks"
inline std::uint64_t read_bytes(ConfigReader& reader, const std::string& key,
                                std::uint64_t fallback, std::uint64_t min, std::uint64_t max,
                                std::string_view meaning = {}) {
  const ConfigNode* node = reader.child(key);
  if (node == nullptr) return fallback;
  std::optional<std::uint64_t> bytes;
  if (const auto* i = std::get_if<std::int64_t>(&node->value()); i != nullptr && *i >= 0)
    bytes = static_cast<std::uint64_t>(*i);
  // 8e9 arrives as a double; below 2^53 every whole one is exact.
  if (const auto* d = std::get_if<double>(&node->value());
      d != nullptr && *d >= 0 && *d < 9007199254740992.0 && *d == std::floor(*d))
    bytes = static_cast<std::uint64_t>(*d);
  if (const auto* s = std::get_if<std::string>(&node->value())) {
    if (auto parsed = parse_bytes(*s)) bytes = *parsed;
  }
  if (bytes && *bytes >= min && *bytes <= max) return *bytes;
  reader.fail(key, *node, byte_range(min, max) + std::string(meaning));
  return fallback;
}

}  // namespace kv_offload
