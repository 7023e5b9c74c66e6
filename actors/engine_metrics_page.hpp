#pragma once

#include "kv_offload/messages/engine_stats.hpp"
#include "kv_offload/messages/metric_definition.hpp"

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

namespace kv_offload {

/// One scrape's worth of metrics, not yet text. Inside engine_metrics only.
struct MetricsPage {
  std::vector<prometheus::MetricFamily> families;  ///< in the order of the definitions
  std::vector<std::string> left_out;               ///< see undeclared_metrics
};

/// Every declared series is a family of the page, also while it has no values.
[[nodiscard]] MetricsPage collect_metrics(const EngineStats& stats,
                                          const std::vector<MetricDefinition>& definitions);

}  // namespace kv_offload
