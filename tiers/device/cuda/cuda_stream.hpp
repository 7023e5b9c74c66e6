#pragma once

#include "kv_offload/tiers/device/cuda/cuda_registration.hpp"
#include "kv_offload/tiers/device/device_backend.hpp"

#include <memory>
#include <string>

namespace kv_offload {

/// A stream of a GPU, and a thread that waits for the ends on it.
///
/// Ends are waited for by an event and not by cudaLaunchHostFunc: when the device has failed the
/// runtime calls no host function any more, while waiting for an event answers the error, so that
/// every job ends.
class CudaStream final : public DeviceStream {
 public:
  static Expected<std::unique_ptr<DeviceStream>> open(
      int device, const std::string& label, std::shared_ptr<CudaRegistration> registration);
  /// After synchronize(): waits for the ends that have not been told.
  ~CudaStream() override;

  Expected<Ok> wait(DeviceEventHandle event) override;
  Expected<Ok> copy(std::span<const CopyFragment> fragments, bool is_load) override;
  Expected<Ok> then(std::function<void(std::string error, Duration time)> done) override;
  Expected<Ok> synchronize(Duration patience) override;

 private:
  struct Impl;
  explicit CudaStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kv_offload
