#pragma once

#include "kv_offload/messages/copy_job.hpp"
#include "kv_offload/tiers/workers/wake_event.hpp"

#include <mutex>
#include <utility>
#include <vector>

namespace kv_offload {

/// Ends of copies, from a back end's threads to a worker's. Outlives both: a copy that hangs may end when the
/// worker is long gone. As many as jobs are running.
class WorkerInbox {
 public:
  void push(CopyResult result) {
    const std::scoped_lock lock(mutex_);
    ends_.push_back(std::move(result));
    if (wake_ != nullptr) wake_->wake();
  }
  [[nodiscard]] std::vector<CopyResult> take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(ends_, {});
  }
  /// Whom to wake; null: nobody any more.
  void wakes(const WakeEvent* event) {
    const std::scoped_lock lock(mutex_);
    wake_ = event;
  }

 private:
  std::mutex mutex_;
  std::vector<CopyResult> ends_;
  const WakeEvent* wake_ = nullptr;
};

}  // namespace kv_offload
