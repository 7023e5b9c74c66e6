#include "kv_offload/tiers/device/cuda_backend.hpp"

#include "kv_offload/tiers/device/cuda/cuda_call.hpp"
#include "kv_offload/tiers/device/cuda/cuda_registration.hpp"
#include "kv_offload/tiers/device/cuda/cuda_stream.hpp"
#include "kv_offload/tiers/device/device_backend.hpp"

#include <string>
#include <utility>

namespace kv_offload {
namespace {

std::string version_text(int version) {
  return version == 0 ? "none"
                      : std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

class CudaBackend final : public DeviceBackend {
 public:
  CudaBackend(int device, std::string name)
      : device_(device),
        name_(std::move(name)),
        registration_(std::make_shared<CudaRegistration>()) {}
  [[nodiscard]] std::string name() const override { return name_; }
  Expected<std::unique_ptr<DeviceStream>> open_stream(const std::string& label) override {
    return CudaStream::open(device_, label, registration_);
  }
  Expected<Ok> check_buffer(const KvTensor& tensor) const override;
  std::uint64_t register_host(std::span<std::byte> memory,
                              const std::function<void(std::string)>& log) override {
    const DeviceGuard guard(device_);
    return registration_->add(memory, log);
  }
  void unregister_host(std::span<std::byte> memory) override {
    const DeviceGuard guard(device_);
    registration_->remove(memory);
  }

 private:
  const int device_;
  const std::string name_;
  const std::shared_ptr<CudaRegistration> registration_;
};

Expected<Ok> CudaBackend::check_buffer(const KvTensor& tensor) const {
  const std::string who = "tensor \"" + tensor.name + "\": ";
  if (tensor.num_blocks == 0) return Ok{};
  if (tensor.data == nullptr) return {OffloadErrc::invalid_argument, who + "its address is null"};
  const DeviceGuard guard(device_);
  // Its first and its last byte: what the runtime can say without walking the driver's tables.
  for (const std::byte* at :
       {tensor.data, tensor.data + tensor.page_bytes * tensor.num_blocks - 1}) {
    cudaPointerAttributes attributes{};
    if (const auto error = cudaPointerGetAttributes(&attributes, at); error != cudaSuccess) {
      OffloadError wrong = cuda_error(who + "its address is not known to the device", error);
      wrong.code = OffloadErrc::invalid_argument;
      return wrong;
    }
    const bool on_device =
        attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
    if (!on_device || attributes.device != device_)
      return {OffloadErrc::invalid_argument,
              who + std::to_string(tensor.page_bytes * tensor.num_blocks) +
                  " bytes from its address are not memory of " + name_ +
                  "; it was freed, its size is wrong, or it is another device's"};
  }
  return Ok{};
}

OffloadError no_gpu(const std::string& what, cudaError_t error) {
  int driver = 0, runtime = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  OffloadError answer = cuda_error("cuda: no GPU answers: " + what, error);
  answer.code = OffloadErrc::unsupported;
  answer.detail +=
      "; CUDA of the driver: " + version_text(driver) +
      ", of this build: " + version_text(runtime) +
      "; needs an NVIDIA driver at least as new and a device that this process may see "
      "(CUDA_VISIBLE_DEVICES)";
  return answer;
}

}  // namespace

Expected<std::shared_ptr<DeviceBackend>> make_cuda_backend(int device) {
  int devices = 0;  // left as it is by a call that fails
  if (const auto error = cudaGetDeviceCount(&devices); error != cudaSuccess)
    return no_gpu("cudaGetDeviceCount", error);
  if (devices == 0) return no_gpu("cudaGetDeviceCount", cudaErrorNoDevice);
  if (device < 0 || device >= devices)
    return {OffloadErrc::invalid_argument, "cuda device: " + std::to_string(device) +
                                               " is not allowed; expected 0 to " +
                                               std::to_string(devices - 1)};
  const DeviceGuard guard(device);
  cudaError_t error = guard.error();
  if (error == cudaSuccess)
    error = cudaFree(nullptr);  // makes the context: what cannot work fails here
  cudaDeviceProp properties{};
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess) return no_gpu("device " + std::to_string(device), error);
  return std::shared_ptr<DeviceBackend>(std::make_shared<CudaBackend>(
      device, "cuda:" + std::to_string(device) + " (" + properties.name + ')'));
}

}  // namespace kv_offload
