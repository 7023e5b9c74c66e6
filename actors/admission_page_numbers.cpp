#include "kv_offload/actors/admission_page_numbers.hpp"

#include "kv_offload/admission/cascade_backpressure.hpp"
#include "kv_offload/admission/composite.hpp"
#include "kv_offload/admission/latency_cap.hpp"
#include "kv_offload/admission/promotion_concurrency.hpp"
#include "kv_offload/admission/text_format.hpp"

#include <cmath>
#include <string_view>

namespace kv_offload {
namespace {

const AdmissionPolicy* find_policy(const AdmissionPolicy& policy, std::string_view name) {
  if (const auto* composite = dynamic_cast<const Composite*>(&policy)) {
    for (const auto& member : composite->members())
      if (const auto* found = find_policy(*member, name)) return found;
  }
  return policy.name() == name ? &policy : nullptr;
}

std::string latency_numbers(const CascadeBackpressure& policy, TierIndex tier, MonotonicTime now) {
  const LatencyDetector* detector = policy.detector(tier);
  if (detector == nullptr) return {};
  return formatted("store latency %.4g %s on average, high water %g, low water %g",
                   detector->average(now), std::string(unit_of(policy.signal())).c_str(),
                   detector->options().high_water, detector->options().low_water);
}

std::string gate_numbers(const AdmissionPolicy& policy, const std::string& tier_label,
                         MonotonicTime now) {
  for (auto& report : policy.gate_reports(now))
    if (report.tier == tier_label) return std::move(report.text);
  return {};
}

}  // namespace

std::string refusal_numbers(const AdmissionLedger& ledger, const AdmissionRecord& record,
                            const std::string& tier_label, MonotonicTime now) {
  switch (record.reason) {
    case RefusalReason::pin_share: {
      const TierAdmissionTotals& totals = ledger.totals(record.tier);
      const AdmissionTotals& direction = record.is_promotion ? totals.promotions : totals.cascades;
      return formatted("%llu of %u chunks in flight", count(direction.in_flight.chunks),
                       ledger.pin_share_chunks(record.tier));
    }
    case RefusalReason::tier_disabled: return "the tier is disabled until the engine starts anew";
    case RefusalReason::save_floor:
      return "below the prefix that a skipped lookup left unproven, see lookup_gate";
    default: break;
  }
  const AdmissionPolicy* policy = find_policy(ledger.policy(), record.refuser);
  if (policy == nullptr) return {};
  if (const auto* latency = dynamic_cast<const CascadeBackpressure*>(policy))
    return latency_numbers(*latency, record.tier, now);
  if (const auto* capped = dynamic_cast<const LatencyCap*>(policy))
    return latency_numbers(capped->inner(), record.tier, now);
  if (const auto* cap = dynamic_cast<const PromotionConcurrency*>(policy))
    return formatted("%lld of %u chunks in flight to the primary tier",
                     static_cast<long long>(cap->in_flight_chunks()),
                     cap->max_inflight_promotions());
  return gate_numbers(*policy, tier_label, now);
}

std::vector<GateCadence> gate_cadences(const AdmissionLedger& ledger) {
  const PayoffOptions& payoff = ledger.payoff().options();
  const LookupGateOptions& lookups = ledger.lookup_gates().options();
  // A moving average has gone nine tenths of its way after ln(10)/alpha events.
  const auto settled = [](double alpha) { return std::log(10.0) / alpha; };
  return {{"payoff", "alpha", settled(payoff.alpha)},
          {"payoff", "warmup", static_cast<double>(payoff.warmup)},
          {"payoff", "report_every", static_cast<double>(payoff.report_every)},
          {"lookup_gate", "alpha", settled(lookups.alpha)},
          {"lookup_gate", "min_issued", static_cast<double>(lookups.min_issued)},
          {"lookup_gate", "probe_every", static_cast<double>(lookups.probe_every)},
          {"lookup_gate", "report_every", static_cast<double>(lookups.report_every)}};
}

}  // namespace kv_offload
