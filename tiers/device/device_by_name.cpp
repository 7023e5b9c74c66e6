#include "kv_offload/tiers/device/device_by_name.hpp"

#include "kv_offload/tiers/device/cuda_backend.hpp"
#include "kv_offload/tiers/device/host_backend.hpp"

#include <charconv>
#include <string>

namespace kv_offload {

Expected<std::shared_ptr<DeviceBackend>> device_by_name(std::string_view name) {
  if (name == "host") {
    auto host = make_host_backend();
    if (!host) return host.error();
    return std::shared_ptr<DeviceBackend>(std::move(*host));
  }
  constexpr std::string_view kCuda = "cuda:";
  int index = 0;
  if (name.starts_with(kCuda)) {
    const auto* end = name.data() + name.size();
    const auto [at, error] = std::from_chars(name.data() + kCuda.size(), end, index);
    if (error == std::errc{} && at == end && index >= 0) return make_cuda_backend(index);
  } else if (name == "cuda") {
    return make_cuda_backend(0);
  }
  return {OffloadErrc::invalid_argument,
          "device: \"" + std::string(name.substr(0, 60)) +
              "\" is not allowed; expected host, cuda or cuda:<index>"};
}

}  // namespace kv_offload
