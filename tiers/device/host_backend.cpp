#include "kv_offload/tiers/device/host_backend.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

namespace kv_offload {

Expected<std::shared_ptr<HostBackend>> make_host_backend(HostOptions options) {
  if (options.threads_per_stream == 0 || options.threads_per_stream > HostOptions::kThreadsMax)
    return {OffloadErrc::invalid_config,
            "threads_per_stream: " + std::to_string(options.threads_per_stream) +
                " is not allowed; expected 1 to " + std::to_string(HostOptions::kThreadsMax)};
  return std::make_shared<HostBackend>(std::move(options));
}

Expected<std::unique_ptr<HostStream>> HostBackend::open_compute_stream(const std::string& label) {
  try {
    return std::make_unique<HostStream>(options_, label);
  } catch (const std::system_error& error) {
    return {OffloadErrc::io_error,
            "stream " + label + ": its threads could not be started: " + error.what() +
                "; the limit of threads (ulimit -u, pids.max) may be reached"};
  }
}

Expected<std::unique_ptr<DeviceStream>> HostBackend::open_stream(const std::string& label) {
  auto stream = open_compute_stream(label);
  if (!stream) return stream.error();
  return std::unique_ptr<DeviceStream>(std::move(*stream));
}

Expected<Ok> HostBackend::check_buffer(const KvTensor& tensor) const {
  const std::string who = "tensor \"" + tensor.name + "\": ";
  if (tensor.num_blocks == 0) return Ok{};
  if (tensor.data == nullptr) return {OffloadErrc::invalid_argument, who + "its address is null"};
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data);
  const std::uintptr_t first = begin / page * page;
  std::uintptr_t end = 0;
  // With MS_ASYNC the kernel only walks its list of mappings and says whether there is a hole: 0.2
  // us, whatever the size.
  if (!__builtin_add_overflow(begin, tensor.page_bytes * tensor.num_blocks, &end) &&
      ::msync(reinterpret_cast<void*>(first), end - first, MS_ASYNC) == 0)
    return Ok{};
  return {OffloadErrc::invalid_argument,
          who + std::to_string(tensor.page_bytes * tensor.num_blocks) +
              " bytes from its address are not all mapped; it was freed, or its size is wrong"};
}

std::uint64_t HostBackend::register_host(std::span<std::byte> memory,
                                         const std::function<void(std::string)>&) {
  return memory.size();
}

void HostBackend::unregister_host(std::span<std::byte>) {}

}  // namespace kv_offload
