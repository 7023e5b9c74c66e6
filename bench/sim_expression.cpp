#include "kv_offload/bench/sim_expression.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>

namespace kv_offload::bench {
namespace {

/// Recursive descent over one line; keeps the first error and goes on with zeros.
class Reader {
 public:
  /// `runs` null: every figure of the policies in `policies` is 1, for the form alone.
  Reader(const std::string& text, const Json* runs, const std::vector<std::string>& policies)
      : text_(text), runs_(runs), policies_(policies) {}

  Expected<SimVerdict> inequality() {
    SimVerdict verdict;
    verdict.left = sum();
    const std::string op = comparison();
    verdict.right = sum();
    skip();
    if (at_ != text_.size()) fail("something behind the right side");
    if (error_)
      return OffloadError{OffloadErrc::invalid_config, "expect: \"" + text_ + "\": " + *error_};
    verdict.held = op == "<="   ? verdict.left <= verdict.right
                   : op == ">=" ? verdict.left >= verdict.right
                   : op == "<"  ? verdict.left < verdict.right
                   : op == ">"  ? verdict.left > verdict.right
                                : verdict.left == verdict.right;
    return verdict;
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void fail(const std::string& what) {
    if (!error_) error_ = what;
    at_ = text_.size();
  }
  std::string comparison() {
    skip();
    for (const char* op : {"<=", ">=", "==", "<", ">"})
      if (text_.compare(at_, std::string(op).size(), op) == 0) {
        at_ += std::string(op).size();
        return op;
      }
    fail("no comparison; expected <=, >=, ==, < or >");
    return "==";
  }
  double sum() {
    double value = product();
    for (;;) {
      if (take('+'))
        value += product();
      else if (take('-'))
        value -= product();
      else
        return value;
    }
  }
  double product() {
    double value = factor();
    for (;;) {
      if (take('*')) {
        value *= factor();
      } else if (take('/')) {
        const double by = factor();
        if (by == 0 && runs_ != nullptr) fail("a division by zero");
        value = by == 0 ? 0 : value / by;
      } else {
        return value;
      }
    }
  }
  double factor() {
    if (++depth_ > kDepthMax) return fail("parentheses or signs nested deeper than 100"), 0;
    const double value = nested_factor();
    --depth_;
    return value;
  }
  double nested_factor() {
    if (take('(')) {
      const double value = sum();
      if (!take(')')) fail("a missing )");
      return value;
    }
    if (take('-')) return -factor();
    skip();
    if (at_ == text_.size()) return fail("an unexpected end"), 0;
    if (std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '.')
      return number();
    return name();
  }
  double number() {
    const char* begin = text_.c_str() + at_;
    char* end = nullptr;
    const double value = std::strtod(begin, &end);
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }
  double name() {
    std::string word;
    const auto is_part = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == ':' ||
             c == '@';
    };
    while (at_ < text_.size() && is_part(text_[at_])) word += text_[at_++];
    if (word.empty()) return fail(std::string("an unexpected ") + text_[at_]), 0;
    if ((word == "min" || word == "max") && take('(')) {
      double value = sum();
      while (take(',')) value = word == "min" ? std::min(value, sum()) : std::max(value, sum());
      if (!take(')')) fail("a missing )");
      return value;
    }
    return figure(word);
  }
  double figure(const std::string& word) {
    if (runs_ == nullptr) {
      const std::string policy = word.substr(0, word.find('.'));
      if (std::find(policies_.begin(), policies_.end(), policy) == policies_.end())
        fail("there is no policy " + policy);
      return 1;
    }
    const Json* node = runs_;
    std::size_t from = 0;
    bool refusal = false;
    while (from <= word.size()) {
      const std::size_t to = std::min(word.find('.', from), word.size());
      const std::string member = word.substr(from, to - from);
      const auto found = node->is_object() ? node->find(member) : node->end();
      if (!node->is_object() || found == node->end()) {
        if (refusal) return 0;
        return fail("there is no figure " + word), 0;
      }
      refusal = member == "refused";
      node = &*found;
      from = to + 1;
    }
    if (!node->is_number()) return fail(word + " is not a number"), 0;
    return node->get<double>();
  }

  static constexpr int kDepthMax = 100;
  const std::string& text_;
  const Json* runs_;
  const std::vector<std::string>& policies_;
  int depth_ = 0;
  std::size_t at_ = 0;
  std::optional<std::string> error_;
};

}  // namespace

Expected<SimVerdict> evaluate(const std::string& inequality, const Json& runs) {
  static const std::vector<std::string> kNone;
  return Reader(inequality, &runs, kNone).inequality();
}

Expected<Ok> check_form(const std::string& inequality, const std::vector<std::string>& policies) {
  const auto verdict = Reader(inequality, nullptr, policies).inequality();
  if (!verdict) return verdict.error();
  return Ok{};
}

}  // namespace kv_offload::bench
