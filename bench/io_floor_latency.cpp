#include "kv_offload/bench/io_floor_program.hpp"
#include "kv_offload/bench/progress.hpp"
#include "kv_offload/bench/random.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace kv_offload::bench {
namespace {

using Clock = std::chrono::steady_clock;
/// No completion for so long ends the measurement: the slowest disk takes less.
constexpr auto kPatience = std::chrono::seconds(60);

__kernel_timespec to_timespec(Clock::duration wait) {
  const auto ns =
      std::max<std::int64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(wait).count(), 0);
  return {ns / 1'000'000'000, ns % 1'000'000'000};
}

}  // namespace

Expected<IoLatencyPair> FloorProgram::latency(double loads_per_s, double seconds,
                                              std::uint32_t stores_in_flight) {
  next_store_ = static_cast<std::uint32_t>(shape_.chunks());
  IoLatencyPair pair;
  pair.loads_per_s = loads_per_s;
  std::uint64_t stored = 0;
  auto idle = paced(loads_per_s, seconds, 0, stored);
  if (!idle) return idle.error();
  pair.idle = *idle;
  const auto start = Clock::now();
  auto beside = paced(loads_per_s, seconds, stores_in_flight, stored);
  if (!beside) return beside.error();
  pair.beside_stores = *beside;
  pair.store_mib_per_s =
      static_cast<double>(stored * shape_.chunk_bytes) / 1048576 / to_seconds(Clock::now() - start);
  return pair;
}

/// Slots below `stores_in_flight` are the stores'. A load that is due goes before a store is begun.
Expected<LatencyRecorder> FloorProgram::paced(double loads_per_s, double seconds,
                                              std::uint32_t stores_in_flight,
                                              std::uint64_t& stored) {
  LatencyRecorder recorder;
  Random random(7);
  std::vector<Clock::time_point> due_of(slots_.size());
  std::vector<std::size_t> free_loads, free_stores;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot)
    (slot < stores_in_flight ? free_stores : free_loads).push_back(slot);
  auto count = static_cast<std::uint64_t>(loads_per_s * seconds);
  const auto begin = Clock::now();
  const auto due = [&](std::uint64_t i) {
    return begin + from_seconds(static_cast<double>(i) / loads_per_s);
  };
  std::size_t in_flight = 0;
  auto heard = begin;
  for (std::uint64_t next = 0; next < count || in_flight > 0;) {
    if (interrupted()) count = next;
    const bool load_is_due = next < count && !free_loads.empty() && Clock::now() >= due(next);
    if (load_is_due || (next < count && !free_stores.empty())) {
      auto& free = load_is_due ? free_loads : free_stores;
      const std::size_t slot_idx = free.back();
      const auto number =
          load_is_due ? static_cast<std::uint32_t>(random.below(shape_.chunks())) : next_store_++;
      if (const int error = start(slot_idx, number, load_is_due); error != 0)
        return failed("opening a chunk", error);
      free.pop_back();
      ++in_flight;
      if (load_is_due) due_of[slot_idx] = due(next++);
      // Once for several loads: what is due goes together.
      if (!load_is_due || next == count || Clock::now() < due(next))
        io_uring_submit_and_get_events(&ring_);
    } else {
      const bool wakes_for_load = next < count && !free_loads.empty();
      __kernel_timespec wait =
          to_timespec(wakes_for_load ? due(next) - Clock::now() : Clock::duration(kPatience));
      io_uring_cqe* first = nullptr;
      const int waited = io_uring_submit_and_wait_timeout(&ring_, &first, 1, &wait, nullptr);
      if (waited < 0 && waited != -ETIME && waited != -EINTR)
        return failed("io_uring_enter", -waited);
      if (in_flight > 0 && Clock::now() - heard > kPatience) return failed("waiting", ETIME);
    }
    std::size_t slot_idx = 0;
    while (true) {
      auto taken = take_completion(slot_idx, stores_in_flight);
      if (!taken) return taken.error();
      if (!*taken) break;
      --in_flight;
      heard = Clock::now();
      if (slot_idx < stores_in_flight) {
        ++stored;
        free_stores.push_back(slot_idx);
      } else {
        recorder.record(heard - due_of[slot_idx]);
        free_loads.push_back(slot_idx);
      }
    }
    if (in_flight == 0) heard = Clock::now();
  }
  return recorder;
}

}  // namespace kv_offload::bench
