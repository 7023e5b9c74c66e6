// make_cuda_backend of builds without the CUDA back end; cuda/ has the other one.
#include "kv_offload/tiers/device/cuda_backend.hpp"
#include "kv_offload/tiers/device/device_backend.hpp"

namespace kv_offload {

Expected<std::shared_ptr<DeviceBackend>> make_cuda_backend(int) {
  return {OffloadErrc::unsupported,
          "cuda: this build of kv_offload has no CUDA back end; configure with "
          "-DKV_OFFLOAD_CUDA=ON, which needs the "
          "CUDA toolkit"};
}

}  // namespace kv_offload
