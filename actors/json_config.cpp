#include "kv_offload/actors/json_config.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload {
namespace {

/// A configuration is written by people; four MiB is a file given by mistake (a trace, a model).
constexpr std::size_t kTextBytesMax = std::size_t{4} << 20;
/// ConfigNode is copied and destroyed recursively; nothing real nests deeper than ten.
constexpr std::size_t kDepthMax = 64;

/// Line and column, both from 1, of a byte in the text.
std::string position_of(std::string_view text, std::size_t offset) {
  offset = std::min(offset, text.size());
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? offset + 1 : offset - newline;
  return std::to_string(line) + ":" + std::to_string(column);
}

/// Input iterator that tells how far the parser has read, for problems that only we see.
struct TrackedChar {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at = nullptr;
  const char** reached = nullptr;

  reference operator*() const { return *at; }
  TrackedChar& operator++() {
    *reached = ++at;
    return *this;
  }
  friend bool operator==(const TrackedChar& a, const TrackedChar& b) { return a.at == b.at; }
};

/// How many characters of the text a token covers; the parser shows control characters as <U+000A>.
std::size_t token_chars(std::string_view token) {
  std::size_t n = token.size();
  for (auto at = token.find("<U+"); at != std::string_view::npos; at = token.find("<U+", at + 8))
    if (at + 8 <= token.size() && token[at + 7] == '>') n -= 7;
  return n;
}

/// Builds the tree from parser events; the parser itself keeps no recursion.
class NodeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return place(ConfigNode::Value(nullptr)); }
  bool boolean(bool v) override { return place(ConfigNode::Value(v)); }
  bool number_integer(number_integer_t v) override {
    return place(ConfigNode::Value(std::int64_t{v}));
  }
  bool number_unsigned(number_unsigned_t v) override {
    if (v <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return place(ConfigNode::Value(static_cast<std::int64_t>(v)));
    return place(ConfigNode(static_cast<double>(v),
                            std::to_string(v)));  // out of every integer range we have
  }
  bool number_float(number_float_t v, const string_t& written) override {
    // An integer beyond 64 bits arrives here, too; messages shall show it as it was written.
    if (written.find_first_not_of("-0123456789") == std::string::npos)
      return place(ConfigNode(v, written));
    return place(ConfigNode::Value(v));
  }
  bool string(string_t& v) override { return place(ConfigNode::Value(std::move(v))); }
  bool binary(binary_t&) override { return false; }  // never in JSON text
  bool start_object(std::size_t) override { return open(ConfigNode::Value(ConfigNode::Object{})); }
  bool start_array(std::size_t) override { return open(ConfigNode::Value(ConfigNode::List{})); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& v) override {
    Level& level = levels_.back();
    if (level.node.object()->contains(v)) {
      problem_ = "key \"" + shortened(v) + "\" is given twice; expected every key once";
      return false;
    }
    level.key = std::move(v);
    return true;
  }
  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::json::exception& error) override {
    problem_ = syntax_problem(error.what());
    // Only for these does the parser's token start where the token does; else its last character.
    const bool whole_token = problem_.find("invalid string") != std::string::npos ||
                             problem_.find("number") != std::string::npos ||
                             problem_.find("unexpected string") != std::string::npos;
    syntax_offset_ =
        position - std::min(position, whole_token ? token_chars(last_token) : std::size_t{1});
    return false;
  }

  [[nodiscard]] ConfigNode take_root() { return std::move(root_); }
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] std::optional<std::size_t> syntax_offset() const { return syntax_offset_; }
  /// Where the key or bracket starts that ends at `end`.
  [[nodiscard]] static std::size_t own_offset(std::string_view text, std::size_t end) {
    if (end < 2 || text[end - 1] != '"') return end - std::min<std::size_t>(end, 1);
    const std::size_t quote = text.rfind('"', end - 2);
    return quote == std::string_view::npos ? end - 1 : quote;
  }

 private:
  struct Level {
    ConfigNode node;  ///< the list or object being read
    std::string key;  ///< of the next member, in objects
  };

  bool open(ConfigNode node) {
    if (levels_.size() == kDepthMax) {
      problem_ = "nested too deeply; expected at most " + std::to_string(kDepthMax) + " levels";
      return false;
    }
    levels_.push_back({std::move(node), {}});
    return true;
  }
  bool close() {
    ConfigNode node = std::move(levels_.back().node);
    levels_.pop_back();
    return place(std::move(node));
  }
  bool place(ConfigNode&& node) {
    if (levels_.empty()) {
      root_ = std::move(node);
    } else if (auto* list = levels_.back().node.list()) {
      list->push_back(std::move(node));
    } else {
      levels_.back().node.object()->emplace(std::move(levels_.back().key), std::move(node));
    }
    return true;
  }
  /// The parser's sentence without its own position and without the text it quotes.
  static std::string syntax_problem(std::string_view what) {
    if (const auto at = what.find("while parsing "); at != std::string_view::npos) {
      std::string_view rest = what.substr(at);
      std::string expected;
      if (const auto e = rest.find("; expected "); e != std::string_view::npos)
        expected = rest.substr(e);
      for (const std::string_view cut : {"; last read: ", "; expected "})
        rest = rest.substr(0, rest.find(cut));
      return std::string(rest) + (expected.empty() ? "; expected valid JSON" : expected);
    }
    return "a number is out of range; expected one that fits a double";
  }

  std::vector<Level> levels_;
  ConfigNode root_;
  std::string problem_;
  std::optional<std::size_t> syntax_offset_;
};

}  // namespace

Expected<ConfigNode> parse_json_config(std::string_view text, const std::string& name) {
  const auto refuse = [&](const std::string& line) {
    return Expected<ConfigNode>(OffloadErrc::invalid_config, line);
  };
  if (text.size() > kTextBytesMax)
    return refuse(name + ": " + std::to_string(text.size()) + " bytes; expected at most " +
                  std::to_string(kTextBytesMax) + " bytes of JSON");
  NodeBuilder builder;
  const char* reached = text.data();
  const TrackedChar first{text.data(), &reached};
  const TrackedChar last{text.data() + text.size(), &reached};
  if (nlohmann::json::sax_parse(first, last, &builder)) return builder.take_root();
  // Our own problems are found right behind the last character of a key or a bracket.
  const std::size_t offset = builder.syntax_offset().value_or(
      builder.own_offset(text, static_cast<std::size_t>(reached - text.data())));
  return refuse(name + ":" + position_of(text, offset) + ": " + builder.problem());
}

}  // namespace kv_offload
