#include "kv_offload/bench/lookup_floor.hpp"

#include "kv_offload/messages/pending.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace kv_offload::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Slot = CompletionSlot<std::uint64_t>;

/// A box that holds one thing; whoever waits parks.
template <class T>
class Box {
 public:
  void put(T value) {
    {
      const std::lock_guard lock(mutex_);
      value_ = std::move(value);
      is_full_ = true;
    }
    changed_.notify_one();
  }
  T take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_full_; });
    is_full_ = false;
    return std::move(value_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  T value_{};
  bool is_full_ = false;
};

template <class Trip>
LatencyRecorder time_trips(double seconds, const Trip& trip) {
  LatencyRecorder recorder;
  for (int i = 0; i < 1000; ++i) trip();
  const auto end = Clock::now() + from_seconds(seconds);
  for (auto now = Clock::now(); now < end;) {
    trip();
    const auto after = Clock::now();
    recorder.record(after - now);
    now = after;
  }
  return recorder;
}

}  // namespace

RoundTripFigure measure_round_trips(std::uint32_t spin_rounds, double seconds) {
  RoundTripFigure figure;
  {
    Box<int> there, back;
    std::thread other([&] {
      while (there.take() != 0) back.put(1);
    });
    figure.condvar = time_trips(seconds, [&] {
      there.put(1);
      back.take();
    });
    there.put(0);
    other.join();
  }
  Box<std::shared_ptr<Slot>> there;
  std::thread other([&] {
    while (const auto slot = there.take()) slot->deliver(std::uint64_t{1});
  });
  figure.slot = time_trips(seconds, [&] {
    const auto slot = std::make_shared<Slot>(spin_rounds);
    there.put(slot);
    (void)slot->take();
  });
  there.put(nullptr);
  other.join();
  return figure;
}

}  // namespace kv_offload::bench
