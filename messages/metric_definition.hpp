#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kv_offload {

enum class MetricKind : std::uint8_t { counter, gauge, histogram };

/// A series that a component may emit. Emitting an undeclared name is an error that fails a test.
/// Names are as scraped: counters end in `_total`.
struct MetricDefinition {
  std::string name;
  MetricKind kind = MetricKind::counter;
  std::string help;                       ///< carries unit, moment and label
  std::vector<std::string> label_names;
  std::vector<double> buckets;            ///< histograms only; +Inf is implied
};

/// One cumulative value (counter) or present value (gauge) of a declared series.
struct MetricSample {
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
};

}  // namespace kv_offload
