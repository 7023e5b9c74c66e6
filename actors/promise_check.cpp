#include "kv_offload/messages/engine_stats.hpp"

namespace kv_offload {
namespace {

std::string number(std::uint64_t n) { return std::to_string(n); }

template <std::size_t N>
Amount sum(const std::array<Amount, N>& amounts) {
  Amount total;
  for (const auto& a : amounts) total += a;
  return total;
}

struct Checker {
  const EngineStats& s;
  bool idle;

  [[nodiscard]] std::string label(std::size_t t) const {
    return t + 1 < s.tier_labels.size() ? s.tier_labels[t + 1] : "tier " + number(t);
  }

  [[nodiscard]] std::string accounting() const {
    if (!idle) return {};
    for (std::size_t t = 0; t < s.scheduler.offers.size(); ++t) {
      const auto& o = s.scheduler.offers[t];
      const auto& x = s.tracker.tiers[t];
      Amount stores = x.stored;
      stores += x.already_present;
      stores += sum(o.cascades_refused);
      stores += sum(o.cascades_dropped);
      stores += sum(x.store_failed);
      if (stores != o.cascades_offered)
        return label(t) + ": " + number(o.cascades_offered.chunks) + " chunks offered, " +
               number(stores.chunks) + " accounted for";
      Amount loads = x.loaded;
      loads += sum(o.promotions_refused);
      loads += sum(o.promotions_dropped);
      loads += sum(x.load_failed);
      if (loads != o.promotions_offered)
        return label(t) + ": " + number(o.promotions_offered.chunks) + " promotions offered, " +
               number(loads.chunks) + " accounted for";
    }
    for (std::size_t t = 0; t < s.scheduler.lookups.size(); ++t) {
      const auto& l = s.scheduler.lookups[t];
      auto known = l.hit + l.miss;
      for (const auto n : l.gave_up) known += n;
      if (known != l.looked_up)
        return s.tier_labels[t] + ": " + number(l.looked_up) + " keys looked up, " + number(known) +
               " accounted for";
    }
    return {};
  }

  [[nodiscard]] std::string ends() const {
    const auto& k = s.tracker;
    if (k.quiesced + k.abandoned + k.jobs_active != k.jobs_registered)
      return number(k.jobs_registered) + " jobs registered, " + number(k.quiesced) + " quiesced, " +
             number(k.abandoned) + " abandoned, " + number(k.jobs_active) + " active";
    if (k.outcomes > k.jobs_registered) return "more outcomes than jobs";
    if (!s.admission.balance_violation.empty()) return s.admission.balance_violation;
    if (!idle) return {};
    if (k.jobs_active != 0) return number(k.jobs_active) + " jobs have not ended";
    if (k.outcomes != k.jobs_registered)
      return number(k.jobs_registered) + " jobs registered, " + number(k.outcomes) + " outcomes";
    for (std::size_t t = 0; t < s.admission.tiers.size(); ++t) {
      const auto& a = s.admission.tiers[t];
      if (a.in_flight != 0)
        return label(t) + ": admission still counts " + number(a.in_flight) + " chunks in flight";
      if (a.completed + a.withdrawn + a.erased != a.admitted)
        return label(t) + ": " + number(a.admitted) + " chunks admitted, " +
               number(a.completed + a.withdrawn + a.erased) + " ended";
    }
    if (s.admission.tickets_open != 0) return number(s.admission.tickets_open) + " admission tickets are open";
    return {};
  }

  [[nodiscard]] std::string pins() const {
    const auto& p = s.primary;
    if (!p.identity_violation.empty()) return p.identity_violation;
    for (const auto* copies : {&s.scheduler.store_copies, &s.scheduler.load_copies})
      if (copies->started != copies->succeeded + copies->failed + copies->open)
        return number(copies->started) + " copies by workers began, " +
               number(copies->succeeded + copies->failed) + " ended, " + number(copies->open) +
               " are open";
    if (!idle) return {};
    if (s.scheduler.store_copies.open + s.scheduler.load_copies.open != 0)
      return number(s.scheduler.store_copies.open + s.scheduler.load_copies.open) +
             " copies by workers are open";
    if (s.scheduler.leases_open == 0 && p.pins_open != p.pins_abandoned)
      return number(p.pins_open) + " pins are open although no job and no lease is";
    if (p.waiters != 0) return number(p.waiters) + " waits are open";
    if (p.claims != 0) return number(p.claims) + " claims are open";
    if (s.scheduler.requests_live == 0 && p.holds_open != 0)
      return number(p.holds_open) + " holds are open although no request is live";
    return {};
  }

  [[nodiscard]] std::string refusals() const {
    if (!idle || s.scheduler.jobs_numbered == s.tracker.jobs_registered) return {};
    return number(s.scheduler.jobs_numbered) + " job ids were handed out for " +
           number(s.tracker.jobs_registered) + " jobs";
  }

  [[nodiscard]] std::string reuse() const {
    if (s.primary.reused_in_use == 0) return {};
    return number(s.primary.reused_in_use) + " slots were to be reused while a transfer or lease could touch them";
  }
};

}  // namespace

std::vector<PromiseCheck> check_promises(const EngineStats& stats, bool idle) {
  const Checker check{stats, idle};
  std::vector<PromiseCheck> out;
  const auto add = [&](int n, const char* name, std::string why) {
    out.push_back({n, name, why.empty(), std::move(why)});
  };
  add(2, "every offered chunk and every lookup is accounted for", check.accounting());
  add(3, "every admitted job ends exactly once", check.ends());
  add(4, "every pin, hold and wait has an owner and an end", check.pins());
  add(5, "a refused job costs no job id", check.refusals());
  add(6, "no slot is reused while I/O or a lease may touch it", check.reuse());
  return out;
}

}  // namespace kv_offload
