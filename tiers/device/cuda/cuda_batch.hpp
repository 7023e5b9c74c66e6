#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/device/cuda/cuda_registration.hpp"
#include "kv_offload/tiers/device/device_backend.hpp"

#include <cuda_runtime_api.h>

#include <span>
#include <vector>

namespace kv_offload {

/// Enqueues fragments on a stream, many per call where runtime and driver know how (CUDA 12.8),
/// else one by one. One thread.
class CudaBatch {
 public:
  Expected<Ok> enqueue(std::span<const CopyFragment> fragments, bool is_load,
                       const CudaRegistration& registration, cudaStream_t stream);

 private:
  /// Of one call: enough to hide its few microseconds, 96 KiB of arguments.
  static constexpr std::size_t kFragmentsMax = 4096;
  void add(CopyFragment fragment, bool is_load, const CudaRegistration& registration);
  cudaError_t flush(bool is_load, cudaStream_t stream);
  cudaError_t flush_together(cudaStream_t stream);
  cudaError_t flush_one_by_one(bool is_load, cudaStream_t stream);

  bool together_ = true;  // until the driver says that it cannot
  std::vector<void*> to_;
  std::vector<const void*> from_;
  std::vector<std::size_t> bytes_;
};

}  // namespace kv_offload
