#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace kv_offload::bench {

/// Rows of words in columns: the first column left, the others right aligned.
class TextTable {
 public:
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void print(std::ostream& out) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// "1,234,567"
std::string with_commas(std::uint64_t number);
/// "12.3 MiB", in the largest unit that leaves a number of at least 1
std::string human_bytes(double bytes);
/// "0.3664"
std::string share_text(std::uint64_t part, std::uint64_t whole);
/// "12.3 us", "4.56 ms" or "1.20 s"
std::string human_us(double us);
std::string fixed(double number, int digits);

}  // namespace kv_offload::bench
