#pragma once

#include "kv_offload/messages/offloading_event.hpp"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace kv_offload {

/// Events of a tier on their way from its lane to its actor, which takes them at every step of the engine. Bounded:
/// what nobody takes is dropped and counted. Any thread.
class EventQueue {
 public:
  static constexpr std::size_t kEventsMax = 1U << 16;
  static constexpr std::size_t kKeysMax = 1U << 20;  ///< 72 MiB at the most

  void add(OffloadingEvent event) {
    const std::lock_guard lock(mutex_);
    if (events_.size() >= kEventsMax || keys_ + event.keys.size() > kKeysMax) {
      ++dropped_;
      return;
    }
    keys_ += event.keys.size();
    events_.push_back(std::move(event));
  }
  /// @param dropped  how many were, since they were taken last
  std::vector<OffloadingEvent> take(std::uint64_t& dropped) {
    const std::lock_guard lock(mutex_);
    dropped = std::exchange(dropped_, 0);
    keys_ = 0;
    return std::exchange(events_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<OffloadingEvent> events_;
  std::size_t keys_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace kv_offload
