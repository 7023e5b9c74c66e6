#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kv_offload/messages/expected.hpp"

namespace kv_offload {

/// A parsed configuration value, independent of the text format it came from. Policies and tiers,
/// also those from outside the library, read their parameters from it through ConfigReader.
class ConfigNode {
 public:
  using List = std::vector<ConfigNode>;
  using Object = std::map<std::string, ConfigNode>;
  using Value = std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, List, Object>;

  ConfigNode() : value_(Object{}) {}
  ConfigNode(Value value) : value_(std::move(value)) {}  // NOLINT: implicit on purpose
  /// @param written  the number as it stood in the text, where the value cannot hold it exactly
  ConfigNode(double value, std::string written) : value_(value), written_(std::move(written)) {}

  [[nodiscard]] const Value& value() const { return value_; }
  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
  [[nodiscard]] const Object* object() const { return std::get_if<Object>(&value_); }
  [[nodiscard]] Object* object() { return std::get_if<Object>(&value_); }
  [[nodiscard]] const List* list() const { return std::get_if<List>(&value_); }
  [[nodiscard]] List* list() { return std::get_if<List>(&value_); }
  [[nodiscard]] const ConfigNode* find(const std::string& key) const {
    const auto* o = object();
    if (o == nullptr) return nullptr;
    const auto it = o->find(key);
    return it == o->end() ? nullptr : &it->second;
  }
  [[nodiscard]] std::string_view kind() const {
    static constexpr std::string_view kNames[] = {"null",   "a boolean", "an integer", "a number",
                                                  "a string", "a list",    "an object"};
    return kNames[value_.index()];
  }
  /// The value as it would be written, shortened; for messages. Never call it on secrets.
  [[nodiscard]] std::string text() const {
    struct Render {
      std::string operator()(std::nullptr_t) const { return "null"; }
      std::string operator()(bool b) const { return b ? "true" : "false"; }
      std::string operator()(std::int64_t i) const { return std::to_string(i); }
      std::string operator()(double d) const {
        std::string s = std::to_string(d);
        while (s.size() > 1 && s.back() == '0' && s[s.size() - 2] != '.') s.pop_back();
        return s;
      }
      std::string operator()(const std::string& s) const { return '"' + s.substr(0, 80) + '"'; }
      std::string operator()(const List& l) const { return "a list of " + std::to_string(l.size()); }
      std::string operator()(const Object&) const { return "an object"; }
    };
    return written_.empty() ? std::visit(Render{}, value_) : written_.substr(0, 80);
  }

 private:
  Value value_;
  std::string written_;
};

/// A key as messages show it: what nobody knows may be a whole document given by mistake.
inline std::string shortened(const std::string& key) {
  constexpr std::size_t kShownMax = 60;
  if (key.size() <= kShownMax) return key;
  std::size_t end = kShownMax;
  while (end > 0 && (static_cast<unsigned char>(key[end]) & 0xC0U) == 0x80U) --end;  // no half characters
  return key.substr(0, end) + "...";
}

/// Reads one object of a configuration. Collects the first error as one line that names path, value
/// and allowed range; `finish()` also refuses keys that nobody asked for.
class ConfigReader {
 public:
  ConfigReader(const ConfigNode& node, std::string path) : node_(node), path_(std::move(path)) {
    if (node_.object() == nullptr)
      fail_at(path_.empty() ? std::string("configuration") : path_, node_, "an object");
  }

  [[nodiscard]] std::string path_of(std::string_view key) const {
    return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
  }
  /// The child under `key`, marked as known; nullptr if absent.
  const ConfigNode* child(const std::string& key) {
    known_.insert(key);
    return node_.find(key);
  }
  /// Whether it is there; marked as known, so that a line about an unknown key names every key that was
  /// asked for in whatever way.
  [[nodiscard]] bool has(const std::string& key) { return child(key) != nullptr; }

  double number(const std::string& key, double fallback, double min, double max,
                bool min_exclusive = false) {
    const ConfigNode* n = child(key);
    if (n == nullptr) return fallback;
    double v = std::numeric_limits<double>::quiet_NaN();
    if (const auto* d = std::get_if<double>(&n->value())) v = *d;
    if (const auto* i = std::get_if<std::int64_t>(&n->value())) v = static_cast<double>(*i);
    if (!(v <= max) || !(min_exclusive ? v > min : v >= min)) {
      fail(key, *n, "a number in " + std::string(min_exclusive ? "(" : "[") + short_number(min) + ", " +
                        short_number(max) + "]");
      return fallback;
    }
    return v;
  }
  std::int64_t integer(const std::string& key, std::int64_t fallback, std::int64_t min, std::int64_t max) {
    const ConfigNode* n = child(key);
    if (n == nullptr) return fallback;
    const auto* i = std::get_if<std::int64_t>(&n->value());
    if (i == nullptr || *i < min || *i > max) {
      fail(key, *n, "an integer in [" + std::to_string(min) + ", " + std::to_string(max) + "]");
      return fallback;
    }
    return *i;
  }
  bool boolean(const std::string& key, bool fallback) {
    const ConfigNode* n = child(key);
    if (n == nullptr) return fallback;
    const auto* b = std::get_if<bool>(&n->value());
    if (b == nullptr) return fail(key, *n, "true or false"), fallback;
    return *b;
  }
  std::string string(const std::string& key, std::string fallback) {
    const ConfigNode* n = child(key);
    if (n == nullptr) return fallback;
    const auto* s = std::get_if<std::string>(&n->value());
    if (s == nullptr) return fail(key, *n, "a string"), fallback;
    return *s;
  }
  /// One of `allowed`, exactly as spelled there.
  std::string choice(const std::string& key, std::string fallback, const std::vector<std::string>& allowed) {
    const ConfigNode* n = child(key);
    if (n == nullptr) return fallback;
    const auto* s = std::get_if<std::string>(&n->value());
    std::string list;
    for (const auto& a : allowed) {
      if (s != nullptr && *s == a) return a;
      list += (list.empty() ? "" : ", ") + a;
    }
    fail(key, *n, "one of: " + list);
    return fallback;
  }

  void fail(const std::string& key, const ConfigNode& got, const std::string& allowed) {
    fail_at(path_of(key), got, allowed);
  }
  void fail(std::string line) {
    if (!error_) error_ = std::move(line);
  }
  /// nullopt if all went well; else the first error. Call it last.
  [[nodiscard]] std::optional<OffloadError> finish() {
    if (!error_ && node_.object() != nullptr) {
      for (const auto& [key, value] : *node_.object()) {
        if (known_.contains(key)) continue;
        std::string names;
        for (const auto& k : known_) names += (names.empty() ? "" : ", ") + k;
        error_ = path_of(shortened(key)) + ": unknown key; known here: " + names;
        break;
      }
    }
    if (!error_) return std::nullopt;
    return OffloadError{OffloadErrc::invalid_config, *error_};
  }
  [[nodiscard]] bool failed() const { return error_.has_value(); }

 private:
  void fail_at(const std::string& path, const ConfigNode& got, const std::string& allowed) {
    fail(path + ": " + got.text() + " is not allowed; expected " + allowed);
  }
  static std::string short_number(double v) {
    if (v == std::numeric_limits<double>::infinity()) return "inf";
    if (std::abs(v) < 1e15 && v == std::floor(v)) return std::to_string(static_cast<std::int64_t>(v));
    return ConfigNode(v).text();
  }

  const ConfigNode& node_;
  std::string path_;
  std::set<std::string> known_;
  std::optional<std::string> error_;
};

}  // namespace kv_offload
