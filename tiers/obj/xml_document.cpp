#include "kv_offload/tiers/obj/xml_document.hpp"

#include "kv_offload/tiers/obj/trimmed.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace kv_offload {

namespace {

/// `digits` of one base up to a ';', as a number that no overflow makes small.
std::uint64_t reference_value(std::string_view digits, unsigned base) {
  constexpr std::uint64_t kTooMuch = std::uint64_t{1} << 32;
  std::uint64_t value = 0;
  for (const char c : digits) {
    unsigned digit = base;
    if (c >= '0' && c <= '9') digit = static_cast<unsigned>(c - '0');
    if (base == 16 && c >= 'a' && c <= 'f') digit = static_cast<unsigned>(c - 'a') + 10;
    if (base == 16 && c >= 'A' && c <= 'F') digit = static_cast<unsigned>(c - 'A') + 10;
    if (digit >= base) return 1;  // no reference: the parser leaves such a text as it is
    if (value < kTooMuch) value = value * base + digit;
  }
  return value;
}

/// A reference to a character that there is not. (The parser's number of one wraps around at 2^32.)
bool has_wrong_reference(std::string_view xml) {
  constexpr std::uint64_t kCharacterMax = 0x10FFFF;
  for (auto at = xml.find("&#"); at != std::string_view::npos; at = xml.find("&#", at + 2)) {
    const bool is_hex = xml.substr(at + 2).starts_with('x');
    const std::size_t first = at + (is_hex ? 3 : 2);
    const auto digits_end = xml.find_first_not_of("0123456789abcdefABCDEF", first);
    if (digits_end == std::string_view::npos || digits_end == first || xml[digits_end] != ';')
      continue;
    const auto value = reference_value(xml.substr(first, digits_end - first), is_hex ? 16 : 10);
    if (value == 0 || value > kCharacterMax) return true;
  }
  return false;
}

}  // namespace

Expected<XmlDocument> XmlDocument::parse(std::string_view xml) {
  if (xml.find('\0') != std::string_view::npos)
    return {OffloadErrc::io_error, "not an XML document: has a NUL character"};
  if (has_wrong_reference(xml))
    return {OffloadErrc::io_error, "not an XML document: refers to a character that there is not"};
  XmlDocument parsed;
  // A key of spaces alone is a key. The encoding is said here, so that nobody guesses it.
  const auto result = parsed.document_.load_buffer(
      xml.data(), xml.size(), pugi::parse_default | pugi::parse_ws_pcdata_single,
      pugi::encoding_utf8);
  if (!result)
    return {OffloadErrc::io_error, std::string("not an XML document: ") + result.description() +
                                       " at byte " + std::to_string(result.offset)};
  return Expected<XmlDocument>(std::move(parsed));
}

std::string child_text(pugi::xml_node node, const char* child) {
  std::string text;
  for (const pugi::xml_node part : node.child(child))
    if (part.type() == pugi::node_pcdata || part.type() == pugi::node_cdata) text += part.value();
  return text;
}

std::string child_word(pugi::xml_node node, const char* child) {
  return std::string(trimmed(child_text(node, child)));
}

}  // namespace kv_offload
