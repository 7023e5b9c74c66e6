#pragma once

#include "kv_offload/messages/expected.hpp"

#include <memory>

namespace kv_offload {

class DeviceBackend;

/// Copies to and from a GPU through the CUDA runtime. Part of builds with KV_OFFLOAD_CUDA=ON; any
/// other build, and a machine where no GPU answers, get `unsupported` with one line that says which
/// of the two it is and what would help. Events (CopyJob::after) are cudaEvent_t; tensors'
/// addresses are device memory of `device`.
/// @param device  CUDA's index of it in this process
Expected<std::shared_ptr<DeviceBackend>> make_cuda_backend(int device);

}  // namespace kv_offload
