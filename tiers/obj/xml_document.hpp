#pragma once

#include "kv_offload/messages/expected.hpp"

#include <pugixml.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace kv_offload {

/// A parsed answer. No DTD is read and no entity but XML's own five is replaced, so an answer means what it
/// says and is as long as it is. What a C string cannot hold is refused: a NUL, as a byte or as a reference,
/// would make one key look like another.
class XmlDocument {
 public:
  /// One line of error where `xml` is not well-formed.
  static Expected<XmlDocument> parse(std::string_view xml);

  /// The outermost element.
  [[nodiscard]] pugi::xml_node root() const { return document_.document_element(); }

 private:
  pugi::xml_document document_;
};

/// All the text right inside the first child of that name, CDATA and what stands around comments included;
/// empty where there is none.
[[nodiscard]] std::string child_text(pugi::xml_node node, const char* child);

/// Without the spaces and line ends around it, for what is a word or a number.
[[nodiscard]] std::string child_word(pugi::xml_node node, const char* child);

}  // namespace kv_offload
