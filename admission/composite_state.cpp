// Sections of a composite's saved state: "<place> <bytes> <name>\n" and that many bytes.
#include "kv_offload/admission/composite.hpp"

#include <charconv>
#include <map>
#include <string>

namespace kv_offload {
namespace {

OffloadError damaged() {
  return {OffloadErrc::invalid_argument,
          "admission: the saved state is damaged; what it held is lost"};
}

/// A number that ends in a blank; the text moves behind it.
bool take_number(std::string_view& text, std::size_t& number) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto used = static_cast<std::size_t>(stop - text.data());
  if (error != std::errc{} || used >= text.size() || text[used] != ' ') return false;
  text.remove_prefix(used + 1);
  return true;
}

using Sections = std::map<std::pair<std::string_view, std::size_t>, std::string_view>;

bool parse(std::string_view text, Sections& sections) {
  while (!text.empty()) {
    std::size_t place = 0, bytes = 0;
    if (!take_number(text, place) || !take_number(text, bytes)) return false;
    const auto end = text.find('\n');
    if (end == std::string_view::npos || bytes > text.size() - end - 1) return false;
    sections[{text.substr(0, end), place}] = text.substr(end + 1, bytes);
    text.remove_prefix(end + 1 + bytes);
  }
  return true;
}

}  // namespace

std::string Composite::saved_state(MonotonicTime now, std::int64_t unix_ms) const {
  std::string text;
  std::map<std::string_view, std::size_t> places;
  for (const auto& member : members_) {
    const std::size_t place = places[member->name()]++;
    const std::string state = member->saved_state(now, unix_ms);
    if (state.empty()) continue;
    text += std::to_string(place) + " " + std::to_string(state.size()) + " ";
    text += member->name();
    text += "\n" + state;
  }
  return text;
}

Expected<Ok> Composite::restore_state(std::string_view text, MonotonicTime now,
                                      std::int64_t unix_ms) {
  Sections sections;
  const bool is_whole = parse(text, sections);
  Expected<Ok> result = is_whole ? Expected<Ok>(Ok{}) : Expected<Ok>(damaged());
  std::map<std::string_view, std::size_t> places;
  for (const auto& member : members_) {
    const std::size_t place = places[member->name()]++;
    const auto it = sections.find({member->name(), place});
    // Damage is told to every member: which of them had something to lose is unknown.
    if (it == sections.end() && is_whole) continue;
    const auto restored = member->restore_state(
        it == sections.end() ? std::string_view("damaged") : it->second, now, unix_ms);
    if (!restored && result) result = restored;
  }
  return result;
}

}  // namespace kv_offload
