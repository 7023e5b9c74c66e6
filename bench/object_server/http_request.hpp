#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kv_offload::bench {

/// The head of a request. Everything points into the text that was parsed.
struct HttpRequest {
  std::string_view method;
  std::string_view target;  ///< as it came
  std::string_view path;    ///< of the target, still encoded
  std::string_view query;
  bool http_1_0 = false;
  std::vector<std::pair<std::string_view, std::string_view>> headers;  ///< names in lower case

  /// Empty, where it is missing.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

/// @param head  up to and without the empty line; names of headers become lower case in it
/// @return false: no HTTP/1.x
bool parse_head(std::string& head, HttpRequest& request);

/// Nullopt: a % without two hex digits.
std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_space = false);
/// Keeps letters, digits and - . _ ~ /
std::string percent_encoded(std::string_view text);
/// Nullopt: badly encoded. A name without = has the value "".
std::optional<std::map<std::string, std::string>> query_values(std::string_view query);
/// Nullopt: no decimal number.
std::optional<std::uint64_t> whole_number(std::string_view text);

}  // namespace kv_offload::bench
