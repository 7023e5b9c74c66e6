#include "kv_offload/bench/replay.hpp"

#include "kv_offload/actors/admission_page.hpp"
#include "kv_offload/bench/engine_setup.hpp"
#include "kv_offload/bench/progress.hpp"
#include "kv_offload/bench/replay_engines.hpp"
#include "kv_offload/bench/report.hpp"
#include "kv_offload/bench/synthetic.hpp"
#include "kv_offload/bench/text_table.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <ostream>
#include <thread>
#include <utility>
#include <vector>

namespace kv_offload::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// The chunk size of the public traces; it feeds token-based gates only.
constexpr std::uint32_t kTraceTokensPerChunk = 512;

struct Outcome {
  ReplayTotals totals;
  CascadeWindow::Totals cascades;
  EngineStats stats;
  std::vector<PromiseCheck> promises;
  std::vector<std::string> problems;  ///< failed checks that are no promise of the engine
  double wall_seconds = 0;
};

Expected<Trace> load_trace(const ReplayOptions& options) {
  if (options.trace_file) return read_trace(*options.trace_file, options.requests_max);
  auto trace = synthetic_trace(options.synthetic.value_or("multi-turn"));
  if (trace && trace->size() > options.requests_max) trace->resize(options.requests_max);
  return trace;
}

PromiseCheck verified_bytes(const ReplayTotals& totals) {
  PromiseCheck check{1, "every byte read was verified and is its key's", totals.mismatches == 0,
                     ""};
  if (!check.held)
    check.why = with_commas(totals.mismatches) + " chunks differ, first: " + totals.first_mismatch;
  return check;
}

void play(OffloadEngine& engine, const ReplayOptions& options, const Trace& trace,
          Outcome& outcome) {
  ReplayDriver driver(engine, options.mode);
  ProgressLine progress(!options.output.quiet);
  const auto start = Clock::now();
  driver.run(trace, [&](const ReplayTotals& totals) {
    if (progress.due()) {
      const double seconds = to_seconds(Clock::now() - start);
      const auto chunks = static_cast<double>(totals.loaded_chunks + totals.stored_chunks);
      const double bytes = chunks * static_cast<double>(engine.chunk_bytes());
      progress.show(with_commas(totals.requests) + " of " + with_commas(trace.size()) +
                    " requests, hit share " +
                    share_text(totals.hit_chunks, totals.chunk_references) + ", " +
                    fixed(bytes / 1048576 / std::max(seconds, 1e-3), 0) + " MiB/s");
    }
    return !interrupted();
  });
  progress.finish();
  outcome.wall_seconds = to_seconds(Clock::now() - start);
  outcome.totals = driver.totals();
  outcome.cascades = driver.cascades();
}

/// Several callers, each with the next request when it is free. What one stores while another asks depends on time.
void play_together(OffloadEngine& engine, const ReplayOptions& options, const Trace& trace,
                   Outcome& outcome) {
  std::vector<std::unique_ptr<ReplayDriver>> drivers;
  for (std::uint32_t i = 0; i < options.callers; ++i)
    drivers.push_back(
        std::make_unique<ReplayDriver>(engine, options.mode, std::to_string(i) + "-"));
  std::atomic<std::size_t> next{0};
  const auto start = Clock::now();
  std::vector<std::thread> threads;
  for (auto& driver : drivers)
    threads.emplace_back([&, driver = driver.get()] {
      for (std::size_t i = next++;
           i < trace.size() && !interrupted() && engine.failed_state().empty(); i = next++)
        driver->step(trace[i]);
    });
  for (auto& thread : threads) thread.join();
  outcome.wall_seconds = to_seconds(Clock::now() - start);
  for (const auto& driver : drivers) outcome.totals.merge(driver->totals());
}

