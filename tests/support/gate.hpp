#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace kv_offload::test {

/// Holds threads back until it is opened; counts them.
class Gate {
 public:
  /// Blocks until open.
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    most_ = waiting_ > most_ ? waiting_ : most_;
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
    --waiting_;
    changed_.notify_all();
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void wait_for_arrivals(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= count; });
  }
  void wait_until_empty() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ == 0; });
  }
  int arrived() {
    const std::lock_guard lock(mutex_);
    return arrived_;
  }
  /// At one time.
  int most() {
    const std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  int waiting_ = 0;
  int arrived_ = 0;
  int most_ = 0;
};

}  // namespace kv_offload::test
