#pragma once

#include "kv_offload/messages/copy_job.hpp"
#include "kv_offload/messages/expected.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace kv_offload {

/// One recording of an event: passed once by the stream it was recorded on, waited for by any
/// number of others.
class HostMark {
 public:
  void pass(const std::string& error);
  /// Waits as long as it takes. @return what went wrong before it; empty: nothing
  [[nodiscard]] std::string wait();
  [[nodiscard]] bool passed();

 private:
  std::mutex mutex_;
  std::condition_variable passed_;
  std::optional<std::string> error_;
};

/// The host's cudaEvent_t: a place in a stream that others can wait for. Recorded again, it means
/// the later place; who waits already goes on waiting for the earlier one. Any thread.
class HostEvent {
 public:
  HostEvent();
  /// What has been recorded goes on; the handle is unknown from here on.
  ~HostEvent();
  HostEvent(const HostEvent&) = delete;
  HostEvent& operator=(const HostEvent&) = delete;
  [[nodiscard]] DeviceEventHandle handle() const { return handle_; }
  /// Has the stream passed the last recording? True if there was none.
  [[nodiscard]] bool passed() const;

 private:
  friend class HostStream;
  void set_mark(std::shared_ptr<HostMark> mark) const;
  DeviceEventHandle handle_;
};

/// The last recording of the event of this handle; null if there was none. The error: no event has
/// this handle.
Expected<std::shared_ptr<HostMark>> host_mark_of(DeviceEventHandle handle);

}  // namespace kv_offload
