#pragma once

#include "kv_offload/actors/offload_engine.hpp"
#include "kv_offload/bench/await.hpp"
#include "kv_offload/bench/latency.hpp"
#include "kv_offload/bench/open_loop.hpp"
#include "kv_offload/bench/random.hpp"
#include "kv_offload/bench/stress_threads.hpp"
#include "kv_offload/bench/stress_workload.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload::bench {

/// What one caller saw; summed over the callers at the end.
struct CallerTotals {
  std::uint64_t requests = 0, chunk_references = 0, hit_chunks = 0;
  std::uint64_t strays = 0;  ///< requests that were given to another domain than their thread's
  std::string not_placed;    ///< why a thread is not on its domain's CPUs
  std::vector<std::uint64_t> tier_hits;
  std::uint64_t loaded_chunks = 0, stored_chunks = 0, verified_chunks = 0;
  std::uint64_t mismatches = 0;           ///< chunks that were wrong when first read
  std::uint64_t changed_under_lease = 0;  ///< chunks that were right and then changed while leased
  std::uint64_t no_space = 0, aborts = 0, gave_up = 0, unanswered = 0;
  std::map<std::string, std::uint64_t> expected_errors;  ///< by code: part of a faulty world
  std::uint64_t call_errors = 0;                         ///< errors that no fault explains
  std::string first_mismatch, first_change, first_error;
  LatencyRecorder lookup, load, store;
  LatencyRecorder
      lookup_from_arrival;  ///< the wait in line is in it; empty without scheduled arrivals
  RequestTimes request_times;

  void merge(const CallerTotals& other);
};

/// Errors of complete_store, which callers do not wait for. Outlives the callers through its callbacks.
struct CompletionErrors {
  std::atomic<std::uint64_t> count{0};
  std::atomic<std::uint64_t> open{0};
};

/// State that all callers of a run share.
struct CallerWorld {
  OffloadEngine& engine;
  const StressThreads& threads;
  StressWorkload& workload;
  MonotonicTime start, end;
  std::optional<ArrivalPlan> arrivals;  ///< unset: each caller's next request when it is free
  Duration patience{};  ///< beyond every deadline of the engine: what comes later never comes
  std::atomic<bool>& stop;
  std::atomic<std::uint64_t>& requests_begun;
  std::shared_ptr<CompletionErrors> completions = std::make_shared<CompletionErrors>();
};

/// One serving thread: request after request with random operations in the order a serving engine may
/// use them. All of its randomness comes from its seed.
class StressCaller {
 public:
  StressCaller(CallerWorld& world, std::uint32_t number, std::uint64_t seed);
  void run();
  [[nodiscard]] const CallerTotals& totals() const { return totals_; }

 private:
  void serve_when_free();
  void serve_arrivals();
  void one_request();
  std::size_t look_up(RequestHandle request, const KeyList& keys);
  void aborted_lookup(RequestHandle request, const KeyList& keys);
  std::optional<LeaseId> load(RequestHandle request, const KeyList& keys, std::size_t hits);
  void store(RequestHandle request, const KeyList& keys, std::size_t from);
  void finish_store(const StorePlan& plan, const KeyList& keys);
  void check(std::span<const std::byte> bytes, const OffloadKey& key, bool was_right);
  void pause();
  void failed(const char* call, const OffloadError& error);
  [[nodiscard]] bool running() const;

  CallerWorld& world_;
  std::uint32_t number_;
  Random random_;
  std::optional<MonotonicTime> arrived_;  // the request that is served, if it was scheduled
  CallerTotals totals_;
};

}  // namespace kv_offload::bench
