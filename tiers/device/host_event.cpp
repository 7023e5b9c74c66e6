#include "kv_offload/tiers/device/host_event.hpp"

#include <map>
#include <utility>

namespace kv_offload {
namespace {

/// Of the process, as device events are: whoever passes a handle on need not pass the backend with
/// it.
struct Events {
  std::mutex mutex;
  DeviceEventHandle last = 0;  // never used twice
  std::map<DeviceEventHandle, std::shared_ptr<HostMark>> marks;
};
Events& events() {
  static auto* const all = new Events;  // outlives every static event
  return *all;
}

}  // namespace

void HostMark::pass(const std::string& error) {
  const std::lock_guard lock(mutex_);
  error_ = error;
  passed_.notify_all();
}

std::string HostMark::wait() {
  std::unique_lock lock(mutex_);
  passed_.wait(lock, [this] { return error_.has_value(); });
  return *error_;
}

bool HostMark::passed() {
  const std::lock_guard lock(mutex_);
  return error_.has_value();
}

HostEvent::HostEvent() {
  Events& all = events();
  const std::lock_guard lock(all.mutex);
  handle_ = ++all.last;
  all.marks.emplace(handle_, nullptr);
}

HostEvent::~HostEvent() {
  Events& all = events();
  const std::lock_guard lock(all.mutex);
  all.marks.erase(handle_);
}

bool HostEvent::passed() const {
  const auto mark = *host_mark_of(handle_);
  return mark == nullptr || mark->passed();
}

void HostEvent::set_mark(std::shared_ptr<HostMark> mark) const {
  Events& all = events();
  const std::lock_guard lock(all.mutex);
  all.marks[handle_] = std::move(mark);
}

Expected<std::shared_ptr<HostMark>> host_mark_of(DeviceEventHandle handle) {
  Events& all = events();
  const std::lock_guard lock(all.mutex);
  const auto found = all.marks.find(handle);
  if (found == all.marks.end())
    return {OffloadErrc::invalid_argument,
            "after: " + std::to_string(handle) +
                " is no event of this process; expected 0 or a HostEvent's handle"};
  return found->second;
}

}  // namespace kv_offload
