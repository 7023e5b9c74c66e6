#include "kv_offload/bench/stress_run.hpp"

#include "kv_offload/bench/progress.hpp"
#include "kv_offload/bench/text_table.hpp"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <utility>

namespace kv_offload::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Different chunks of a run: its directories grow by 16 MiB per second and tier, so that cleaning up
/// behind it takes no longer than the run did.
std::uint64_t chunks_max(double seconds, std::uint64_t chunk_bytes) {
  const double bytes = std::clamp(seconds * 16 * 1048576, 64.0 * 1048576, 1024.0 * 1048576);
  return static_cast<std::uint64_t>(bytes /
                                    static_cast<double>(std::max<std::uint64_t>(chunk_bytes, 1)));
}

}  // namespace

StressRun::StressRun(OffloadEngine& engine, const StressOptions& options,
                     const StressThreads& threads, std::vector<FaultSpec> faults, FaultPanel& panel)
    : engine_(engine),
      options_(options),
      threads_(threads),
      faults_(std::move(faults)),
      panel_(panel) {
  // A lookup may fail over to every tier in turn; a store's cascades end by their own deadline.
  const Deadlines& d = engine.config().deadlines;
  const auto tiers = static_cast<int>(engine.config().secondary_tiers.size());
  patience_ =
      std::max(d.lookup, (d.load + d.store + d.probe) * (tiers + 1)) + std::chrono::seconds(20);
}

StressFindings StressRun::run() {
  StressFindings found;
  StressCanary canary(engine_, patience_);
  found.canary_problem = canary.prepare();
  for (const auto& fault : faults_)
    if (!fault.is_late()) panel_.apply(fault);

  const auto start = Clock::now();
  StressWorkload workload(chunks_max(options_.seconds, engine_.chunk_bytes()), options_.seconds);
  std::atomic<bool> stop{false}, stop_watching{false};
  std::atomic<std::uint64_t> requests_begun{0};
  const Duration duration = from_seconds(options_.seconds);
  std::optional<ArrivalPlan> arrivals;
  if (options_.requests_per_s)
    arrivals = ArrivalPlan{*options_.requests_per_s, duration, options_.spacing, threads_.count(),
                           options_.seed};
  CallerWorld world{engine_,  threads_,  workload, start,         start + duration,
                    arrivals, patience_, stop,     requests_begun};
  std::thread canary_thread;
  if (found.canary_problem.empty()) canary_thread = std::thread([&] { canary.run(stop_watching); });
  std::thread watch_thread([&] { watch(stop_watching, found); });
  run_callers(world, found);
  found.wall_seconds = to_seconds(Clock::now() - start);
  stop_watching = true;
  if (canary_thread.joinable()) canary_thread.join();
  canary.finish();
  watch_thread.join();

  found.note(canary);
  panel_.clear();
  const auto answered_by = Clock::now() + patience_;
  while (world.completions->open.load() > 0 && Clock::now() < answered_by)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  found.completions_open = world.completions->open.load();
  found.completion_errors = world.completions->count.load();
  settle(found);
  return found;
}

void StressRun::run_callers(CallerWorld& world, StressFindings& found) {
  std::vector<std::unique_ptr<StressCaller>> callers;
  std::vector<std::thread> threads;
  std::atomic<std::uint32_t> running{threads_.count()};
  for (std::uint32_t i = 0; i < threads_.count(); ++i) {
    callers.push_back(std::make_unique<StressCaller>(world, i, options_.seed));
    threads.emplace_back([caller = callers.back().get(), &running] {
      caller->run();
      running.fetch_sub(1);
    });
  }
  supervise(world, running);
  if (running.load() > 0) {
    // A thread that waits for an answer cannot be ended; nothing below could be trusted any more.
    std::cerr << "kv-offload-bench: promise 4 BROKEN: " << running.load()
              << " callers wait for an answer that never came\n";
    std::_Exit(kCheckFailed);
  }
  for (auto& thread : threads) thread.join();
  if (threads_.per_domain() > 0) found.by_domain.resize(threads_.domains().num_domains());
  for (std::uint32_t i = 0; i < callers.size(); ++i) {
    found.callers.merge(callers[i]->totals());
    if (const auto domain = threads_.domain_of(i))
      found.by_domain[*domain].merge(callers[i]->totals());
  }
}

/// Until every caller has ended, or could only be waiting for ever.
void StressRun::supervise(CallerWorld& world, const std::atomic<std::uint32_t>& running) {
  ProgressLine progress(!options_.output.quiet);
  const auto late_faults_at = world.start + (world.end - world.start) / 3;
  bool late_faults = false;
  while (running.load() > 0 && Clock::now() < world.end + patience_) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (interrupted() || !engine_.failed_state().empty()) world.stop = true;
    if (!late_faults && Clock::now() >= late_faults_at) {
      late_faults = true;
      for (const auto& fault : faults_)
        if (fault.is_late()) panel_.apply(fault);
    }
    if (progress.due())
      progress.show(fixed(to_seconds(Clock::now() - world.start), 0) + " of " +
                    fixed(options_.seconds, 0) + " s, " + with_commas(world.requests_begun.load()) +
                    " requests");
  }
}

void StressFindings::note(const StressCanary& canary) {
  if (!canary.error().empty()) canary_problem = canary.error();
  canary_latency = canary.latency();
  canary_overslept = canary.overslept();
  canary_rounds_unanswered = canary.unanswered();
  canary_mismatches = canary.mismatches();
  canary_lost = canary.lost();
}

void StressRun::take_events(StressFindings& found) {
  const auto events = await(engine_.take_events(), patience_);
  if (!events)
    found.problems.emplace_back("take_events: no answer");
  else if (*events)
    found.slots.see(**events);
}

/// Consumes events as a cache-aware router would, and now and then reads the numbers under load.
void StressRun::watch(std::atomic<bool>& stop, StressFindings& found) {
  for (std::uint64_t round = 1; !stop.load(); ++round) {
    take_events(found);
    if (!found.problems.empty()) return;
    if (round % 20 == 0) {
      const auto stats = await(engine_.stats(), patience_);
      if (stats && *stats)
        for (auto& check : check_promises(**stats, /*idle=*/false))
          if (!check.held && found.seen_while_running.size() < 8)
            found.seen_while_running.push_back(std::move(check));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void StressRun::settle(StressFindings& found) {
  const auto drained = await(engine_.drain(), patience_);
  found.drained = drained && *drained;
  take_events(found);
  const auto stats = await(engine_.stats(), patience_);
  if (stats && *stats)
    found.stats = **stats;
  else
    found.problems.push_back("stats: " + (stats ? to_string(stats->error()) : "no answer"));
  if (const auto failed = engine_.failed_state(); !failed.empty())
    found.problems.push_back("the engine failed: " + failed);
}

}  // namespace kv_offload::bench
