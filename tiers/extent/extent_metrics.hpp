#pragma once

#include "kv_offload/messages/metric_definition.hpp"
#include "kv_offload/tiers/extent/extent_shared.hpp"

#include <string>
#include <vector>

namespace kv_offload {

/// The series of an extent tier; label `tier`.
[[nodiscard]] std::vector<MetricDefinition> extent_metric_definitions();

/// Their present values. `volume` may be null.
[[nodiscard]] std::vector<MetricSample> extent_metric_samples(const std::string& label,
                                                              const ExtentCounters& counters,
                                                              const ExtentVolume* volume);

}  // namespace kv_offload
