#pragma once

#include "kv_offload/messages/expected.hpp"

#include <cuda_runtime_api.h>

#include <string>

namespace kv_offload {

/// What a call of the runtime failed with, in one line. Clears it from the thread's last error,
/// which the embedder's own checks would otherwise find behind their next kernel.
inline OffloadError cuda_error(const std::string& what, cudaError_t error) {
  static_cast<void>(cudaGetLastError());
  return {OffloadErrc::io_error,
          what + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ')'};
}

/// The calling thread works with this device; afterwards with the one that it had before, which is
/// the embedder's.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    if (cudaGetDevice(&before_) != cudaSuccess) before_ = device;
    error_ = cudaSetDevice(device);
    changed_ = before_ != device;
  }
  ~DeviceGuard() {
    if (changed_) static_cast<void>(cudaSetDevice(before_));
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  [[nodiscard]] cudaError_t error() const { return error_; }

 private:
  int before_ = 0;
  bool changed_ = false;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace kv_offload
