#include "kv_offload/bench/text_table.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ostream>

namespace kv_offload::bench {

void TextTable::print(std::ostream& out) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      line += i == 0 ? row[i] + space : "  " + space + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  }
}

std::string fixed(double number, int digits) {
  std::array<char, 64> text{};
  const int size = std::snprintf(text.data(), text.size(), "%.*f", digits, number);
  return {text.data(), static_cast<std::size_t>(std::clamp(size, 0, 63))};
}

std::string with_commas(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::string human_bytes(double bytes) {
  static constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return fixed(bytes, unit == 0 || bytes >= 100 ? 0 : 1) + " " + kUnits[unit];
}

std::string share_text(std::uint64_t part, std::uint64_t whole) {
  return fixed(whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole), 4);
}

std::string human_us(double us) {
  if (us >= 1e6) return fixed(us / 1e6, 2) + " s";
  if (us >= 1e3) return fixed(us / 1e3, 2) + " ms";
  return fixed(us, 1) + " us";
}

}  // namespace kv_offload::bench