/// Brings the engine to an idle point and takes the final numbers.
void settle(OffloadEngine& engine, const ReplayOptions& options, Outcome& outcome) {
  const auto drained = engine.drain().get();
  if (!drained) outcome.problems.push_back("drain: " + to_string(drained.error()));
  auto stats = engine.stats().get();
  if (stats) {
    outcome.stats = std::move(*stats);
    outcome.promises = check_promises(outcome.stats, /*idle=*/true);
  } else {
    outcome.problems.push_back("stats: " + to_string(stats.error()));
  }
  if (options.mode.move_bytes && options.mode.verify != Verify::none)
    outcome.promises.insert(outcome.promises.begin(), verified_bytes(outcome.totals));
  if (const auto failed = engine.failed_state(); !failed.empty())
    outcome.problems.push_back("the engine failed: " + failed);
  const auto count = [&](std::uint64_t errors, const std::string& first) {
    if (errors > 0)
      outcome.problems.push_back(with_commas(errors) + " calls failed, first: " + first);
  };
  count(outcome.totals.call_errors, outcome.totals.first_error);
  count(outcome.cascades.errors, "complete_store: " + outcome.cascades.first_error);
  if (interrupted()) outcome.problems.emplace_back("interrupted");
}

void print(std::ostream& out, const ReplayOptions& options, const EngineConfig& config,
           const Outcome& outcome) {
  const ReplayTotals& t = outcome.totals;
  out << "replay of " << options.trace_file.value_or(options.synthetic.value_or("multi-turn"))
      << ": " << describe(config) << "\n\n";
  TextTable head;
  head.row({"requests", with_commas(t.requests)});
  head.row({"chunk references", with_commas(t.chunk_references)});
  head.row({"hit chunks", with_commas(t.hit_chunks)});
  head.row({"hit share", share_text(t.hit_chunks, t.chunk_references)});
  head.row({"wall time", fixed(outcome.wall_seconds, 2) + " s"});
  head.row({"peak memory", human_bytes(static_cast<double>(peak_rss_bytes()))});
  head.print(out);
  out << '\n';
  print_tiers(out, tier_reports(outcome.stats, t.tier_hits), t.chunk_references,
              outcome.wall_seconds);
  out << '\n';
  TextTable latencies;
  latencies.row({"latency", "count", "p50", "p99", "max"});
  const auto latency = [&](const char* name, const LatencyRecorder& recorder) {
    if (recorder.count() > 0)
      latencies.row({name, with_commas(recorder.count()), human_us(recorder.quantile_us(0.5)),
                     human_us(recorder.quantile_us(0.99)), human_us(recorder.max_us())});
  };
  latency("lookup", t.lookup);
  latency("load wait", t.load_wait);
  latency("store", t.store);
  latency("cascade", outcome.cascades.latency);
  latencies.print(out);
  out << '\n';
  const auto note = [&](std::uint64_t count, const char* what) {
    if (count > 0) out << with_commas(count) << ' ' << what << '\n';
  };
  note(t.not_stored, "chunks found no room in the primary tier");
  note(t.lost_before_load, "hits were gone before they could be pinned");
  note(t.unheld, "hits were not held: the hold share was used up");
  note(t.truncated, "tier hits got no slot in the primary tier");
  note(t.gave_up, "keys got no verdict in time");
  note(t.window_timeouts, "times the own cascades did not end in time");
  if (options.mode.move_bytes && options.mode.verify != Verify::none)
    out << with_commas(t.mismatches) << " mismatches (" << with_commas(t.verified_chunks)
        << " chunks read back, " << (options.mode.verify == Verify::all ? "every byte" : "sampled")
        << " compared)\n";
}

Json document(const EngineConfig& config, const Outcome& outcome, bool is_explained) {
  const ReplayTotals& t = outcome.totals;
  Json json = document_head(outcome.wall_seconds);
  json["promises"] = to_json(outcome.promises);
  json["problems"] = outcome.problems;
  json["requests"] = t.requests;
  json["chunk_references"] = t.chunk_references;
  json["hit_chunks"] = t.hit_chunks;
  json["hit_share"] = t.chunk_references == 0 ? 0.0
                                              : static_cast<double>(t.hit_chunks) /
                                                    static_cast<double>(t.chunk_references);
  json["mismatches"] = t.mismatches;
  json["peak_rss_bytes"] = peak_rss_bytes();
  json["chunk_bytes"] = config.chunk_bytes;
  json["primary_chunks"] = config.num_chunks();
  json["eviction"] = config.eviction_policy;
  json["verified_chunks"] = t.verified_chunks;
  json["loaded_chunks"] = t.loaded_chunks;
  json["stored_chunks"] = t.stored_chunks;
  json["not_stored_chunks"] = t.not_stored;
  json["lost_before_load"] = t.lost_before_load;
  json["unheld"] = t.unheld;
  json["truncated"] = t.truncated;
  json["gave_up"] = t.gave_up;
  json["latency"] = {{"lookup", to_json(t.lookup)},
                     {"load_wait", to_json(t.load_wait)},
                     {"store", to_json(t.store)},
                     {"cascade", to_json(outcome.cascades.latency)}};
  json["actors"] = actors_json(outcome.stats);
  json["tiers"] = to_json(tier_reports(outcome.stats, t.tier_hits));
  if (is_explained) json["admission"] = Json::parse(admission_page_json(outcome.stats, Clock::now()));
  return json;
}

