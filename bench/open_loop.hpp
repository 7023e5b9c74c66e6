#pragma once

#include "kv_offload/bench/arrivals.hpp"
#include "kv_offload/bench/latency.hpp"

#include <cstdint>
#include <functional>

namespace kv_offload::bench {

/// How long requests took, and how well their arrivals were kept.
struct RequestTimes {
  LatencyRecorder service;       ///< begin to end
  LatencyRecorder from_arrival;  ///< what whoever sent it waited: in line, and for the answer
  std::uint64_t scheduled = 0;
  std::uint64_t late = 0;  ///< came while their caller was still at an earlier one
  std::uint64_t not_begun =
      0;                  ///< of these: still in line when the run ended; no latency counts them
  Duration behind_max{};  ///< longest time in line, of those too

  void merge(const RequestTimes& other);
};

/// Time as a loop sees it; tests have one that they move.
struct LoopClock {
  std::function<MonotonicTime()> now;
  std::function<void(MonotonicTime)> sleep_until;
};
LoopClock steady_loop_clock();

/// Serves the arrivals of one caller in their order and one at a time. They come as scheduled, not when the one before
/// them is answered: what comes meanwhile waits in line, and a slow answer is felt by all behind it. (A loop that
/// asks after each answer asks less just when answers are slow, and never sees that.)
class OpenLoop {
 public:
  OpenLoop(ArrivalSchedule schedule, LoopClock clock);

  /// Until every arrival was served, the run of `duration` is over, or `stopped`; what has begun is ended. `serve` gets
  /// the moment of the arrival.
  void run(MonotonicTime start, Duration duration, const std::function<void(MonotonicTime)>& serve,
           const std::function<bool()>& stopped);
  [[nodiscard]] const RequestTimes& times() const { return times_; }

 private:
  bool wait_for(MonotonicTime arrival, const std::function<bool()>& stopped);

  ArrivalSchedule schedule_;
  LoopClock clock_;
  RequestTimes times_;
};

}  // namespace kv_offload::bench
