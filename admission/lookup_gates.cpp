#include "kv_offload/admission/lookup_gates.hpp"

#include "kv_offload/admission/policy_series.hpp"
#include "kv_offload/admission/text_format.hpp"

#include <utility>

namespace kv_offload {
namespace {

struct Counter {
  const char* name;
  const char* help;
  const char* when;
  double (*value)(const LookupGate::Totals&);
};

template <auto Member>
double of(const LookupGate::Totals& totals) {
  return static_cast<double>(totals.*Member);
}

using Totals = LookupGate::Totals;
constexpr Counter kCounters[] = {
    {"kv_offload_lookup_gate_lookups_total", "Lookups of requests in the tier", "one is started",
     of<&Totals::lookups>},
    {"kv_offload_lookup_gate_lookup_seconds_total", "Seconds that lookups in the tier took",
     "one is answered or given up", of<&Totals::lookup_seconds>},
    {"kv_offload_lookup_gate_answers_total", "Answered lookups in the tier, misses included",
     "one is answered", of<&Totals::answers>},
    {"kv_offload_lookup_gate_actionable_answers_total",
     "Lookups in the tier whose answer was worth a load", "one is answered",
     of<&Totals::actionable>},
    {"kv_offload_lookup_gate_skips_total",
     "Lookups that were skipped because no answer could have been worth a load", "it is decided",
     of<&Totals::skips>},
    {"kv_offload_lookup_gate_would_skip_total",
     "Lookups that the observing gate would have skipped", "it is decided",
     of<&Totals::would_skip>},
    {"kv_offload_lookup_gate_forced_lookups_total",
     "Lookups that could have been skipped and were made to keep the estimate fed", "it is decided",
     of<&Totals::forced>},
    {"kv_offload_lookup_gate_avoided_tokens_total", "Tokens of prompts whose lookup was skipped",
     "it is decided", of<&Totals::avoided_tokens>},
};

constexpr const char* kActionable = "kv_offload_lookup_gate_actionable_rate";
constexpr const char* kRate = "kv_offload_lookup_gate_requests_per_second";

}  // namespace

LookupGates::LookupGates(LookupGateOptions options, AdmissionEnvironment environment)
    : options_(options), environment_(std::move(environment)) {
  options_.tokens_per_chunk = environment_.tokens_per_chunk;
  gates_.assign(environment_.tiers.size(), LookupGate(options_));
}

void LookupGates::reset() { gates_.assign(gates_.size(), LookupGate(options_)); }

std::vector<MetricSample> LookupGates::stats(MonotonicTime now) const {
  std::vector<MetricSample> samples;
  for (std::size_t i = 0; i < gates_.size(); ++i) {
    const MetricLabels labels = {{"tier", environment_.label_of(i)}};
    samples.push_back({kActionable, labels, gates_[i].actionable_rate()});
    samples.push_back({kRate, labels, gates_[i].lookups_per_second(now)});
    for (const Counter& counter : kCounters)
      samples.push_back({counter.name, labels, counter.value(gates_[i].totals())});
  }
  return samples;
}

std::vector<MetricDefinition> LookupGates::metric_definitions() const {
  std::vector<MetricDefinition> definitions = {
      declare_gauge(kActionable,
                    "moving average share of lookups in the tier whose answer was worth a load",
                    {"tier"}),
      declare_gauge(kRate,
                    "requests per second that ask about the tier, over about the last minute",
                    {"tier"}),
  };
  for (const Counter& counter : kCounters)
    definitions.push_back(declare_counter(counter.name, counter.help, counter.when, {"tier"}));
  return definitions;
}

std::vector<PolicySetting> LookupGates::settings() const {
  return {{"mode", std::string(to_string(options_.mode)), ""},
          {"min_load_tokens", std::to_string(options_.min_load_tokens), "tokens"},
          {"cut", formatted("%g", options_.cut), ""},
          {"min_issued", std::to_string(options_.min_issued), "lookups"},
          {"probe_every", std::to_string(options_.probe_every), "skippable requests"},
          {"alpha", formatted("%g", options_.alpha), ""},
          {"report_every", std::to_string(options_.report_every), "lookups and skips"}};
}

std::vector<GateReport> LookupGates::gate_reports(MonotonicTime now) const {
  std::vector<GateReport> reports;
  for (std::size_t i = 0; i < gates_.size(); ++i)
    reports.push_back(gates_[i].report(environment_.label_of(i), now));
  return reports;
}

}  // namespace kv_offload
