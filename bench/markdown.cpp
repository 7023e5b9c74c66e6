#include "kv_offload/bench/markdown.hpp"

#include <fstream>

namespace kv_offload::bench {

std::optional<std::string> append_markdown(const std::optional<std::string>& file,
                                           const std::vector<TableRows>& tables) {
  if (!file) return std::nullopt;
  std::ofstream out(*file, std::ios::app);
  for (const TableRows& rows : tables) {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (const auto& cell : rows[r]) out << "| " << cell << ' ';
      out << "|\n";
      if (r > 0) continue;
      for (std::size_t c = 0; c < rows[0].size(); ++c) out << (c == 0 ? "|---" : "|--:");
      out << "|\n";
    }
    out << '\n';
  }
  out.flush();
  if (out) return std::nullopt;
  return *file + ": cannot be written";
}

}  // namespace kv_offload::bench