void hold_metrics(const OffloadEngine& engine, std::uint64_t seconds, std::ostream& out) {
  if (seconds == 0 || engine.metrics_port() == 0) return;
  out << "metrics stay at port " << engine.metrics_port() << " for " << seconds << " s"
      << std::endl;
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  while (Clock::now() < end && !interrupted())
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

int report(const ReplayOptions& options, const EngineConfig& config, const Outcome& outcome,
           std::ostream& out, std::ostream& err) {
  if (!options.output.quiet) {
    print(out, options, config, outcome);
    print_promises(out, outcome.promises);
  }
  // Asked for by name: it is there beside --quiet, too.
  if (options.explain)
    out << (options.output.quiet ? "" : "\n") << admission_page_text(outcome.stats, Clock::now());
  for (const auto& check : outcome.promises)
    if (!check.held && options.output.quiet)
      err << "promise " << check.number << " BROKEN: " << check.name << ": " << check.why << '\n';
  for (const auto& problem : outcome.problems) err << "kv-offload-bench: " << problem << '\n';
  if (const auto error =
          write_json(options.output.json_file, document(config, outcome, options.explain))) {
    err << "kv-offload-bench: " << *error << '\n';
    return kUsageError;
  }
  return all_held(outcome.promises) && outcome.problems.empty() ? kHeld : kCheckFailed;
}

}  // namespace

int run_replay(const ReplayOptions& options, std::ostream& out, std::ostream& err) {
  const auto refuse = [&](const std::string& line) {
    err << "kv-offload-bench: " << line << '\n';
    return kUsageError;
  };
  if (const auto error = check_writable(options.output.json_file)) return refuse(*error);
  const auto trace = load_trace(options);
  if (!trace) return refuse(to_string(trace.error()));
  ProgressLine cleaning(!options.output.quiet);  // cleared after `dir` has removed its files
  const auto dir = WorkDir::open(options.engine.dir);
  if (!dir) return refuse(to_string(dir.error()));
  EngineDefaults defaults;
  defaults.tokens_per_chunk = kTraceTokensPerChunk;
  auto config = make_engine_config(options.engine, defaults, *dir);
  if (!config) return refuse(to_string(config.error()));
  // Without bytes to move a primary tier may be larger than the machine.
  config->reserve_only =
      !options.mode.move_bytes && config->secondary_tiers.empty() && !config->workers;
  if (options.engines > 1) return run_replay_engines(options, *config, *trace, out, err);
  if (options.callers > 1 && !config->secondary_tiers.empty())
    return refuse("--callers: " + std::to_string(options.callers) +
                  " is not allowed with secondary tiers; expected 1: "
                  "a caller keeps its own cascades below their pin shares, several would not");
  auto engine = OffloadEngine::start(*config);
  if (!engine) return refuse(to_string(engine.error()));
  OffloadEngine& running = **engine;
  if (running.metrics_port() != 0 && !options.output.quiet)
    out << "metrics at http://" << running.config().metrics.address << ':' << running.metrics_port()
        << "/metrics, beside it /admission and /healthz" << std::endl;

  Outcome outcome;
  (options.callers > 1 ? play_together : play)(running, options, *trace, outcome);
  settle(running, options, outcome);
  const int status = report(options, running.config(), outcome, out, err);
  out.flush();
  hold_metrics(running, options.metrics_hold_seconds, out);
  if (dir->is_temporary()) cleaning.show("removing temporary files");
  if (running.shutdown()) return status;
  err << "kv-offload-bench: a tier's I/O thread did not end by the shutdown deadline\n";
  return kCheckFailed;
}

}  // namespace kv_offload::bench
