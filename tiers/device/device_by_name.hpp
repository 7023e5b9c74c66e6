#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/export.hpp"

#include <memory>
#include <string_view>

namespace kv_offload {

class DeviceBackend;

/// "host", "cuda" or "cuda:<index>". Errors: another name; a device that this build or machine does
/// not have.
KV_OFFLOAD_EXPORT Expected<std::shared_ptr<DeviceBackend>> device_by_name(std::string_view name);

}  // namespace kv_offload
