#pragma once

#include "kv_offload/messages/engine_stats.hpp"
#include "kv_offload/messages/load_verdict.hpp"

#include <array>
#include <string>
#include <string_view>

// What both forms of the admission page read. Inside admission_page only.
namespace kv_offload::admission_page {

/// How to read the numbers; part of the page, because they mislead whoever does not know.
inline constexpr std::array<std::string_view, 3> kNotes = {
    "save_share is the realised share, saved / (saved + declined): it reads 1 while nothing was "
    "declined, whatever the payoff. Read payoff and computed_share.",
    "payoff dips far below its later level while a workload ramps up: a target between the dip and "
    "the steady state declines stores during the ramp; warmup bounds only the first verdicts.",
    "warmup, alpha, min_issued, probe_every and report_every count events: what they are in "
    "seconds "
    "moves with the rate of verdicts and lookups shown here."};

inline std::string_view meaning(const GateReport& report) {
  switch (report.status) {
    case GateStatus::off: return "measures, refuses nothing";
    case GateStatus::warming_up: return "enabled, too few events yet";
    case GateStatus::nothing_to_refuse: return "enabled, nothing to refuse";
    case GateStatus::unreachable: return "enabled, structurally unreachable";
    case GateStatus::refusing: break;
  }
  return report.mode == GateMode::observe ? "enabled, would refuse" : "enabled, refuses";
}

inline std::string_view direction(bool is_promotion) {
  return is_promotion ? "promotion" : "cascade";
}

inline std::string label_of(const EngineStats& stats, TierIndex tier) {
  const std::size_t at = std::size_t{tier} + 1;
  return at < stats.tier_labels.size() ? stats.tier_labels[at] : std::to_string(at);
}

/// Value of a series of the tier; 0 if nobody emits it.
inline double sample(const EngineStats& stats, std::string_view name, const std::string& tier,
                     std::string_view verdict = {}) {
  for (const MetricSample& s : stats.admission.policy_samples) {
    if (s.name != name) continue;
    bool is_it = true;
    for (const auto& [label, value] : s.labels)
      is_it = is_it && (label == "tier" ? value == tier : label != "verdict" || value == verdict);
    if (is_it) return s.value;
  }
  return 0;
}

/// Events per second that the gate's settings count, as its series say.
inline double events_per_second(const EngineStats& stats, std::string_view gate,
                                const std::string& tier) {
  return sample(stats,
                gate == "payoff" ? "kv_offload_payoff_verdicts_per_second"
                                 : "kv_offload_lookup_gate_requests_per_second",
                tier);
}

inline JobAmount refused_total(const AdmissionFlow& flow) {
  JobAmount sum;
  for (const JobAmount& amount : flow.refused) {
    sum.jobs += amount.jobs;
    sum.chunks += amount.chunks;
  }
  return sum;
}

}  // namespace kv_offload::admission_page
