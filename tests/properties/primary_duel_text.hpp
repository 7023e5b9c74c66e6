#pragma once

#include "kv_offload/messages/offload_key.hpp"
#include "kv_offload/tests/properties/primary_op.hpp"

#include <algorithm>
#include <span>
#include <sstream>
#include <string>
#include <vector>

// Keys of the primary tier's properties, and words for what differs.
namespace kv_offload::test {

inline const KeyList& all_keys() {
  static const KeyList keys = [] {
    KeyList out;
    for (int name = 0; name < kPropertyKeys; ++name) {
      const std::string text = "chunk " + std::to_string(name);
      out.push_back(*OffloadKey::make(std::as_bytes(std::span(text)), 0));
    }
    return out;
  }();
  return keys;
}
inline const OffloadKey& key(int name) { return all_keys()[static_cast<std::size_t>(name)]; }
inline int name_of(const OffloadKey& k) {
  return static_cast<int>(std::find(all_keys().begin(), all_keys().end(), k) - all_keys().begin());
}
inline KeyList keys(const std::vector<int>& names) {
  KeyList out;
  for (const int n : names) out.push_back(key(n));
  return out;
}
inline std::vector<int> names(const PrimaryOp& op) { return {op.keys.begin(), op.keys.end()}; }

template <class T>
std::string text(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}
template <class T>
std::string text(const std::vector<T>& values) {
  std::ostringstream out;
  for (const auto& v : values) out << v << ' ';
  return "[ " + out.str() + "]";
}
/// Empty if equal.
template <class T, class U>
std::string differs(const std::string& what, const T& real, const U& model) {
  if (real == static_cast<T>(model)) return {};
  return what + ": " + text(real) + ", the model says " + text(model);
}
template <class T>
std::string differs(const std::string& what, const std::vector<T>& real,
                    const std::vector<T>& model) {
  return real == model ? std::string()
                       : what + ": " + text(real) + ", the model says " + text(model);
}

}  // namespace kv_offload::test
