#pragma once

#include "kv_offload/tiers/device/device_backend.hpp"
#include "kv_offload/tiers/device/host_options.hpp"
#include "kv_offload/tiers/device/host_stream.hpp"

#include <memory>
#include <string>

namespace kv_offload {

/// The host as its own device: for machines without one, for tests of ordering, for caches in host
/// memory.
class HostBackend final : public DeviceBackend {
 public:
  explicit HostBackend(HostOptions options) : options_(std::move(options)) {}
  [[nodiscard]] std::string name() const override { return "host"; }
  Expected<std::unique_ptr<DeviceStream>> open_stream(const std::string& label) override;
  /// All of it is mapped, now.
  Expected<Ok> check_buffer(const KvTensor& tensor) const override;
  /// Host memory is as near to the host as it gets.
  std::uint64_t register_host(std::span<std::byte> memory,
                              const std::function<void(std::string)>& log) override;
  void unregister_host(std::span<std::byte> memory) override;

  /// A stream that work can be put on: what an embedder's compute stream would be.
  Expected<std::unique_ptr<HostStream>> open_compute_stream(const std::string& label);

 private:
  HostOptions options_;
};

/// The error names option, value and range.
Expected<std::shared_ptr<HostBackend>> make_host_backend(HostOptions options = {});

}  // namespace kv_offload
