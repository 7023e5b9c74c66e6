#include "kv_offload/bench/stress.hpp"

#include "kv_offload/bench/engine_setup.hpp"
#include "kv_offload/bench/progress.hpp"
#include "kv_offload/bench/report.hpp"
#include "kv_offload/bench/stress_report.hpp"
#include "kv_offload/bench/stress_run.hpp"
#include "kv_offload/bench/stress_threads.hpp"
#include "kv_offload/bench/text_table.hpp"
#include "kv_offload/messages/broken_promise.hpp"

#include <algorithm>
#include <ostream>
#include <utility>

namespace kv_offload::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Two fs tiers behind a primary tier that a few callers fill: they evict each other all the time.
EngineOptions with_defaults(EngineOptions engine) {
  if (engine.config_file) return engine;
  if (engine.tiers.empty()) engine.tiers = {"fs", "fs"};
  if (!engine.primary_chunks) engine.primary_chunks = 512;
  return engine;
}

/// Short enough that what a fault swallows is over before the run is.
/// Short where a fault withholds results, so that a run ends soon; else long enough for any disk.
Deadlines stress_deadlines(bool results_withheld) {
  Deadlines d;
  d.load = d.store = seconds(results_withheld ? 5 : 30);
  d.probe = seconds(2);
  d.lookup = seconds(20);
  d.unread = seconds(10);
  d.drain = seconds(20);
  d.shutdown = seconds(10);
  return d;
}

/// What must happen for a broken promise to be noticed at all.
void add_drill(int promise, EngineConfig& config, std::vector<FaultSpec>& faults) {
  const auto on_every_tier = [&](FaultKind kind, double arg) {
    for (std::size_t t = 0; t < config.secondary_tiers.size(); ++t)
      faults.push_back({t, kind, arg});
  };
  const std::size_t last = config.secondary_tiers.empty() ? 0 : config.secondary_tiers.size() - 1;
  const auto delay_us = [](Duration d) { return to_seconds(d) * 1e6; };
  switch (promise) {
    case 1: on_every_tier(FaultKind::corrupt, 3); break;  // something to verify
    case 5:
      faults.push_back({last, FaultKind::delay, delay_us(milliseconds(200))});
      break;  // refusals
    case 6:   // loads that are given up while the device still works on them
      config.deadlines.load = milliseconds(200);
      on_every_tier(FaultKind::delay, delay_us(milliseconds(600)));
      break;
    case 8: faults.push_back({last, FaultKind::delay, delay_us(canary_drill_delay())}); break;
    default: break;
  }
}

void break_promise([[maybe_unused]] int promise) {
#ifdef KV_OFFLOAD_TEST_FAULTS
  broken_promise_switch() = promise;
#endif
}

/// A tier that no fault was aimed at has no business failing.
void check_bystanders(const std::vector<FaultSpec>& faults, StressFindings& found) {
  for (const auto& tier : tier_reports(found.stats, {})) {
    if (tier.label == found.stats.tier_labels.front()) continue;
    bool faulty = false;
    for (const auto& fault : faults)
      faulty |= found.stats.tier_labels[fault.tier + 1] == tier.label;
    if (faulty) continue;
    if (tier.disabled) found.problems.push_back(tier.label + " was disabled without a fault");
    if (tier.failed > 0)
      found.problems.push_back(tier.label + ": " + with_commas(tier.failed) +
                               " chunks failed without a fault: " + tier.reasons.dump());
  }
}

void check_calls(StressFindings& found) {
  if (found.callers.call_errors > 0)
    found.problems.push_back(with_commas(found.callers.call_errors) +
                             " calls failed, first: " + found.callers.first_error);
  if (found.callers.strays > 0)
    found.problems.push_back(with_commas(found.callers.strays) +
                             " requests were given to another domain than their thread's");
  if (!found.callers.not_placed.empty()) found.problems.push_back(found.callers.not_placed);
  if (found.completion_errors > 0)
    found.problems.push_back(with_commas(found.completion_errors) + " complete_store calls failed");
  if (!found.canary_problem.empty())
    found.problems.push_back("the canary could not work: " + found.canary_problem);
  if (!found.drained) found.problems.emplace_back("drain: jobs were still active at its deadline");
  if (interrupted()) found.problems.emplace_back("interrupted");
}

}  // namespace

int run_stress(const StressOptions& options, std::ostream& out, std::ostream& err) {
  const auto refuse = [&](const std::string& line) {
    err << "kv-offload-bench: " << line << '\n';
    return kUsageError;
  };
  if (options.break_promise != 0 && !kCanBreakPromises)
    return refuse(
        "--break: this build cannot break its promises; configure with "
        "-DKV_OFFLOAD_TEST_FAULTS=ON");
  if (const auto error = check_writable(options.output.json_file)) return refuse(*error);
  ProgressLine cleaning(!options.output.quiet);  // cleared after `dir` has removed its files
  const auto dir = WorkDir::open(options.engine.dir);
  if (!dir) return refuse(to_string(dir.error()));
  EngineDefaults defaults;
  defaults.chunk_bytes = 64 * 1024;
  auto config = make_engine_config(with_defaults(options.engine), defaults, *dir);
  if (!config) return refuse(to_string(config.error()));
  config->enable_kv_events = true;
  std::vector<FaultSpec> faults;
  for (const auto& text : options.faults) {
    const auto fault = parse_fault(text, config->secondary_tiers);
    if (!fault) return refuse(to_string(fault.error()));
    faults.push_back(*fault);
  }
  const bool withheld =
      options.break_promise != 0 || std::any_of(faults.begin(), faults.end(), [](const auto& f) {
        return f.kind != FaultKind::eio && f.kind != FaultKind::corrupt &&
               f.kind != FaultKind::full;
      });
  if (!options.engine.config_file) config->deadlines = stress_deadlines(withheld);
  add_drill(options.break_promise, *config, faults);  // may shorten them further
  const auto threads = StressThreads::plan(options, *config);
  if (!threads) return refuse(to_string(threads.error()));
  FaultPanel panel(*config);
  auto engine = OffloadEngine::start(*config);
  if (!engine) return refuse(to_string(engine.error()));
  OffloadEngine& running = **engine;

  break_promise(options.break_promise);
  StressFindings found = StressRun(running, options, *threads, faults, panel).run();
  break_promise(0);
  // A slowed tier may hold what it had begun for long after its fault was lifted.
  const bool ended = running.shutdown(std::max<Duration>(config->deadlines.shutdown, seconds(60)));
  // A killed thread cannot say when its last transfer ended: its memory is then leaked, as documented.
  const bool killed = std::any_of(faults.begin(), faults.end(),
                                  [](const auto& fault) { return fault.kind == FaultKind::kill; });
  if (!ended && !killed)
    found.problems.emplace_back("shutdown: a tier's I/O thread did not end by its deadline");
  check_calls(found);
  check_bystanders(faults, found);
  const auto promises = judge(found);

  if (!options.output.quiet) print_stress(out, options, *threads, running.config(), found);
  if (!options.output.quiet) print_promises(out, promises);
  for (const auto& check : promises)
    if (!check.held && options.output.quiet)
      err << "promise " << check.number << " BROKEN: " << check.name << ": " << check.why << '\n';
  for (const auto& problem : found.problems) err << "kv-offload-bench: " << problem << '\n';
  if (const auto error =
          write_json(options.output.json_file, stress_document(options, *threads, found, promises)))
    return refuse(*error);
  if (dir->is_temporary()) cleaning.show("removing temporary files");
  return all_held(promises) && found.problems.empty() ? kHeld : kCheckFailed;
}

}  // namespace kv_offload::bench
