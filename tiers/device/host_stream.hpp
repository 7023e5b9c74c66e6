#pragma once

#include "kv_offload/tiers/device/device_backend.hpp"
#include "kv_offload/tiers/device/host_event.hpp"
#include "kv_offload/tiers/device/host_options.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace kv_offload {

/// A stream of the host: one thread that does what it is given, in order, as a CUDA stream does.
/// What can be enqueued beside copies is what an embedder's compute stream has: work and events.
class HostStream final : public DeviceStream {
 public:
  /// Waiting at once; one more is refused with `busy`. A job takes three.
  static constexpr std::size_t kOperationsMax = 1U << 16;

  HostStream(const HostOptions& options, const std::string& label);
  /// Waits for everything enqueued, however long it takes.
  ~HostStream() override;

  Expected<Ok> wait(DeviceEventHandle event) override;
  Expected<Ok> copy(std::span<const CopyFragment> fragments, bool is_load) override;
  Expected<Ok> then(std::function<void(std::string error, Duration time)> done) override;
  Expected<Ok> synchronize(Duration patience) override;

  /// Work of a compute stream. A text that is not empty: it failed, and so does everything up to
  /// the next end (`then`) that this stream tells.
  Expected<Ok> launch(std::function<std::string()> work);
  Expected<Ok> record(const HostEvent& event);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kv_offload
