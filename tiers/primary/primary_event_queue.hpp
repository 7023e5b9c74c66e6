#pragma once

#include "kv_offload/messages/offloading_event.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <utility>
#include <vector>

namespace kv_offload {

/// Events that wait for whoever reads them. Beyond the bound the oldest is dropped and counted: a reader
/// that stays away must not hold the memory of the engine.
class PrimaryEventQueue {
 public:
  explicit PrimaryEventQueue(std::size_t events_max) : events_max_(events_max) {}

  void push(OffloadingEvent event) {
    if (events_.size() >= events_max_) {
      ++dropped_;
      if (events_.empty()) return;  // a bound of zero keeps nothing
      events_.pop_front();
    }
    events_.push_back(std::move(event));
  }
  [[nodiscard]] std::vector<OffloadingEvent> take() {
    std::vector<OffloadingEvent> out(std::make_move_iterator(events_.begin()),
                                     std::make_move_iterator(events_.end()));
    events_.clear();
    return out;
  }

  [[nodiscard]] std::size_t size() const { return events_.size(); }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  std::size_t events_max_;
  std::deque<OffloadingEvent> events_;
  std::uint64_t dropped_ = 0;
};

}  // namespace kv_offload
