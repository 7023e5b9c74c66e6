#include "kv_offload/bench/replay_engines.hpp"

#include "kv_offload/bench/progress.hpp"
#include "kv_offload/bench/report.hpp"
#include "kv_offload/bench/text_table.hpp"

#include <algorithm>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

namespace kv_offload::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Part {
  std::unique_ptr<OffloadEngine> engine;
  std::unique_ptr<ReplayDriver> driver;
  EngineStats stats;
};

struct Sums {
  std::uint64_t requests = 0, chunk_references = 0, hit_chunks = 0, mismatches = 0;
  std::vector<PromiseCheck> promises;
  std::vector<std::string> problems;
  double wall_seconds = 0;
};

std::string engine_name(std::size_t i) { return "engine " + std::to_string(i + 1); }

Expected<std::vector<Part>> start_engines(const ReplayOptions& options, const EngineConfig& config) {
  std::vector<Part> parts(options.engines);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EngineConfig own = config;
    if (i > 0) own.metrics.port.reset();  // a port has one owner
    if (i > 0) own.admission_state_file.clear();
    auto engine = OffloadEngine::start(own);
    if (!engine) return OffloadError{engine.error().code, engine_name(i) + ": " + engine.error().detail};
    parts[i].engine = std::move(*engine);
    parts[i].driver = std::make_unique<ReplayDriver>(*parts[i].engine, options.mode);
  }
  return parts;
}

void play(const ReplayOptions& options, const Trace& trace, std::vector<Part>& parts, Sums& sums) {
  ProgressLine progress(!options.output.quiet);
  const auto start = Clock::now();
  for (std::size_t i = 0; i < trace.size() && !interrupted(); ++i) {
    Part& part = parts[i % parts.size()];
    if (!part.engine->failed_state().empty()) break;
    part.driver->step(trace[i]);
    part.driver->settle();
    if (progress.due()) progress.show(with_commas(i + 1) + " of " + with_commas(trace.size()) + " requests");
  }
  progress.finish();
  sums.wall_seconds = to_seconds(Clock::now() - start);
}

void add_up(std::vector<Part>& parts, Sums& sums) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Part& part = parts[i];
    const auto problem = [&](const std::string& what) { sums.problems.push_back(engine_name(i) + ": " + what); };
    if (const auto drained = part.engine->drain().get(); !drained) problem("drain: " + to_string(drained.error()));
    auto stats = part.engine->stats().get();
    if (!stats) {
      problem("stats: " + to_string(stats.error()));
      continue;
    }
    part.stats = std::move(*stats);
    const ReplayTotals& totals = part.driver->totals();
    sums.requests += totals.requests;
    sums.chunk_references += totals.chunk_references;
    sums.hit_chunks += totals.hit_chunks;
    sums.mismatches += totals.mismatches;
    for (PromiseCheck& check : check_promises(part.stats, /*idle=*/true)) {
      check.name = engine_name(i) + ": " + check.name;
      sums.promises.push_back(std::move(check));
    }
    if (totals.mismatches > 0)
      sums.promises.push_back({1, engine_name(i) + ": every byte read was verified and is its key's", false,
                               with_commas(totals.mismatches) + " chunks differ, first: " + totals.first_mismatch});
    if (totals.call_errors > 0)
      problem(with_commas(totals.call_errors) + " calls failed, first: " + totals.first_error);
    if (const auto failed = part.engine->failed_state(); !failed.empty()) problem("the engine failed: " + failed);
  }
  if (interrupted()) sums.problems.emplace_back("interrupted");
}

Json document(const std::vector<Part>& parts, const Sums& sums) {
  Json json = document_head(sums.wall_seconds);
  json["promises"] = to_json(sums.promises);
  json["problems"] = sums.problems;
  json["requests"] = sums.requests;
  json["chunk_references"] = sums.chunk_references;
  json["hit_chunks"] = sums.hit_chunks;
  json["hit_share"] = sums.chunk_references == 0 ? 0.0
                                                 : static_cast<double>(sums.hit_chunks) /
                                                       static_cast<double>(sums.chunk_references);
  json["mismatches"] = sums.mismatches;
  json["peak_rss_bytes"] = peak_rss_bytes();
  json["engines"] = Json::array();
  for (const Part& part : parts) {
    const ReplayTotals& totals = part.driver->totals();
    json["engines"].push_back({{"requests", totals.requests},
                               {"chunk_references", totals.chunk_references},
                               {"hit_chunks", totals.hit_chunks},
                               {"actors", actors_json(part.stats)},
                               {"tiers", to_json(tier_reports(part.stats, totals.tier_hits))}});
  }
  return json;
}

}  // namespace

int run_replay_engines(const ReplayOptions& options, const EngineConfig& config, const Trace& trace,
                       std::ostream& out, std::ostream& err) {
  auto started = start_engines(options, config);
  if (!started) {
    err << "kv-offload-bench: " << to_string(started.error()) << '\n';
    return kUsageError;
  }
  std::vector<Part>& parts = *started;
  Sums sums;
  play(options, trace, parts, sums);
  add_up(parts, sums);
  if (!options.output.quiet) {
    out << parts.size() << " engines, requests in turn: " << describe(config) << "\n\n";
    TextTable head;
    head.row({"requests", with_commas(sums.requests)});
    head.row({"chunk references", with_commas(sums.chunk_references)});
    head.row({"hit chunks", with_commas(sums.hit_chunks)});
    head.row({"hit share", share_text(sums.hit_chunks, sums.chunk_references)});
    head.row({"mismatches", with_commas(sums.mismatches)});
    head.row({"wall time", fixed(sums.wall_seconds, 2) + " s"});
    head.print(out);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const ReplayTotals& totals = parts[i].driver->totals();
      out << '\n' << engine_name(i) << ", " << with_commas(totals.requests) << " requests\n";
      print_tiers(out, tier_reports(parts[i].stats, totals.tier_hits), totals.chunk_references, sums.wall_seconds);
    }
    out << '\n';
    print_promises(out, sums.promises);
  }
  for (const auto& check : sums.promises)
    if (!check.held && options.output.quiet)
      err << "promise " << check.number << " BROKEN: " << check.name << ": " << check.why << '\n';
  for (const auto& problem : sums.problems) err << "kv-offload-bench: " << problem << '\n';
  int status = all_held(sums.promises) && sums.problems.empty() ? kHeld : kCheckFailed;
  if (const auto error = write_json(options.output.json_file, document(parts, sums))) {
    err << "kv-offload-bench: " << *error << '\n';
    status = kUsageError;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].engine->shutdown()) continue;
    err << "kv-offload-bench: " << engine_name(i) << ": a tier's I/O thread did not end by the shutdown deadline\n";
    status = kCheckFailed;
  }
  return status;
}

}  // namespace kv_offload::bench
