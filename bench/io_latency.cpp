#include "kv_offload/bench/io_latency.hpp"

#include "kv_offload/bench/io_tier.hpp"
#include "kv_offload/bench/io_tier_harness.hpp"
#include "kv_offload/bench/progress.hpp"
#include "kv_offload/bench/random.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

namespace kv_offload::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Bytes per second that stores may reach without evicting what is loaded: more than any disk here.
constexpr double kStoreRateMax = 3e9;

/// Half of the pieces feed the stores, so that a load that is due always finds one.
class StoreFlood {
 public:
  StoreFlood(IoTierHarness& harness, std::uint32_t in_flight_max)
      : harness_(harness), in_flight_max_(in_flight_max), thread_([this] { run(); }) {}
  ~StoreFlood() { stop(); }
  StoreFlood(const StoreFlood&) = delete;
  StoreFlood& operator=(const StoreFlood&) = delete;

  std::uint64_t stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return stored_;
  }

 private:
  void run() {
    while (!stop_) {
      if (in_flight_ >= in_flight_max_) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        continue;
      }
      ++in_flight_;
      // Keys that no load asks for, each new.
      harness_.submit(false, {(std::uint64_t{1} << 41) + next_key_++}, [this](Duration) {
        --in_flight_;
        ++stored_;
      });
    }
  }

  IoTierHarness& harness_;
  const std::uint32_t in_flight_max_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint32_t> in_flight_{0};
  std::atomic<std::uint64_t> stored_{0};
  inline static std::atomic<std::uint64_t> next_key_{0};
  std::thread thread_;
};

/// Loads at their times, each recorded when it landed.
LatencyRecorder paced_loads(IoTierHarness& harness, std::uint64_t chunks, double per_s,
                            double seconds) {
  auto recorder = std::make_shared<LatencyRecorder>();  // written by the lane's thread alone
  Random random(7);
  const auto count = static_cast<std::uint64_t>(per_s * seconds);
  const auto start = Clock::now();
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto due = start + from_seconds(static_cast<double>(i) / per_s);
    if (interrupted()) break;
    std::this_thread::sleep_until(due);
    harness.submit(
        true, {random.below(chunks)}, [recorder](Duration d) { recorder->record(d); }, due);
  }
  return harness.settle_loads(), *recorder;
}

}  // namespace

std::uint64_t io_latency_spare_bytes(double seconds) {
  return static_cast<std::uint64_t>(seconds * kStoreRateMax);
}

Expected<IoLatencyPair> measure_io_latency(const IoShape& asked, const WorkDir& dir, double share,
                                           double seconds) {
  IoShape shape = asked;
  shape.spare_bytes = io_latency_spare_bytes(seconds);
  const std::uint32_t window = io_window_chunks(shape);
  IoTierHarness harness(shape, 2 * window, 1);
  auto files = io_directory(dir, "latency-" + shape.tier);
  if (!files) return files.error();
  if (auto started = harness.start(*files); !started) return started.error();
  for (std::uint64_t i = 0; i < kIoDirectories; ++i)
    harness.submit(false, {(std::uint64_t{1} << 40) + i});
  for (std::uint64_t i = 0; i < shape.chunks(); ++i) harness.submit(false, {i});
  if (auto ended = harness.drain(); !ended) return ended.error();
  const IoStopwatch watch;
  for (const std::uint32_t number : io_order(shape.chunks())) harness.submit(true, {number});
  if (auto ended = harness.drain(); !ended) return ended.error();
  const double rate =
      watch.stop(shape).mib_per_s * 1048576 / static_cast<double>(shape.chunk_bytes);

  IoLatencyPair pair;
  pair.loads_per_s = rate * share;
  pair.idle = paced_loads(harness, shape.chunks(), pair.loads_per_s, seconds);
  if (interrupted()) return OffloadError{OffloadErrc::aborted, "interrupted"};
  const auto start = Clock::now();
  StoreFlood flood(harness, window);
  pair.beside_stores = paced_loads(harness, shape.chunks(), pair.loads_per_s, seconds);
  const std::uint64_t stored = flood.stop();
  const double took_s = to_seconds(Clock::now() - start);
  pair.store_mib_per_s = static_cast<double>(stored * shape.chunk_bytes) / 1048576 / took_s;
  if (auto ended = harness.drain(); !ended) return ended.error();
  harness.stop();
  std::error_code ignored;
  if (shape.tier == "extent")
    std::filesystem::remove_all(*files, ignored);  // the next one needs the space
  return pair;
}

}  // namespace kv_offload::bench
