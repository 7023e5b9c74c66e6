#pragma once

#include "kv_offload/messages/metric_definition.hpp"

#include <string>
#include <utility>
#include <vector>

// The words that policies declare and fill their series with: texts have the form of the engine's.
namespace kv_offload {

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

namespace detail {
inline std::string labeled_by(const std::vector<std::string>& labels) {
  std::string text;
  for (const auto& label : labels) text += (text.empty() ? ", labeled by " : " and ") + label;
  return text + ".";
}
}  // namespace detail

/// `help` says what and in which unit; `when` at which moment it is counted.
inline MetricDefinition declare_counter(std::string name, const std::string& help,
                                        const std::string& when, std::vector<std::string> labels) {
  std::string text = help + ", counted when " + when + detail::labeled_by(labels);
  return {std::move(name), MetricKind::counter, std::move(text), std::move(labels), {}};
}
inline MetricDefinition declare_gauge(std::string name, const std::string& help,
                                      std::vector<std::string> labels) {
  std::string text = "At present: " + help + detail::labeled_by(labels);
  return {std::move(name), MetricKind::gauge, std::move(text), std::move(labels), {}};
}

}  // namespace kv_offload
