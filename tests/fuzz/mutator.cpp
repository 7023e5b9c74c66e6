#include "kv_offload/tests/fuzz/mutator.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace kv_offload::fuzz {

namespace {

using namespace std::string_literals;

// Ends of numbers, of characters and of structures.
const std::vector<std::string> kTrickyWords = {
    "0",
    "-1",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "\0"s,
    "\r\n",
    "\n\n",
    "\x7f",
    "\xC3",
    "\xF4\x90",
    "\xEF\xBB\xBF",
    "&#0;",
    "&#x0;",
    "&#4294967296;",
    "&#xD800;",
    "&amp;",
    "&a;",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<?",
    "?>",
    "<!DOCTYPE a [",
    "<!ENTITY a",
    "]>",
    "</",
    "/>",
    "%00",
    "%2",
    "%",
    "+",
    " ",
    "\t",
    "=",
    "[",
    "]",
    "#",
    ";",
    ":",
    "HTTP/1.1 200 OK\r\n",
    "9999-12-31T23:59:60Z",
    "0000-00-00T00:00:00Z",
};

bool is_word_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

/// Everything that stands between tags, spaces and other signs in the corpus.
std::vector<std::string> words_of(const std::vector<std::string>& corpus) {
  std::set<std::string> words(kTrickyWords.begin(), kTrickyWords.end());
  for (const std::string& text : corpus) {
    for (auto at = text.begin(); at != text.end();) {
      const auto first = std::find_if(at, text.end(), is_word_byte);
      at = std::find_if_not(first, text.end(), is_word_byte);
      if (at - first >= 2 && at - first <= 40) words.emplace(first, at);
    }
  }
  return {words.begin(), words.end()};
}

}  // namespace

Mutator::Mutator(std::vector<std::string> corpus)
    : corpus_(std::move(corpus)), words_(words_of(corpus_)) {}

std::string Mutator::text(std::uint64_t seed) const {
  std::mt19937_64 random(seed);
  std::string text = corpus_[random() % corpus_.size()];
  // Mostly few faults: a text that is wrong everywhere is refused at its first byte.
  const auto num_faults = 1 + random() % (random() % 8 == 0 ? 32 : 4);
  for (std::uint64_t i = 0; i < num_faults; ++i) mutate(text, random);
  if (text.size() > kBytesMax) text.resize(kBytesMax);
  return text;
}

void Mutator::mutate(std::string& text, std::mt19937_64& random) const {
  const auto below = [&](std::size_t bound) { return bound == 0 ? 0 : random() % bound; };
  const std::size_t at = below(text.size() + 1);
  const std::size_t length = std::min(1 + below(below(2) == 0 ? 8 : 400), text.size() - at);
  switch (below(9)) {
    case 0:
    case 1:
      if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      break;
    case 2:
      if (at < text.size()) text[at] = static_cast<char>(random());
      break;
    case 3: text.resize(at); break;
    case 4: text.erase(at, length); break;
    case 5: text.insert(below(text.size() + 1), text.substr(at, length)); break;
    case 6: {  // the rest is another text's
      const std::string& other = corpus_[below(corpus_.size())];
      text.replace(at, std::string::npos, other, below(other.size()));
      break;
    }
    case 7: text.insert(at, words_[below(words_.size())]); break;
    default: {  // another word
      const auto first =
          std::find_if(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), is_word_byte);
      const auto last = std::find_if_not(first, text.end(), is_word_byte);
      text.replace(first, last, words_[below(words_.size())]);
    }
  }
}

}  // namespace kv_offload::fuzz
