#pragma once

#include "kv_offload/messages/metric_definition.hpp"
#include "kv_offload/tiers/obj/obj_config.hpp"
#include "kv_offload/tiers/obj/obj_shared.hpp"

#include <string>
#include <vector>

namespace kv_offload {

/// Series of an obj tier; all of them, whatever the configuration.
[[nodiscard]] std::vector<MetricDefinition> obj_metric_definitions();
/// @param label  of the tier, "1:obj"
[[nodiscard]] std::vector<MetricSample> obj_metric_samples(const std::string& label, const ObjShared& shared,
                                                           const ObjConfig& config);

}  // namespace kv_offload
