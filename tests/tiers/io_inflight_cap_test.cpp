#include "kv_offload/tiers/io/inflight_cap.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace kv_offload {
namespace {

constexpr std::uint64_t kMiB = 1U << 20;
constexpr std::uint64_t kMost = 4 * kMiB;

/// A device with a latency of its own, one queue behind it, and a rate: the latency of a transfer is the
/// larger of both. Others may have bytes in its queue, too.
struct Device {
  double latency_s;
  double bytes_per_s;
  std::uint64_t others = 0;

  [[nodiscard]] double latency_at(std::uint64_t in_flight) const {
    return std::max(latency_s, static_cast<double>(in_flight + others) / bytes_per_s);
  }
  /// Share of its rate that so much in flight achieves.
  [[nodiscard]] double utilisation(std::uint64_t in_flight) const {
    return static_cast<double>(in_flight) / latency_at(in_flight) / bytes_per_s;
  }
};

struct Lane {
  InflightCap cap;
  std::uint64_t chunk;
  MonotonicTime now{};

  Lane(std::uint64_t chunk_bytes, std::uint64_t most)
      : cap(chunk_bytes, most), chunk(chunk_bytes) {}

  /// A full queue for so long.
  void run(const Device& device, double seconds) {
    const MonotonicTime end = now + from_seconds(seconds);
    while (now < end) {
      const std::uint64_t in_flight = std::max(chunk, cap.bytes() / chunk * chunk);
      const double latency = device.latency_at(in_flight);
      now += from_seconds(latency * static_cast<double>(chunk) / static_cast<double>(in_flight));
      cap.completed(chunk, in_flight, from_seconds(latency), now);
    }
  }
};

}  // namespace

TEST_CASE("a queue grows until the device is busy, and no further") {
  // 100 us and 1.5 GiB/s: busy with 157 KiB, which is below the least that is tried.
  const Device disk{100e-6, 1.5 * 1073741824.0};
  Lane lane(64 << 10, kMost);
  lane.run(disk, 5);
  CHECK(disk.utilisation(lane.cap.bytes()) > 0.999);
  CHECK(lane.cap.bytes() >= 512U << 10);
  CHECK(lane.cap.bytes() < 2 * kMiB);  // 4 MiB in flight would be 2.6 ms of latency for nothing
}

TEST_CASE("a device that takes long but many at once gets all that is allowed") {
  const Device remote{20e-3, 1e12};
  Lane lane(64 << 10, kMost);
  lane.run(remote, 9);
  CHECK(lane.cap.bytes() == kMost);
}

TEST_CASE("two large chunks are in flight where one leaves the device idle in between") {
  const Device disk{1e-3, 2.1 * 1073741824.0};
  Lane lane(2 * kMiB, kMost);
  lane.run(disk, 5);
  CHECK(lane.cap.bytes() == kMost);
}

TEST_CASE("a queue shrinks while others fill the device, and comes back after them") {
  Device disk{1e-3, 1073741824.0};
  Lane lane(64 << 10, 16 * kMiB);
  lane.run(disk, 5);
  const std::uint64_t alone = lane.cap.bytes();
  CHECK(disk.utilisation(alone) > 0.999);
  disk.others = 8 * kMiB;
  lane.run(disk, 3);
  CHECK(lane.cap.bytes() == 512U << 10);
  disk.others = 0;
  lane.run(disk, 15);
  CHECK(disk.utilisation(lane.cap.bytes()) > 0.999);
}

TEST_CASE("a device that became slower is measured anew") {
  Device device{1e-3, 1e12};
  Lane lane(64 << 10, kMost);
  lane.run(device, 5);
  CHECK(lane.cap.bytes() == kMost);
  device.latency_s = 20e-3;  // not a queue: the same for one as for many
  lane.run(device, 60);
  CHECK(lane.cap.bytes() == kMost);
}

TEST_CASE("nothing is held back before anything was measured, nor beside the other direction") {
  Lane lane(64 << 10, kMost);
  CHECK(lane.cap.learned() == kMost);
  CHECK(lane.cap.bytes() == 512U << 10);  // alone, the first round
  const Device disk{100e-6, 1.5 * 1073741824.0};
  lane.run(disk, 5);
  CHECK(lane.cap.learned() < 2 * kMiB);
  lane.now += std::chrono::seconds(20);
  while (lane.cap.bytes() >= lane.cap.learned()) lane.run(disk, 1e-4);
  CHECK(lane.cap.bytes() == 512U << 10);  // measured anew, by those who are alone
  CHECK(lane.cap.learned() > 512U << 10);
}

TEST_CASE("transfers that come one by one say nothing of a full queue") {
  InflightCap cap(64 << 10, kMost);
  MonotonicTime now{};
  for (int i = 0; i < 1'600; ++i) {  // 8 s: before anything is measured anew
    now += std::chrono::milliseconds(5);
    // Fast at first, then 80 times as slow: a full queue that did so would be cut.
    cap.completed(64 << 10, 64 << 10, std::chrono::microseconds(i < 1'000 ? 50 : 4'000), now);
  }
  CHECK(cap.learned() == kMost);
}

TEST_CASE("a bound below one chunk is the bound, and the chunk goes alone") {
  InflightCap cap(2 * kMiB, kMiB);
  CHECK(cap.bytes() == kMiB);
}

}  // namespace kv_offload
