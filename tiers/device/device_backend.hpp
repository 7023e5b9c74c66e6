#pragma once

#include "kv_offload/messages/copy_job.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/kv_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace kv_offload {

/// One contiguous copy.
struct CopyFragment {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::uint64_t bytes = 0;
};

/// Work in order on one device. Calls of one stream come from one thread at a time and do not wait for the device.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;  ///< after synchronize()
  /// What follows begins behind `event`.
  virtual Expected<Ok> wait(DeviceEventHandle event) = 0;
  /// Enqueues the fragments; the span may go when the call returns, the bytes may not.
  virtual Expected<Ok> copy(std::span<const CopyFragment> fragments, bool is_load) = 0;
  /// `done` is called once, on a thread of the back end, when everything before has ended: with an empty text, or
  /// with what went wrong (a device that failed keeps failing). It must not block or call the stream.
  virtual Expected<Ok> then(std::function<void(std::string error, Duration time)> done) = 0;
  /// Waits until everything enqueued has ended and is told, `patience` at most. The error names what is still
  /// running (`deadline`), or how the device failed (any other: nothing runs any more).
  virtual Expected<Ok> synchronize(Duration patience) = 0;
};

/// A device that copies: the host itself, or a GPU. Any thread.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;
  [[nodiscard]] virtual std::string name() const = 0;  ///< "host", "cuda:0 (NVIDIA …)"
  /// A stream of its own; `label` is for messages and thread names.
  virtual Expected<std::unique_ptr<DeviceStream>> open_stream(const std::string& label) = 0;
  /// Is this a buffer that the device can copy from and to, now? The error says why not.
  virtual Expected<Ok> check_buffer(const KvTensor& tensor) const = 0;
  /// Makes host memory fast to reach for the device, where that is a thing; until unregister_host. Part of it may
  /// fail: the answer is the bytes that are registered, and `log` says which are not and why.
  virtual std::uint64_t register_host(std::span<std::byte> memory, const std::function<void(std::string)>& log) = 0;
  virtual void unregister_host(std::span<std::byte> memory) = 0;
};

}  // namespace kv_offload
