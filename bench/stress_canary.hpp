#pragma once

#include "kv_offload/actors/offload_engine.hpp"
#include "kv_offload/bench/latency.hpp"

#include <atomic>
#include <cstdint>
#include <string>

namespace kv_offload::bench {

/// A caller whose few chunks never leave the primary tier (it leases them for the whole run), so its
/// lookups and loads depend on nobody. Whatever it waits for is somebody else's work (promise 8).
class StressCanary {
 public:
  StressCanary(OffloadEngine& engine, Duration patience) : engine_(engine), patience_(patience) {}

  /// Stores its chunks and leases them, retrying while the primary tier is full. Empty: ready.
  std::string prepare();
  void run(const std::atomic<bool>& stop);
  /// Ends its lease and its request.
  void finish();

  [[nodiscard]] const LatencyRecorder& latency() const { return latency_; }  ///< lookup to loaded
  [[nodiscard]] std::uint64_t unanswered() const { return unanswered_; }
  [[nodiscard]] std::uint64_t mismatches() const { return mismatches_; }
  /// How much longer than asked its sleeps took: what waiting for a core costs on this machine now.
  [[nodiscard]] const LatencyRecorder& overslept() const { return overslept_; }
  /// Leased chunks that a lookup or a load did not find: their slots were given away.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  bool one_round(std::uint64_t number);
  std::string store();

  OffloadEngine& engine_;
  Duration patience_;
  KeyList keys_;
  RequestHandle anchor_;
  LeaseId lease_;
  bool leased_ = false;
  LatencyRecorder latency_, overslept_;
  std::uint64_t unanswered_ = 0, mismatches_ = 0, lost_ = 0;
  std::string error_;
};

/// Longest time that a canary round may take on a machine with time to spare. Tens of milliseconds were
/// measured with two cores and eight callers; the delay that the drill for promise 8 puts on a tier is
/// three times as long.
Duration canary_limit();
/// That delay.
Duration canary_drill_delay();

}  // namespace kv_offload::bench
