// What the circuit breaker shows: series, settings, and the line that says what it does and why.
#include "kv_offload/admission/circuit_breaker.hpp"
#include "kv_offload/admission/policy_series.hpp"
#include "kv_offload/admission/text_format.hpp"

#include <string>

namespace kv_offload {
namespace {

constexpr const char* kState = "kv_offload_circuit_breaker_state";
constexpr const char* kErrorRate = "kv_offload_circuit_breaker_error_rate";
constexpr const char* kProbes = "kv_offload_circuit_breaker_probes_inflight";
constexpr const char* kOpenings = "kv_offload_circuit_breaker_openings_total";
constexpr const char* kRefused = "kv_offload_circuit_breaker_refused_decisions_total";
constexpr const char* kWould = "kv_offload_circuit_breaker_would_refuse_decisions_total";

std::string direction_of(bool is_promotion) { return is_promotion ? "promotion" : "cascade"; }

}  // namespace

std::vector<MetricSample> CircuitBreaker::stats(MonotonicTime now) const {
  std::vector<MetricSample> samples;
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    const Side& side = sides_[i];
    const MetricLabels labels = {{"tier", environment_.label_of(i / 2)},
                                 {"direction", direction_of(i % 2 == 1)}};
    const auto add = [&](const char* name, double value) {
      samples.push_back({name, labels, value});
    };
    add(kState, static_cast<double>(side.breaker.state(now)));
    add(kErrorRate, side.breaker.error_rate());
    add(kProbes, side.probes_in_flight);
    add(kOpenings, static_cast<double>(side.breaker.openings()));
    add(kRefused, static_cast<double>(side.refused_jobs));
    add(kWould, static_cast<double>(side.would_refuse_jobs));
  }
  return samples;
}

std::vector<MetricDefinition> CircuitBreaker::metric_definitions() const {
  const std::vector<std::string> labels = {"tier", "direction"};
  return {
      declare_gauge(kState, "0 while jobs pass, 1 while only probes do, 2 while none does", labels),
      declare_gauge(kErrorRate, "share of the latest jobs that failed", labels),
      declare_gauge(kProbes, "probe jobs in flight", labels),
      declare_counter(kOpenings, "Changes of the circuit breaker to open", "it opens", labels),
      declare_counter(kRefused,
                      "Cascade jobs and promotion chunks that the circuit breaker refused",
                      "it is asked", labels),
      declare_counter(kWould,
                      "Cascade jobs and promotion chunks that the observing circuit breaker would "
                      "have refused",
                      "it is asked", labels),
  };
}

std::vector<PolicySetting> CircuitBreaker::settings() const {
  const BreakerOptions& o = options_.cascades;
  return {{"mode", std::string(to_string(options_.mode)), ""},
          {"error_rate", formatted("%g", o.error_rate), ""},
          {"window", std::to_string(o.window), "jobs"},
          {"min_completions", std::to_string(o.min_completions), "jobs"},
          {"open_s", formatted("%g", o.open_s), "s"},
          {"max_open_cascades_s", formatted("%g", o.max_open_s), "s"},
          {"max_open_promotions_s", formatted("%g", options_.promotions.max_open_s), "s"},
          {"half_open_jobs", std::to_string(o.half_open_jobs), "jobs"},
          {"close_after", std::to_string(o.close_after), "jobs"}};
}

std::vector<GateReport> CircuitBreaker::gate_reports(MonotonicTime now) const {
  std::vector<GateReport> reports;
  for (std::size_t i = 0; i + 1 < sides_.size(); i += 2) {
    GateReport report{"circuit_breaker", environment_.label_of(i / 2), options_.mode, {}, {}, 0};
    bool is_closed = true, is_warm = false;
    for (const std::size_t side : {i, i + 1}) {
      const Breaker& b = sides_[side].breaker;
      const BreakerState state = b.state(now);
      is_closed = is_closed && state == BreakerState::closed;
      is_warm = is_warm || b.completions() >= b.options().min_completions;
      if (!report.text.empty()) report.text += "; ";
      report.text +=
          formatted("%s %s, %.0f %% of the last %u jobs failed, opened %llu times",
                    side == i ? "cascades" : "promotions", to_string(state).data(),
                    100 * b.error_rate(), b.completions(), kv_offload::count(b.openings()));
      if (state == BreakerState::open) report.text += formatted(", waits %g s", b.wait_s());
    }
    report.status = options_.mode == GateMode::off ? GateStatus::off
                    : !is_closed                   ? GateStatus::refusing
                    : is_warm                      ? GateStatus::nothing_to_refuse
                                                   : GateStatus::warming_up;
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace kv_offload
