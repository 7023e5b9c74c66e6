#include "kv_offload/bench/report.hpp"

#include "kv_offload/bench/text_table.hpp"
#include "kv_offload/messages/tier_traits.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <ostream>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <thread>

#ifndef KV_OFFLOAD_VERSION
#define KV_OFFLOAD_VERSION "unknown"
#endif

namespace kv_offload::bench {
namespace {

template <class Enum, std::size_t N>
std::uint64_t sum(const std::array<Amount, N>& amounts, const char* group, Json& reasons) {
  std::uint64_t chunks = 0;
  for (std::size_t i = 0; i < N; ++i) {
    if (amounts[i].chunks == 0) continue;
    chunks += amounts[i].chunks;
    Json& reason = reasons[group][std::string(to_string(static_cast<Enum>(i)))];
    reason = (reason.is_null() ? 0 : reason.get<std::uint64_t>()) + amounts[i].chunks;
  }
  return chunks;
}

TierReport secondary_report(const EngineStats& stats, std::size_t tier) {
  TierReport report;
  if (tier < stats.scheduler.offers.size()) {
    const OfferTotals& offers = stats.scheduler.offers[tier];
    report.refused = sum<RefusalReason>(offers.cascades_refused, "refused", report.reasons) +
                     sum<RefusalReason>(offers.promotions_refused, "refused", report.reasons);
    report.dropped = sum<DropReason>(offers.cascades_dropped, "dropped", report.reasons) +
                     sum<DropReason>(offers.promotions_dropped, "dropped", report.reasons);
    // Shared work is not given up: whoever joined gets the chunk from the load it joined.
    report.joined = offers.promotions_dropped[static_cast<std::size_t>(DropReason::joined)].chunks;
    report.dropped -= report.joined;
  }
  if (tier < stats.tracker.tiers.size()) {
    const TransferTotals& moved = stats.tracker.tiers[tier];
    report.read_bytes = moved.read_bytes;
    report.written_bytes = moved.write_bytes;
    report.stored = moved.stored.chunks;
    report.already_present = moved.already_present.chunks;
    report.loaded = moved.loaded.chunks;
    report.failed = sum<TransferFailure>(moved.store_failed, "store_failed", report.reasons) +
                    sum<TransferFailure>(moved.load_failed, "load_failed", report.reasons);
    report.disabled = moved.disabled;
  }
  if (tier < stats.tiers.size()) report.corrupt = stats.tiers[tier].corrupt_chunks;
  return report;
}

std::string rate(std::uint64_t bytes, double seconds) {
  return seconds > 0 ? fixed(static_cast<double>(bytes) / 1048576 / seconds, 0) + " MiB/s" : "-";
}

}  // namespace

std::vector<TierReport> tier_reports(const EngineStats& stats,
                                     const std::vector<std::uint64_t>& hit_chunks) {
  std::vector<TierReport> reports;
  for (std::size_t i = 0; i < stats.tier_labels.size(); ++i) {
    TierReport report = i == 0 ? TierReport() : secondary_report(stats, i - 1);
    if (i == 0) {
      report.read_bytes = stats.scheduler.device_loaded_chunks * stats.chunk_bytes;
      report.written_bytes = stats.scheduler.device_stored_chunks * stats.chunk_bytes;
      report.stored = stats.scheduler.device_stored_chunks;
      report.loaded = stats.scheduler.device_loaded_chunks;
    }
    report.label = stats.tier_labels[i];
    report.hit_chunks = i < hit_chunks.size() ? hit_chunks[i] : 0;
    reports.push_back(std::move(report));
  }
  return reports;
}

Json document_head(double wall_seconds) {
  utsname name{};
  Json head;
  head["version"] = version();
  head["machine"] = {{"cores", std::thread::hardware_concurrency()},
                     {"kernel", ::uname(&name) == 0 ? name.release : "unknown"}};
  head["wall_seconds"] = wall_seconds;
  return head;
}

Json to_json(const std::vector<TierReport>& tiers) {
  Json object = Json::object();
  for (const auto& t : tiers) {
    object[t.label] = {{"hit_chunks", t.hit_chunks},
                       {"read_bytes", t.read_bytes},
                       {"written_bytes", t.written_bytes},
                       {"refused", t.refused},
                       {"dropped", t.dropped},
                       {"failed", t.failed},
                       {"joined", t.joined},
                       {"stored", t.stored},
                       {"already_present", t.already_present},
                       {"loaded", t.loaded},
                       {"corrupt", t.corrupt},
                       {"disabled", t.disabled},
                       {"reasons", t.reasons}};
  }
  return object;
}

Json to_json(const std::vector<PromiseCheck>& promises) {
  Json list = Json::array();
  for (const auto& promise : promises) {
    Json entry = {{"number", promise.number}, {"name", promise.name}, {"held", promise.held}};
    if (!promise.why.empty()) entry["why"] = promise.why;
    list.push_back(std::move(entry));
  }
  return list;
}

Json to_json(const LatencyRecorder& latency) {
  return {{"count", latency.count()},
          {"p50_us", latency.quantile_us(0.50)},
          {"p90_us", latency.quantile_us(0.90)},
          {"p99_us", latency.quantile_us(0.99)},
          {"p999_us", latency.quantile_us(0.999)},
          {"max_us", latency.max_us()}};
}

Json actors_json(const EngineStats& stats) {
  Json actors = Json::object();
  const auto add = [&](const std::string& name, const ActorTotals& totals) {
    actors[name] = {{"messages", totals.messages},
                    {"foreign_executions", totals.foreign_executions}};
  };
  add("scheduler_step", stats.scheduler.actor);
  add("primary_tier", stats.primary.actor);
  add("admission_controller", stats.admission.actor);
  add("job_tracker", stats.tracker.actor);
  for (std::size_t t = 0; t < stats.tiers.size(); ++t)
    add("secondary_tier[" +
            (t + 1 < stats.tier_labels.size() ? stats.tier_labels[t + 1] : std::to_string(t + 1)) +
            "]",
        stats.tiers[t].actor);
  add("engine_metrics", stats.metrics);
  add("engine_supervisor", stats.supervisor);
  return actors;
}

void print_tiers(std::ostream& out, const std::vector<TierReport>& tiers,
                 std::uint64_t chunk_references, double wall_seconds) {
  TextTable table;
  table.row({"tier", "hits", "share", "read", "", "written", "", "refused", "dropped", "failed"});
  for (const auto& t : tiers)
    table.row({t.label, with_commas(t.hit_chunks), share_text(t.hit_chunks, chunk_references),
               human_bytes(static_cast<double>(t.read_bytes)), rate(t.read_bytes, wall_seconds),
               human_bytes(static_cast<double>(t.written_bytes)),
               rate(t.written_bytes, wall_seconds), with_commas(t.refused), with_commas(t.dropped),
               with_commas(t.failed)});
  table.print(out);
  for (const auto& t : tiers) {
    if (!t.reasons.empty()) out << t.label << " reasons: " << t.reasons.dump() << '\n';
    if (t.disabled) out << t.label << " is disabled\n";
  }
}

void print_promises(std::ostream& out, const std::vector<PromiseCheck>& promises) {
  for (const auto& promise : promises) {
    out << "promise " << promise.number << "  " << (promise.held ? "held  " : "BROKEN") << "  "
        << promise.name;
    if (!promise.why.empty()) out << ": " << promise.why;
    out << '\n';
  }
}

bool all_held(const std::vector<PromiseCheck>& promises) {
  return std::all_of(promises.begin(), promises.end(), [](const auto& p) { return p.held; });
}

std::string describe(const EngineConfig& config) {
  std::string text = human_bytes(static_cast<double>(config.chunk_bytes)) + " chunks, primary " +
                     with_commas(config.num_chunks()) + " chunks (" +
                     human_bytes(static_cast<double>(config.cpu_bytes_to_use)) + ", " +
                     config.eviction_policy + ")";
  for (std::size_t t = 0; t < config.secondary_tiers.size(); ++t)
    text += ", " + tier_label(static_cast<TierIndex>(t), config.secondary_tiers[t].type);
  return text;
}

std::uint64_t peak_rss_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;  // Linux counts it in KiB
}

std::string version() { return KV_OFFLOAD_VERSION; }

std::optional<std::string> check_writable(const std::optional<std::string>& file,
                                          const std::string& option) {
  if (!file) return std::nullopt;
  const std::ofstream probe(*file, std::ios::app);
  if (probe) return std::nullopt;
  return option + ": " + *file + ": " + std::strerror(errno);
}

std::optional<std::string> write_json(const std::optional<std::string>& file,
                                      const Json& document) {
  if (!file) return std::nullopt;
  std::ofstream out(*file, std::ios::trunc);
  out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  out.flush();
  if (out) return std::nullopt;
  return "--json: " + *file + ": " + std::strerror(errno);
}

}  // namespace kv_offload::bench
