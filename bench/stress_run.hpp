#pragma once

#include "kv_offload/actors/offload_engine.hpp"
#include "kv_offload/bench/stress.hpp"
#include "kv_offload/bench/stress_caller.hpp"
#include "kv_offload/bench/stress_canary.hpp"
#include "kv_offload/bench/stress_events.hpp"
#include "kv_offload/bench/stress_faults.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kv_offload::bench {

/// Everything a stress run saw, for its verdict.
struct StressFindings {
  CallerTotals callers;
  std::vector<CallerTotals> by_domain;  ///< of the callers; empty: they belong to none
  std::uint64_t completion_errors = 0;
  std::uint64_t completions_open = 0;  ///< complete_store calls that never answered
  bool drained = true;
  SlotWatch slots;
  std::string canary_problem;  ///< why it could not work
  LatencyRecorder canary_latency, canary_overslept;
  std::uint64_t canary_rounds_unanswered = 0, canary_mismatches = 0, canary_lost = 0;
  EngineStats stats;
  std::vector<PromiseCheck> seen_while_running;  ///< promises that did not hold at some moment
  std::vector<std::string> problems;  ///< failed checks that are no promise of the engine
  double wall_seconds = 0;

  void note(const StressCanary& canary);
};

/// Runs the load against a started engine and brings it to an idle point.
class StressRun {
 public:
  StressRun(OffloadEngine& engine, const StressOptions& options, const StressThreads& threads,
            std::vector<FaultSpec> faults, FaultPanel& panel);
  StressFindings run();

 private:
  void run_callers(CallerWorld& world, StressFindings& found);
  void supervise(CallerWorld& world, const std::atomic<std::uint32_t>& running);
  void watch(std::atomic<bool>& stop, StressFindings& found);
  void take_events(StressFindings& found);
  void settle(StressFindings& found);

  OffloadEngine& engine_;
  const StressOptions& options_;
  const StressThreads& threads_;
  std::vector<FaultSpec> faults_;
  FaultPanel& panel_;
  Duration patience_;
};

/// Promises 1 to 8 as judged from the findings.
std::vector<PromiseCheck> judge(const StressFindings& found);

}  // namespace kv_offload::bench
