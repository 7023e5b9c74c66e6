#pragma once

#include "kv_offload/messages/byte_size.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// The words that the options of every subcommand are written in: numbers, texts, bytes and choices, with their ranges.
namespace kv_offload::bench {

/// CLI11's own range lets NaN through and wraps negative numbers into unsigned ones.
inline std::string plain_number(const std::string& text) {
  if (text.find_first_of("0123456789") == std::string::npos)
    return '"' + text + "\" is not a number";
  return {};
}

/// Seeds are counted on from, and stand in JSON documents: whole numbers that a double holds, never wrapped.
constexpr std::uint64_t kSeedMax = std::uint64_t{1} << 53U;
inline std::string seed_text(const std::string& text) {
  const bool digits = !text.empty() && text.size() <= 16 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  if (digits && std::stoull(text) <= kSeedMax) return {};
  return '"' + text + "\" is not allowed; expected a whole number in [0, " +
         std::to_string(kSeedMax) + "]";
}
inline void add_seed(CLI::App& app, std::uint64_t& target, const std::string& help) {
  app.add_option("--seed", target, help + " (default 1)")->check(seed_text);
}

template <class T>
void add_number(CLI::App& app, const std::string& name, T& target, T min, T max,
                const std::string& help) {
  app.add_option(name, target, help)->check(plain_number)->check(CLI::Range(min, max));
}

template <class T>
void add_number(CLI::App& app, const std::string& name, std::optional<T>& target, T min, T max,
                const std::string& help) {
  app.add_option_function<T>(
         name, [&target](const T& value) { target = value; }, help)
      ->check(plain_number)
      ->check(CLI::Range(min, max));
}

inline void add_text(CLI::App& app, const std::string& name, std::optional<std::string>& target,
              const std::string& help) {
  app.add_option_function<std::string>(
      name, [&target](const std::string& value) { target = value; }, help);
}

/// `target`: a number of bytes, optional or not. Whoever uses it checks its range.
template <class T>
void add_bytes(CLI::App& app, const std::string& name, T& target, const std::string& help,
               std::uint64_t min = 0,
               std::uint64_t max = std::numeric_limits<std::uint64_t>::max()) {
  app.add_option_function<std::string>(
      name,
      [&target, name, min, max](const std::string& text) {
        const auto bytes = parse_bytes(text);
        if (!bytes) throw CLI::ValidationError(name, to_string(bytes.error()));
        if (*bytes < min || *bytes > max)
          throw CLI::ValidationError(
              name, '"' + text + "\" is not allowed; expected " + byte_range(min, max));
        target = *bytes;
      },
      help);
}

template <class T>
void add_choice(CLI::App& app, const std::string& name, T& target,
                const std::vector<std::pair<std::string, T>>& values, const std::string& help) {
  std::vector<std::string> names;
  for (const auto& [text, value] : values) names.push_back(text);
  app.add_option_function<std::string>(
         name,
         [&target, values](const std::string& chosen) {
           for (const auto& [text, value] : values)
             if (text == chosen) target = value;
         },
         help)
      ->check(CLI::IsMember(names));
}

}  // namespace kv_offload::bench
