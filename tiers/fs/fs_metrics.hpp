#pragma once

#include "kv_offload/messages/metric_definition.hpp"
#include "kv_offload/tiers/fs/fs_shared.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace kv_offload {

/// The series of a file tier with a capacity; label `tier`.
[[nodiscard]] std::vector<MetricDefinition> fs_metric_definitions();

/// Their present values.
[[nodiscard]] std::vector<MetricSample> fs_metric_samples(const std::string& label,
                                                          const FsCapacityCounters& counters,
                                                          std::uint64_t capacity_bytes);

}  // namespace kv_offload
