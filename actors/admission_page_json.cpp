#include "kv_offload/actors/admission_page.hpp"
#include "kv_offload/actors/admission_page_parts.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <string>

namespace kv_offload {
namespace {

using namespace admission_page;
using Json = nlohmann::ordered_json;

Json amount(const JobAmount& a) { return {{"jobs", a.jobs}, {"chunks", a.chunks}}; }

Json flow_json(const AdmissionFlow& flow) {
  Json refused = Json::object();
  for (std::size_t r = 0; r < kNumRefusalReasons; ++r)
    if (flow.refused[r].chunks > 0)
      refused[std::string(to_string(static_cast<RefusalReason>(r)))] = amount(flow.refused[r]);
  return {{"offered", amount(flow.offered)},     {"admitted", amount(flow.admitted)},
          {"refused", std::move(refused)},       {"completed", amount(flow.completed)},
          {"withdrawn", amount(flow.withdrawn)}, {"erased", amount(flow.erased)},
          {"in_flight", amount(flow.in_flight)}};
}

/// Of one tier: what is measured whether or not a gate is configured.
class Measures {
 public:
  Measures(const EngineStats& stats, std::string tier) : stats_(stats), tier_(std::move(tier)) {}

  [[nodiscard]] Json payoff() const {
    Json json;
    json["payoff"] = value("kv_offload_payoff");
    json["computed_share"] = value("kv_offload_payoff_computed_share");
    json["save_share"] = value("kv_offload_payoff_save_share");
    for (const char* what : {"saved", "declined", "would_decline"})
      json[what] = {
          {"jobs", counted(std::string("kv_offload_payoff_") + what + "_jobs_total")},
          {"chunks", counted(std::string("kv_offload_payoff_") + what + "_chunks_total")}};
    json["warmup_missing"] = counted("kv_offload_payoff_warmup_missing");
    return json;
  }
  [[nodiscard]] Json verdicts() const {
    Json json = Json::object();
    for (std::size_t v = 0; v < kNumLoadVerdicts; ++v) {
      const auto name = to_string(static_cast<LoadVerdict>(v));
      json[std::string(name)] = static_cast<std::uint64_t>(
          sample(stats_, "kv_offload_payoff_verdicts_total", tier_, name));
    }
    return json;
  }
  [[nodiscard]] Json lookups() const {
    Json json;
    json["lookups"] = counted("kv_offload_lookup_gate_lookups_total");
    json["lookup_seconds"] = value("kv_offload_lookup_gate_lookup_seconds_total");
    json["answers"] = counted("kv_offload_lookup_gate_answers_total");
    json["actionable_answers"] = counted("kv_offload_lookup_gate_actionable_answers_total");
    json["actionable_rate"] = value("kv_offload_lookup_gate_actionable_rate");
    json["skips"] = counted("kv_offload_lookup_gate_skips_total");
    json["would_skip"] = counted("kv_offload_lookup_gate_would_skip_total");
    json["forced"] = counted("kv_offload_lookup_gate_forced_lookups_total");
    json["avoided_tokens"] = counted("kv_offload_lookup_gate_avoided_tokens_total");
    return json;
  }
  /// {"payoff": {"events_per_second": 2.5, "warmup": {"events": 64, "seconds": 25.6}, …}, …}
  [[nodiscard]] Json cadence() const {
    Json json = Json::object();
    for (const GateCadence& c : stats_.admission.cadences) {
      const double rate = events_per_second(stats_, c.gate, tier_);
      json[c.gate]["events_per_second"] = rate;
      Json& setting = json[c.gate][c.setting];
      setting["events"] = c.events;
      setting["seconds"] = rate > 0 ? Json(c.events / rate) : Json(nullptr);
    }
    return json;
  }

 private:
  [[nodiscard]] double value(const std::string& name) const { return sample(stats_, name, tier_); }
  [[nodiscard]] std::uint64_t counted(const std::string& name) const {
    return static_cast<std::uint64_t>(value(name));
  }

  const EngineStats& stats_;
  std::string tier_;
};

Json tier_json(const EngineStats& stats, TierIndex tier) {
  const AdmissionTierTotals& totals = stats.admission.tiers[tier];
  const Measures measures(stats, label_of(stats, tier));
  Json json;
  json["disabled"] = totals.disabled;
  json["pin_share_chunks"] = totals.pin_share_chunks;
  json["cascades"] = flow_json(totals.cascades);
  json["promotions"] = flow_json(totals.promotions);
  json["verdicts"] = measures.verdicts();
  json["payoff"] = measures.payoff();
  json["lookups"] = measures.lookups();
  json["cadence"] = measures.cadence();
  return json;
}

Json decision_json(const EngineStats& stats, const AdmissionDecision& d, MonotonicTime now) {
  Json json;
  json["age_seconds"] = to_seconds(now - d.at);
  json["tier"] = label_of(stats, d.tier);
  json["direction"] = direction(d.is_promotion);
  json["chunks"] = d.chunks;
  json["admitted"] = d.admitted;
  if (!d.admitted) {
    json["reason"] = to_string(d.reason);
    json["policy"] = d.refuser;
  }
  json["in_flight_chunks"] = d.in_flight_chunks;
  if (d.numbers != nullptr && !d.numbers->empty()) json["numbers"] = *d.numbers;
  return json;
}

}  // namespace

std::string admission_page_json(const EngineStats& stats, MonotonicTime now) {
  const AdmissionActorTotals& a = stats.admission;
  Json json;
  json["tokens_per_chunk"] = stats.tokens_per_chunk;
  json["chunk_bytes"] = stats.chunk_bytes;
  json["open_tickets"] = a.tickets_open;
  json["pressure_epoch"] = a.pressure_epoch;
  json["stale_chunks"] = a.stale_tickets;
  json["balance_violation"] = a.balance_violation;
  json["tiers"] = Json::object();
  for (std::size_t t = 0; t < a.tiers.size(); ++t)
    json["tiers"][label_of(stats, static_cast<TierIndex>(t))] =
        tier_json(stats, static_cast<TierIndex>(t));
  json["gates"] = Json::array();
  for (const GateReport& g : a.gates)
    json["gates"].push_back({{"gate", g.gate},
                             {"tier", g.tier},
                             {"mode", to_string(g.mode)},
                             {"status", to_string(g.status)},
                             {"meaning", meaning(g)},
                             {"text", g.text}});
  json["refused"] = Json::array();
  for (const RefuserTotals& r : a.refusers)
    json["refused"].push_back({{"policy", r.policy},
                               {"tier", label_of(stats, r.tier)},
                               {"direction", direction(r.is_promotion)},
                               {"decisions", r.decisions},
                               {"chunks", r.chunks}});
  json["decisions"] = Json::array();
  for (const AdmissionDecision& d : a.decisions)
    json["decisions"].push_back(decision_json(stats, d, now));
  json["notes"] = kNotes;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kv_offload
