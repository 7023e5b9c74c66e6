#include "kv_offload/tiers/device/cuda/cuda_batch.hpp"

#include "kv_offload/tiers/device/cuda/cuda_call.hpp"

#include <algorithm>

namespace kv_offload {

Expected<Ok> CudaBatch::enqueue(std::span<const CopyFragment> fragments, bool is_load,
                                const CudaRegistration& registration, cudaStream_t stream) {
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    add(fragments[i], is_load, registration);
    if (bytes_.size() < kFragmentsMax && i + 1 < fragments.size()) continue;
    const cudaError_t error = flush(is_load, stream);
    to_.clear(), from_.clear(), bytes_.clear();
    if (error != cudaSuccess)
      return cuda_error(is_load ? "copy to the device" : "copy from the device", error);
  }
  return Ok{};
}

void CudaBatch::add(CopyFragment f, bool is_load, const CudaRegistration& registration) {
  while (f.bytes > 0) {
    const std::uint64_t bytes =
        std::min(f.bytes, registration.bytes_to_border(is_load ? f.from : f.to));
    to_.push_back(f.to);
    from_.push_back(f.from);
    bytes_.push_back(bytes);
    f.to += bytes;
    f.from += bytes;
    f.bytes -= bytes;
  }
}

cudaError_t CudaBatch::flush(bool is_load, cudaStream_t stream) {
  if (together_) {
    const cudaError_t error = flush_together(stream);
    const bool cannot = error == cudaErrorNotSupported || error == cudaErrorCallRequiresNewerDriver;
    // Arguments that it does not take, such as memory that is not registered, the single copy may;
    // what of them was enqueued is copied twice, in order.
    if (!cannot && error != cudaErrorInvalidValue) return error;
    static_cast<void>(cudaGetLastError());
    if (cannot) together_ = false;
  }
  return flush_one_by_one(is_load, stream);
}

cudaError_t CudaBatch::flush_together([[maybe_unused]] cudaStream_t stream) {
#if CUDART_VERSION >= 12080
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t first = 0;  // the attributes hold for all from the first on
#if CUDART_VERSION >= 13000
  return cudaMemcpyBatchAsync(to_.data(), from_.data(), bytes_.data(), bytes_.size(), &attributes,
                              &first, 1, stream);
#else
  std::size_t failed = 0;
  return cudaMemcpyBatchAsync(to_.data(), const_cast<void**>(from_.data()), bytes_.data(),
                              bytes_.size(), &attributes, &first, 1, &failed, stream);
#endif
#else
  return cudaErrorNotSupported;
#endif
}

cudaError_t CudaBatch::flush_one_by_one(bool is_load, cudaStream_t stream) {
  const auto kind = is_load ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  for (std::size_t i = 0; i < bytes_.size(); ++i)
    if (const auto error = cudaMemcpyAsync(to_[i], from_[i], bytes_[i], kind, stream);
        error != cudaSuccess)
      return error;
  return cudaSuccess;
}

}  // namespace kv_offload
