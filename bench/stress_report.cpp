#include "kv_offload/bench/stress_report.hpp"

#include "kv_offload/bench/text_table.hpp"

#include <ostream>

namespace kv_offload::bench {
namespace {

double late_share(const RequestTimes& t) {
  return t.scheduled == 0 ? 0.0 : static_cast<double>(t.late) / static_cast<double>(t.scheduled);
}

void add_arrivals(TextTable& head, const RequestTimes& t) {
  head.row({"arrivals", with_commas(t.scheduled)});
  head.row({"of these late", with_commas(t.late) + " (" + fixed(late_share(t) * 100, 1) + " %)"});
  head.row({"of these not begun", with_commas(t.not_begun)});
  head.row({"most behind schedule", human_us(to_seconds(t.behind_max) * 1e6)});
}

void print_latencies(std::ostream& out, const StressFindings& found) {
  const CallerTotals& t = found.callers;
  TextTable table;
  table.row({"latency", "count", "p50", "p90", "p99", "p99.9", "max"});
  const auto row = [&](const char* name, const LatencyRecorder& recorder) {
    table.row({name, with_commas(recorder.count()), human_us(recorder.quantile_us(0.5)),
               human_us(recorder.quantile_us(0.9)), human_us(recorder.quantile_us(0.99)),
               human_us(recorder.quantile_us(0.999)), human_us(recorder.max_us())});
  };
  const bool open_loop = t.request_times.scheduled > 0;
  if (open_loop) row("request, from arrival", t.request_times.from_arrival);
  row("request", t.request_times.service);
  if (open_loop) row("lookup, from arrival", t.lookup_from_arrival);
  row("lookup", t.lookup);
  row("prepare load", t.load);
  row("prepare store", t.store);
  row("canary", found.canary_latency);
  row("canary overslept", found.canary_overslept);
  table.print(out);
  if (t.request_times.not_begun > 0)
    out << "The rate was not kept: " << with_commas(t.request_times.not_begun)
        << " requests had not begun at the end. They have no latency, so those from arrival are "
           "lower bounds.\n";
}

/// Each domain's callers, and what crossed to another domain's memory for them.
void print_domains(std::ostream& out, const StressThreads& threads, const StressFindings& found) {
  TextTable table;
  table.row({"domain", "threads", "requests", "hit share", "lookup p50", "p99", "prepare store p50",
             "p99", "stored elsewhere", "read elsewhere"});
  for (std::size_t d = 0; d < found.by_domain.size() && d < found.stats.domains.size(); ++d) {
    const auto& t = found.by_domain[d];
    const auto& crossed = found.stats.domains[d];
    table.row(
        {std::to_string(d) + (threads.domains().pins
                                  ? ", node " + std::to_string(threads.domains().domains[d].node)
                                  : std::string(", not pinned")),
         std::to_string(threads.per_domain()), with_commas(t.requests),
         share_text(t.hit_chunks, t.chunk_references), human_us(t.lookup.quantile_us(0.5)),
         human_us(t.lookup.quantile_us(0.99)), human_us(t.store.quantile_us(0.5)),
         human_us(t.store.quantile_us(0.99)), with_commas(crossed.remote_stored_chunks),
         with_commas(crossed.remote_loaded_chunks)});
  }
  table.print(out);
}

Json domains_json(const StressThreads& threads, const StressFindings& found) {
  Json list = Json::array();
  for (std::size_t d = 0; d < found.by_domain.size() && d < found.stats.domains.size(); ++d) {
    const auto& t = found.by_domain[d];
    const auto& crossed = found.stats.domains[d];
    list.push_back({{"node", threads.domains().domains[d].node},
                    {"cpus", threads.domains().domains[d].cpus},
                    {"pinned", threads.domains().pins},
                    {"threads", threads.per_domain()},
                    {"requests", t.requests},
                    {"chunk_references", t.chunk_references},
                    {"hit_chunks", t.hit_chunks},
                    {"remote_stored_chunks", crossed.remote_stored_chunks},
                    {"remote_loaded_chunks", crossed.remote_loaded_chunks},
                    {"latency",
                     {{"request", to_json(t.request_times.service)},
                      {"lookup", to_json(t.lookup)},
                      {"prepare_load", to_json(t.load)},
                      {"prepare_store", to_json(t.store)}}}});
  }
  return list;
}

Json arrivals_json(const StressOptions& options, const RequestTimes& t) {
  return {{"rate_per_s", *options.requests_per_s},
          {"spacing", options.spacing == ArrivalSpacing::even ? "even" : "poisson"},
          {"scheduled", t.scheduled},
          {"late", t.late},
          {"late_share", late_share(t)},
          {"not_begun", t.not_begun},
          {"behind_max_us", to_seconds(t.behind_max) * 1e6}};
}

}  // namespace

void print_stress(std::ostream& out, const StressOptions& options, const StressThreads& threads,
                  const EngineConfig& config, const StressFindings& found) {
  const CallerTotals& t = found.callers;
  out << "stress with " << threads.count() << " threads, seed " << options.seed << ": "
      << describe(config) << "\n\n";
  TextTable head;
  head.row({"requests", with_commas(t.requests)});
  head.row({"chunk references", with_commas(t.chunk_references)});
  head.row({"hit chunks", with_commas(t.hit_chunks)});
  head.row({"hit share", share_text(t.hit_chunks, t.chunk_references)});
  head.row({"stores without room", with_commas(t.no_space)});
  head.row({"aborted requests", with_commas(t.aborts)});
  for (const auto& [code, count] : t.expected_errors) head.row({code, with_commas(count)});
  if (options.requests_per_s) add_arrivals(head, t.request_times);
  head.row({"events", with_commas(found.slots.stored() + found.slots.removed())});
  head.row({"wall time", fixed(found.wall_seconds, 2) + " s"});
  head.row({"peak memory", human_bytes(static_cast<double>(peak_rss_bytes()))});
  head.print(out);
  out << '\n';
  print_tiers(out, tier_reports(found.stats, t.tier_hits), t.chunk_references, found.wall_seconds);
  out << '\n';
  print_latencies(out, found);
  if (!found.by_domain.empty()) {
    out << '\n';
    print_domains(out, threads, found);
  }
  out << '\n'
      << with_commas(t.mismatches) << " mismatches (" << with_commas(t.verified_chunks)
      << " chunks compared)\n";
}

Json stress_document(const StressOptions& options, const StressThreads& threads,
                     const StressFindings& found, const std::vector<PromiseCheck>& promises) {
  const CallerTotals& t = found.callers;
  Json json = document_head(found.wall_seconds);
  json["promises"] = to_json(promises);
  json["problems"] = found.problems;
  json["threads"] = threads.count();
  if (!found.by_domain.empty()) json["domains"] = domains_json(threads, found);
  json["seed"] = options.seed;
  json["faults"] = options.faults;
  json["break"] = options.break_promise;
  json["requests"] = t.requests;
  json["chunk_references"] = t.chunk_references;
  json["hit_chunks"] = t.hit_chunks;
  json["hit_share"] = t.chunk_references == 0 ? 0.0
                                              : static_cast<double>(t.hit_chunks) /
                                                    static_cast<double>(t.chunk_references);
  json["mismatches"] = t.mismatches;
  json["peak_rss_bytes"] = peak_rss_bytes();
  json["verified_chunks"] = t.verified_chunks;
  json["loaded_chunks"] = t.loaded_chunks;
  json["stored_chunks"] = t.stored_chunks;
  json["no_space"] = t.no_space;
  json["aborts"] = t.aborts;
  json["call_errors"] = t.call_errors;
  json["errors"] = t.expected_errors;
  if (options.requests_per_s) json["arrivals"] = arrivals_json(options, t.request_times);
  json["latency"] = {{"request", to_json(t.request_times.service)},
                     {"lookup", to_json(t.lookup)},
                     {"prepare_load", to_json(t.load)},
                     {"prepare_store", to_json(t.store)},
                     {"canary", to_json(found.canary_latency)}};
  if (options.requests_per_s) {
    json["latency"]["request_from_arrival"] = to_json(t.request_times.from_arrival);
    json["latency"]["lookup_from_arrival"] = to_json(t.lookup_from_arrival);
  }
  json["actors"] = actors_json(found.stats);
  json["tiers"] = to_json(tier_reports(found.stats, t.tier_hits));
  return json;
}

}  // namespace kv_offload::bench
