#pragma once

#include "kv_offload/actors/offload_engine.hpp"
#include "kv_offload/bench/cascade_window.hpp"
#include "kv_offload/bench/device.hpp"
#include "kv_offload/bench/latency.hpp"
#include "kv_offload/bench/trace.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload::bench {

struct ReplayMode {
  bool head_most_recent = true;  ///< order back: the engine touches from the last key to the first
  Verify verify = Verify::all;
  bool move_bytes = true;  ///< false: control only, no chunk is filled or read
  bool timed = false;      ///< keep the trace's arrival times
};

struct ReplayTotals {
  std::uint64_t requests = 0;
  std::uint64_t chunk_references = 0;
  std::uint64_t hit_chunks = 0;          ///< leading, in any tier
  std::vector<std::uint64_t> tier_hits;  ///< the same by tier, [0] primary
  std::uint64_t mismatches = 0;          ///< chunks whose bytes were not their key's
  std::string first_mismatch;
  std::uint64_t verified_chunks = 0;
  std::uint64_t loaded_chunks = 0, stored_chunks = 0;
  std::uint64_t lost_before_load = 0;  ///< hits that were gone when they were to be pinned
  std::uint64_t not_stored = 0;        ///< no room even after the own cascades had ended
  std::uint64_t unheld = 0, truncated = 0, gave_up = 0;
  std::uint64_t window_timeouts = 0;  ///< cascades that did not end in time to make room
  std::uint64_t call_errors = 0;
  std::string first_error;
  LatencyRecorder lookup;     ///< lookups that promoted nothing
  LatencyRecorder load_wait;  ///< lookups that waited for promotions
  LatencyRecorder store;      ///< prepare_store to its grant

  void merge(const ReplayTotals& other);
};

/// Plays a trace through an engine as one caller: per request load the hits, store the missing, touch
/// every key. Not thread-safe; one run per object.
class ReplayDriver {
 public:
  /// @param name  in front of its requests' ids: another one for each caller of an engine
  ReplayDriver(OffloadEngine& engine, ReplayMode mode, std::string name = {});

  /// Stops early when `keep_going` (asked before each request) answers false or the engine has failed.
  /// Ends when every cascade has ended or its deadline has passed.
  void run(const Trace& trace, const std::function<bool(const ReplayTotals&)>& keep_going);
  /// One request, for callers that have several drivers.
  void step(const TraceRequest& request) { play(request); }
  /// Until every cascade of this driver has ended.
  void settle();
  [[nodiscard]] const ReplayTotals& totals() const { return totals_; }
  [[nodiscard]] CascadeWindow::Totals cascades() const { return window_.totals(); }

 private:
  void play(const TraceRequest& request);
  LookupAnswer look_up(RequestHandle request, const KeyList& keys);
  /// Answers how many leading keys were loaded.
  std::size_t load(RequestHandle request, const KeyList& keys, std::size_t hits);
  void store(RequestHandle request, const KeyList& keys, std::size_t from);
  void store_piece(RequestHandle request, const KeyList& keys);
  std::optional<StorePlan> reserve(RequestHandle request, const KeyList& keys);
  void check(std::span<const std::byte> bytes, const OffloadKey& key);
  void failed(const char* call, const OffloadError& error);
  [[nodiscard]] bool has_cascades() const { return !engine_.config().secondary_tiers.empty(); }

  OffloadEngine& engine_;
  ReplayMode mode_;
  std::string name_;
  ReplayTotals totals_;
  CascadeWindow window_;
  Duration patience_;  ///< how long own cascades may take before the replay goes on without them
};

}  // namespace kv_offload::bench
