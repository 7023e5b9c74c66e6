// The ledger's checks of itself.
#include "kv_offload/admission/admission_ledger.hpp"
#include "kv_offload/admission/cascade_backpressure.hpp"
#include "kv_offload/admission/composite.hpp"
#include "kv_offload/admission/promotion_concurrency.hpp"

#include <algorithm>
#include <string>

namespace kv_offload {
namespace {

bool fail(std::string* why, std::string line) {
  if (why != nullptr) *why = std::move(line);
  return false;
}

bool check_sum(const std::string& what, std::uint64_t whole, std::uint64_t parts,
               std::string* why) {
  return whole == parts ||
         fail(why, what + ": " + std::to_string(whole) + " is not " + std::to_string(parts));
}

bool check_totals(const std::string& where, const AdmissionTotals& t, std::string* why) {
  const JobCount refused = t.refused_total();
  const auto parts = [&](auto unit) {
    return t.completed.*unit + t.withdrawn.*unit + t.erased.*unit + t.in_flight.*unit;
  };
  const std::string offered = ": offered = admitted + refused, in ";
  const std::string admitted = ": admitted = completed + withdrawn + erased + in flight, in ";
  return check_sum(where + offered + "jobs", t.offered.jobs, t.admitted.jobs + refused.jobs, why) &&
         check_sum(where + offered + "chunks", t.offered.chunks, t.admitted.chunks + refused.chunks,
                   why) &&
         check_sum(where + admitted + "jobs", t.admitted.jobs, parts(&JobCount::jobs), why) &&
         check_sum(where + admitted + "chunks", t.admitted.chunks, parts(&JobCount::chunks), why);
}

struct InFlight {
  std::uint64_t cascades = 0;
  std::uint64_t promotions = 0;
};

/// Does the policy count the same chunks in flight as the ledger?
bool check_policy(const AdmissionPolicy& policy, const std::vector<InFlight>& tiers,
                  std::string* why) {
  if (const auto* composite = dynamic_cast<const Composite*>(&policy)) {
    for (const auto& member : composite->members())
      if (!check_policy(*member, tiers, why)) return false;
    return true;
  }
  const std::int64_t counted = policy.in_flight_chunks();
  if (counted < 0) return true;
  const auto has = static_cast<std::uint64_t>(counted);
  const std::string what = std::string(policy.name()) + ": chunks in flight = the ledger's";
  const auto* pressure = dynamic_cast<const CascadeBackpressure*>(&policy);
  InFlight all;
  std::uint64_t watched = 0;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    all.cascades += tiers[i].cascades;
    all.promotions += tiers[i].promotions;
    if (pressure != nullptr && pressure->detector(static_cast<TierIndex>(i)) != nullptr)
      watched += tiers[i].cascades;
  }
  if (pressure != nullptr) {
    if (watched == 0 && pressure->submit_times() != 0)
      return fail(why, std::string(policy.name()) + ": keeps " +
                           std::to_string(pressure->submit_times()) +
                           " submit times with nothing in flight");
    return check_sum(what, has, watched, why);
  }
  if (dynamic_cast<const PromotionConcurrency*>(&policy) != nullptr)
    return check_sum(what, has, all.promotions, why);
  // A policy from outside may count either direction or both.
  return has == all.cascades || has == all.promotions ||
         check_sum(what, has, all.cascades + all.promotions, why);
}

}  // namespace

bool AdmissionLedger::check_balance(std::string* why) const {
  std::vector<InFlight> from_tickets(tiers_.size());
  std::uint64_t jobs = 0;
  for (const auto& [ticket, entry] : tickets_) {  // sums only: the order does not show
    InFlight& tier = from_tickets[entry.tier];
    (entry.is_promotion ? tier.promotions : tier.cascades) += entry.chunks;
  }
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    const TierAdmissionTotals& t = tiers_[i].totals;
    const std::string where = "tier " + std::to_string(i);
    jobs += t.cascades.in_flight.jobs + t.promotions.in_flight.jobs;
    if (!check_totals(where + " cascades", t.cascades, why) ||
        !check_totals(where + " promotions", t.promotions, why) ||
        !check_sum(where + ": cascade chunks in flight = chunks of tickets",
                   t.cascades.in_flight.chunks, from_tickets[i].cascades, why) ||
        !check_sum(where + ": promotion chunks in flight = chunks of tickets",
                   t.promotions.in_flight.chunks, from_tickets[i].promotions, why))
      return false;
    const std::uint64_t most = std::max(t.cascades.in_flight.chunks, t.promotions.in_flight.chunks);
    if (most > tiers_[i].pin_share)
      return fail(why, where + ": " + std::to_string(most) +
                           " chunks in flight in one direction exceed the pin share of " +
                           std::to_string(tiers_[i].pin_share));
  }
  return check_sum("jobs in flight = tickets", jobs, tickets_.size(), why) &&
         check_policy(*policy_, from_tickets, why);
}

bool AdmissionLedger::check_idle(std::string* why) const {
  if (!check_balance(why)) return false;
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    const TierAdmissionTotals& t = tiers_[i].totals;
    if (t.cascades.in_flight.chunks + t.promotions.in_flight.chunks > 0)
      return fail(why, "tier " + std::to_string(i) + ": " +
                           std::to_string(t.cascades.in_flight.chunks) + " cascade and " +
                           std::to_string(t.promotions.in_flight.chunks) +
                           " promotion chunks were admitted and never ended");
  }
  return true;
}

}  // namespace kv_offload
