// What a write budget hands to its caller to keep over a restart, format in README.md.
#include "kv_offload/admission/text_format.hpp"
#include "kv_offload/admission/write_budget.hpp"

#include <charconv>
#include <cmath>
#include <map>
#include <string>

namespace kv_offload {
namespace {

constexpr std::string_view kHeader = "write_budget 1 ";
constexpr std::string_view kTier = "tier ";
constexpr std::string_view kEnd = "end";

/// Cuts the text up to the next `stop`, which is dropped; nothing if there is none.
bool cut(std::string_view& text, char stop, std::string_view& part) {
  const auto at = text.find(stop);
  if (at == std::string_view::npos) return false;
  part = text.substr(0, at);
  text.remove_prefix(at + 1);
  return true;
}

bool read_number(std::string_view text, std::int64_t& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stop == end && !text.empty();
}

struct SavedTier {
  std::int64_t tokens = 0;
  std::int64_t written_ever = 0;
};

bool parse(std::string_view text, std::int64_t& unix_ms, std::map<std::string, SavedTier>& tiers) {
  std::string_view line, part;
  if (!cut(text, '\n', line) || !line.starts_with(kHeader)) return false;
  if (!read_number(line.substr(kHeader.size()), unix_ms) || unix_ms < 0) return false;
  while (cut(text, '\n', line)) {
    if (line == kEnd) return text.empty();
    if (!line.starts_with(kTier)) return false;
    line.remove_prefix(kTier.size());
    SavedTier tier;
    if (!cut(line, ' ', part) || !read_number(part, tier.tokens)) return false;
    if (!cut(line, ' ', part) || !read_number(part, tier.written_ever)) return false;
    if (tier.written_ever < 0 || line.empty()) return false;
    if (!tiers.try_emplace(std::string(line), tier).second) return false;
  }
  return false;  // no end: cut short
}

}  // namespace

std::string WriteBudget::saved_state(MonotonicTime now, std::int64_t unix_ms) const {
  std::string text = std::string(kHeader) + std::to_string(unix_ms) + "\n";
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    if (!tiers_[i]) continue;
    text += formatted("tier %lld %lld ",
                      static_cast<long long>(std::floor(tiers_[i]->bucket.tokens(now))),
                      static_cast<long long>(tiers_[i]->written_ever));
    text += environment_.label_of(i) + "\n";
  }
  return text + std::string(kEnd) + "\n";
}

Expected<Ok> WriteBudget::restore_state(std::string_view text, MonotonicTime now,
                                        std::int64_t unix_ms) {
  if (text.empty()) return Ok{};
  std::int64_t saved_at = 0;
  std::map<std::string, SavedTier> saved;
  if (!parse(text, saved_at, saved)) {
    for (auto& tier : tiers_)
      if (tier) tier->bucket.restore(0, 0, now);
    return {OffloadErrc::invalid_argument,
            "write_budget: its saved state is damaged or of another version; the budget starts "
            "empty"};
  }
  // A clock that was set back gives nothing.
  const double away_s = unix_ms > saved_at ? static_cast<double>(unix_ms - saved_at) / 1000 : 0;
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    const auto it = saved.find(environment_.label_of(i));
    if (!tiers_[i] || it == saved.end()) continue;
    tiers_[i]->bucket.restore(static_cast<double>(it->second.tokens), away_s, now);
    tiers_[i]->written_ever = static_cast<double>(it->second.written_ever);
  }
  return Ok{};
}

}  // namespace kv_offload
