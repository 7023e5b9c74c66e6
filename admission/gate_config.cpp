#include "kv_offload/admission/gate_config.hpp"

#include "kv_offload/admission/backlog.hpp"
#include "kv_offload/admission/circuit_breaker.hpp"
#include "kv_offload/admission/demand.hpp"
#include "kv_offload/admission/load_worth.hpp"
#include "kv_offload/admission/lookup_gates.hpp"
#include "kv_offload/admission/payoff.hpp"
#include "kv_offload/admission/write_budget.hpp"
#include "kv_offload/messages/byte_size.hpp"

#include <algorithm>
#include <string>

namespace kv_offload {
namespace {

// Bounds that no sane setting meets.
constexpr std::int64_t kMaxEvents = 1'000'000;
constexpr std::int64_t kMaxTokens = 1'000'000'000;
// Above 2^53 a double loses whole bytes: bad for the budget's arithmetic, and nobody's size.
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 53;
constexpr std::int64_t kMaxRemembered = 1 << 28;  // 1 GiB of marks
constexpr double kMaxWait = 3600;
constexpr std::int64_t kMaxWindow = 1000;  // one bit each, per tier and direction

// The smallest weight that still moves an average within a day of one event per second.
constexpr double kMinAlpha = 1e-4;

GateMode read_mode(ConfigReader& reader) {
  const std::string mode = reader.choice("mode", "enforce", {"off", "observe", "enforce"});
  return mode == "off" ? GateMode::off : mode == "observe" ? GateMode::observe : GateMode::enforce;
}

std::uint32_t read_count(ConfigReader& reader, const char* key, std::uint32_t fallback,
                         std::int64_t min, std::int64_t max) {
  return static_cast<std::uint32_t>(reader.integer(key, fallback, min, max));
}

void read_breaker(ConfigReader& reader, BreakerOptions& o) {
  o.error_rate = reader.number("error_rate", o.error_rate, 0, 1, true);
  o.window = read_count(reader, "window", o.window, 1, kMaxWindow);
  o.min_completions = read_count(reader, "min_completions", o.min_completions, 1, kMaxWindow);
  o.open_s = reader.number("open_s", o.open_s, 0, kMaxWait, true);
  o.half_open_jobs = read_count(reader, "half_open_jobs", o.half_open_jobs, 1, kMaxWindow);
  o.close_after = read_count(reader, "close_after", o.close_after, 1, kMaxWindow);
  if (reader.failed()) return;
  if (o.min_completions > o.window)
    reader.fail(reader.path_of("min_completions") + ": " + std::to_string(o.min_completions) +
                " is not allowed; expected at most window (" + std::to_string(o.window) + ")");
}

double read_max_wait(ConfigReader& reader, const char* key, double fallback, double open_s) {
  const double wait = reader.number(key, std::max(fallback, open_s), 0, kMaxWait, true);
  if (!reader.failed() && wait < open_s)
    reader.fail(key, ConfigNode(wait), "at least open_s (" + ConfigNode(open_s).text() + ")");
  return wait;
}

/// `tiers`: labels of those that are limited; empty if the key is absent.
std::vector<bool> read_tiers(ConfigReader& reader, const AdmissionEnvironment& environment) {
  const ConfigNode* node = reader.child("tiers");
  if (node == nullptr) return {};
  std::string known;
  for (std::size_t i = 0; i < environment.tiers.size(); ++i)
    known += (i == 0 ? "" : ", ") + environment.label_of(i);
  const std::string allowed = "a list of some of: " + known;
  if (node->list() == nullptr || node->list()->empty()) {
    reader.fail("tiers", *node, allowed);
    return {};
  }
  std::vector<bool> chosen(environment.tiers.size(), false);
  for (const ConfigNode& entry : *node->list()) {
    const auto* label = std::get_if<std::string>(&entry.value());
    bool found = false;
    for (std::size_t i = 0; label != nullptr && i < chosen.size(); ++i) {
      if (environment.label_of(i) != *label) continue;
      chosen[i] = found = true;
    }
    if (!found) reader.fail("tiers", entry, allowed);
  }
  return chosen;
}

}  // namespace

std::unique_ptr<AdmissionPolicy> make_payoff(ConfigReader& reader,
                                             const AdmissionEnvironment& environment) {
  PayoffOptions o;
  o.mode = read_mode(reader);
  o.target = reader.number("target", o.target, 0, 1);
  o.floor = reader.number("floor", o.floor, 0, 1);
  o.alpha = reader.number("alpha", o.alpha, kMinAlpha, 1);
  o.warmup = read_count(reader, "warmup", o.warmup, 0, kMaxEvents);
  o.report_every = read_count(reader, "report_every", o.report_every, 1, kMaxEvents);
  if (reader.failed()) return nullptr;
  return std::make_unique<Payoff>(o, environment);
}

std::unique_ptr<AdmissionPolicy> make_lookup_gate(ConfigReader& reader,
                                                  const AdmissionEnvironment& environment) {
  LookupGateOptions o;
  o.mode = read_mode(reader);
  const auto read = [&](const char* key, std::uint64_t fallback, std::int64_t min,
                        std::int64_t max) {
    return static_cast<std::uint64_t>(
        reader.integer(key, static_cast<std::int64_t>(fallback), min, max));
  };
  o.min_load_tokens = read("min_load_tokens", o.min_load_tokens, 0, kMaxTokens);
  o.cut = reader.number("cut", o.cut, 0, 1, true);
  o.min_issued = read("min_issued", o.min_issued, 0, kMaxEvents);
  o.probe_every = read("probe_every", o.probe_every, 1, kMaxEvents);
  o.alpha = reader.number("alpha", o.alpha, kMinAlpha, 1);
  o.report_every = read_count(reader, "report_every", o.report_every, 1, kMaxEvents);
  if (reader.failed()) return nullptr;
  return std::make_unique<LookupGates>(o, environment);
}

std::unique_ptr<AdmissionPolicy> make_demand(ConfigReader& reader,
                                             const AdmissionEnvironment& environment) {
  DemandOptions o;
  o.mode = read_mode(reader);
  o.target = reader.number("target", o.target, 0, 1);
  o.grace_bytes = read_bytes(reader, "grace_bytes", o.grace_bytes, 0, kMaxBytes);
  o.horizon_chunks = read_count(reader, "horizon_chunks", o.horizon_chunks, 1, kMaxRemembered);
  o.memory_chunks = read_count(reader, "memory_chunks", o.memory_chunks, 1024, kMaxRemembered);
  o.spend_share = reader.number("spend_share", o.spend_share, 0, 1);
  if (reader.failed()) return nullptr;
  return std::make_unique<Demand>(o, environment);
}

std::unique_ptr<AdmissionPolicy> make_load_worth(ConfigReader& reader,
                                                 const AdmissionEnvironment& environment) {
  LoadWorthOptions o;
  o.mode = read_mode(reader);
  o.device_share = reader.number("device_share", o.device_share, 0, 1, true);
  o.wait_share = reader.number("wait_share", o.wait_share, 0, 1);
  o.probe_every = read_count(reader, "probe_every", o.probe_every, 1, kMaxEvents);
  o.probe_chunks = read_count(reader, "probe_chunks", o.probe_chunks, 1, kMaxEvents);
  o.memory_chunks = read_count(reader, "memory_chunks", o.memory_chunks, 1024, kMaxRemembered);
  if (reader.failed()) return nullptr;
  return std::make_unique<LoadWorth>(o, environment);
}

std::unique_ptr<AdmissionPolicy> make_backlog(ConfigReader& reader,
                                              const AdmissionEnvironment& environment) {
  BacklogOptions o;
  o.mode = read_mode(reader);
  // Half: what was admitted at a good rate may meet a worse one.
  o.max_queued_s =
      reader.number("max_queued_s", environment.store_deadline_s / 2, 0, kMaxWait, true);
  o.half_life_s = reader.number("half_life_s", o.half_life_s, 0, kMaxWait, true);
  if (reader.failed()) return nullptr;
  return std::make_unique<Backlog>(o, environment);
}

std::unique_ptr<AdmissionPolicy> make_write_budget(ConfigReader& reader,
                                                   const AdmissionEnvironment& environment) {
  WriteBudgetOptions o;
  o.mode = read_mode(reader);
  // One write a day of a 1 TiB drive: the endurance that read-intensive flash is commonly sold
  // with.
  o.bytes_per_day = read_bytes(reader, "bytes_per_day", std::uint64_t{1} << 40, 2, kMaxBytes);
  // An hour's worth: long enough for a burst, short enough that a day is never spent in one.
  const std::uint64_t hour = std::max<std::uint64_t>(1, o.bytes_per_day / 24);
  o.peak_bytes = read_bytes(reader, "peak_bytes", hour, 1, kMaxBytes);
  o.tiers = read_tiers(reader, environment);
  if (reader.failed()) return nullptr;
  if (o.peak_bytes >= o.bytes_per_day) {
    reader.fail(reader.path_of("peak_bytes") + ": " + format_bytes(o.peak_bytes) +
                " is not allowed; expected below bytes_per_day (" + format_bytes(o.bytes_per_day) +
                ")");
    return nullptr;
  }
  // A job above the peak never passes.
  if (o.peak_bytes < environment.chunk_bytes) {
    const bool derived = reader.child("peak_bytes") == nullptr;
    reader.fail(reader.path_of(derived ? "bytes_per_day" : "peak_bytes") + ": " +
                format_bytes(derived ? o.bytes_per_day : o.peak_bytes) +
                " is not allowed; expected at least " + (derived ? "24 chunks" : "one chunk") +
                " (" + format_bytes(environment.chunk_bytes * (derived ? 24 : 1)) +
                (derived ? "), or peak_bytes" : ")"));
    return nullptr;
  }
  return std::make_unique<WriteBudget>(o, environment);
}

std::unique_ptr<AdmissionPolicy> make_circuit_breaker(ConfigReader& reader,
                                                      const AdmissionEnvironment& environment) {
  CircuitBreakerOptions o;
  o.mode = read_mode(reader);
  read_breaker(reader, o.cascades);
  o.promotions = o.cascades;
  o.cascades.max_open_s = read_max_wait(reader, "max_open_cascades_s", 10, o.cascades.open_s);
  o.promotions.max_open_s = read_max_wait(reader, "max_open_promotions_s",
                                          BreakerOptions{}.max_open_s, o.promotions.open_s);
  if (reader.failed()) return nullptr;
  return std::make_unique<CircuitBreaker>(o, environment);
}

}  // namespace kv_offload
