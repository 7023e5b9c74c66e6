#pragma once

#include "kv_offload/messages/monotonic_time.hpp"
#include "kv_offload/tiers/primary_view.hpp"
#include "kv_offload/tiers/secondary_tier.hpp"
#include "kv_offload/tiers/tier_faults.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace kv_offload {

/// Bounds and surroundings of one lane.
struct LaneOptions {
  std::string name;  ///< "1:fs"; names the thread and log lines
  PrimaryView primary;
  TierSink* sink = nullptr;
  std::function<MonotonicTime()> now;
  std::shared_ptr<TierFaults> faults;  ///< may be null

  std::uint32_t probes_max = 4096;  ///< keys waiting for a verdict
  std::uint32_t jobs_max = 1024;    ///< jobs taken and not ended
  /// Transfers in work at most, per direction.
  std::uint32_t queue_depth = 128;
  /// Bytes at the device at most, per direction (how many of them: InflightCap); one chunk is always
  /// allowed. 4 MiB: a local disk is
  /// full with two requests of 512 KiB, and more depth buys only latency (2 MiB reads measured 1.9 ms
  /// at depth 1 and 70 ms at depth 32, at the same throughput).
  std::uint64_t inflight_bytes_max = 4U << 20;
  /// Bytes of stores at the device at most while loads come; one chunk is always allowed.
  /// What stores have there when a load arrives is what it waits for: 256 KiB are 0.2 ms of a local
  /// disk's queue, and four writes of 64 KiB kept one at 85 % of its rate with eight.
  std::uint64_t store_bytes_beside_loads = 256U << 10;
  /// Joined writes: rows that are neighbours in the file go in one request of at most so many bytes,
  /// copied together by the CPU. 256 KiB: a local disk writes as fast as ever from 128 KiB on.
  std::uint64_t join_bytes_max = 256U << 10;
  /// Joined writes at the device at most: what comes meanwhile makes the next ones larger.
  std::uint32_t joins_max = 4;
  /// While loads wait, one store starts after so many loads, so that stores cannot starve.
  std::uint32_t loads_per_store = 8;
};

/// Numbers that a lane counts and anyone may read.
struct LaneCounters {
  std::atomic<std::uint64_t> running_jobs{0};  ///< gauge
  std::atomic<std::uint64_t> probes{0};        ///< keys probed
  std::atomic<std::uint64_t> unverified_chunks{0};
};

}  // namespace kv_offload
