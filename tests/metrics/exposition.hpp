#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kv_offload::test {

/// A metrics page as a scraper understands it. The parser is strict: what the text format does not
/// allow, or would make a scraper guess, is an error.
struct Exposition {
  struct Family {
    std::string type, help;
    std::vector<std::string> samples;  ///< in page order, as in `values`
  };
  std::map<std::string, Family> families;
  /// By sample as written: `name` or `name{label="value",…}`.
  std::map<std::string, double> values;

  /// Throws std::runtime_error with line number and reason.
  static Exposition parse(std::string_view text);
};

}  // namespace kv_offload::test
