#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/device/device_backend.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace kv_offload::bench {

/// A device with a buffer, as `copy` needs it: to fill it, to look at it, and to copy as plainly as
/// it can be done.
class CopyDevice {
 public:
  virtual ~CopyDevice() = default;
  [[nodiscard]] virtual std::shared_ptr<DeviceBackend> backend() const = 0;
  [[nodiscard]] virtual std::byte* buffer() const = 0;
  virtual Expected<Ok> write(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual Expected<Ok> read(std::uint64_t offset, std::span<std::byte> bytes) const = 0;
  /// memcpy, or what stands for it, of each fragment; waits for the last one.
  virtual Expected<Ok> copy_plainly(std::span<const CopyFragment> fragments, bool is_load) = 0;
  [[nodiscard]] virtual std::string plain_name() const = 0;
  [[nodiscard]] virtual bool is_host() const = 0;  ///< a digest can be taken on the way
};

/// The host, with `threads` that copy. Pages are touched.
Expected<std::unique_ptr<CopyDevice>> open_host_device(std::uint64_t bytes, std::uint32_t threads);
/// GPU 0; `unsupported` where there is none.
Expected<std::unique_ptr<CopyDevice>> open_cuda_device(std::uint64_t bytes);

}  // namespace kv_offload::bench
