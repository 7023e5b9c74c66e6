#include "kv_offload/bench/sim_world.hpp"

#include <algorithm>
#include <utility>

namespace kv_offload::bench {

void SimWorld::at(MonotonicTime when, Action action) {
  heap_.push_back({std::max(when, now_), sequence_++, std::move(action)});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

SimWorld::Event SimWorld::take_next() {
  std::pop_heap(heap_.begin(), heap_.end(), later);
  Event event = std::move(heap_.back());
  heap_.pop_back();
  return event;
}

void SimWorld::move_to(MonotonicTime when) {
  const Duration step = when - now_;
  now_ = when;
  if (inhabitant_ != nullptr && step > Duration::zero()) inhabitant_->advance(step);
}

bool SimWorld::run(const std::function<bool()>& done, Duration patience) {
  MonotonicTime quiet_since = now_;
  for (;;) {
    if (inhabitant_ != nullptr) inhabitant_->settle();
    if (done()) return true;
    if (heap_.empty() && (inhabitant_ == nullptr || now_ - quiet_since > patience)) return false;
    const bool inhabitant_first =
        inhabitant_ != nullptr && (heap_.empty() || inhabitant_->next_due() < heap_.front().when);
    if (inhabitant_first) {
      move_to(inhabitant_->next_due());
      continue;
    }
    move_to(heap_.front().when);
    quiet_since = now_;
    take_next().action();
  }
}

}  // namespace kv_offload::bench
