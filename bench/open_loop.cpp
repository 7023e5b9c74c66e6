#include "kv_offload/bench/open_loop.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace kv_offload::bench {
namespace {

/// How long a loop without arrivals does not see that it is stopped.
constexpr auto kNap = std::chrono::milliseconds(50);

}  // namespace

void RequestTimes::merge(const RequestTimes& other) {
  service.merge(other.service);
  from_arrival.merge(other.from_arrival);
  scheduled += other.scheduled;
  late += other.late;
  not_begun += other.not_begun;
  behind_max = std::max(behind_max, other.behind_max);
}

LoopClock steady_loop_clock() {
  return {[] { return std::chrono::steady_clock::now(); },
          [](MonotonicTime until) { std::this_thread::sleep_until(until); }};
}

OpenLoop::OpenLoop(ArrivalSchedule schedule, LoopClock clock)
    : schedule_(std::move(schedule)), clock_(std::move(clock)) {
  times_.scheduled = schedule_.left();
}

void OpenLoop::run(MonotonicTime start, Duration duration,
                   const std::function<void(MonotonicTime)>& serve,
                   const std::function<bool()>& stopped) {
  const MonotonicTime end = start + duration;
  while (schedule_.left() > 0) {
    const std::uint64_t in_line = schedule_.left();
    const MonotonicTime arrival = start + schedule_.next();
    const bool late = clock_.now() > arrival;
    if (!wait_for(arrival, stopped) || (late && clock_.now() >= end)) {
      times_.not_begun = in_line;
      times_.late += in_line;
      times_.behind_max = std::max<Duration>(times_.behind_max, clock_.now() - arrival);
      return;
    }
    const MonotonicTime begun = clock_.now();
    times_.late += late ? 1 : 0;
    times_.behind_max = std::max<Duration>(times_.behind_max, begun - arrival);
    serve(arrival);
    const MonotonicTime ended = clock_.now();
    times_.service.record(ended - begun);
    times_.from_arrival.record(ended - arrival);
  }
}

bool OpenLoop::wait_for(MonotonicTime arrival, const std::function<bool()>& stopped) {
  while (!stopped()) {
    const MonotonicTime now = clock_.now();
    if (now >= arrival) return true;
    clock_.sleep_until(std::min<MonotonicTime>(arrival, now + kNap));
  }
  return false;
}

}  // namespace kv_offload::bench
