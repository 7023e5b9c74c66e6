// Random sequences against the ledger's own checks and an independent model of what is in flight.
#include "kv_offload/admission/admission_ledger.hpp"
#include "kv_offload/admission/admission_registry.hpp"
#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

#include <map>
#include <random>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

constexpr std::uint32_t kCap = 20;
constexpr std::uint32_t kPinShare[2] = {40, 25};

std::unique_ptr<AdmissionPolicy> everything() {
  return admission_policies()
      .make(parse(R"({"type": "composite", "policies": [
        {"type": "cascade_backpressure", "high_water_s": 0.8, "low_water_s": 0.4},
        {"type": "cascade_backpressure", "signal": "per_mib", "high_water_s": 0.2},
        {"type": "promotion_concurrency", "max_inflight_promotions": 20}]})"),
            "admission_policy", two_tiers())
      .value();
}

struct Flight {
  TierIndex tier;
  bool is_promotion;
  std::uint32_t chunks;
  MonotonicTime since;
};

}  // namespace

TEST_CASE("counts balance under every random sequence", "[admission][unit]") {
  const unsigned seed = GENERATE(1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U);
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };

  AdmissionLedger ledger(everything(), {kPinShare[0], kPinShare[1]});
  std::map<AdmissionTicket, Flight> flights;
  std::vector<AdmissionTicket> gone;  // ended or erased
  MonotonicTime now = at(0);
  std::uint64_t stale = 0, epoch = ledger.pressure_epoch();
  std::uint64_t chunks_admitted = 0, num_refused = 0;

  const auto in_flight = [&](TierIndex tier, int promotions) {
    std::uint64_t sum = 0;
    for (const auto& [ticket, f] : flights)
      if (f.tier == tier && (promotions < 0 || f.is_promotion == (promotions == 1)))
        sum += f.chunks;
    return sum;
  };

  for (int step = 0; step < 3000; ++step) {
    CAPTURE(step);
    now += from_seconds(0.001 * below(400));
    const auto tier = static_cast<TierIndex>(below(2));
    const std::uint32_t action = below(100);
    if (action < 35) {
      const std::uint32_t n = 1 + below(8);
      const auto list = keys(n);
      const auto decision = ledger.decide_cascade(tier, list, n << 20, nullptr, now);
      if (decision.admitted) {
        REQUIRE(flights.try_emplace(decision.ticket, Flight{tier, false, n, now}).second);
        chunks_admitted += n;
      } else {
        REQUIRE(decision.reason != RefusalReason::none);
        REQUIRE_FALSE(decision.refuser.empty());
        ++num_refused;
      }
    } else if (action < 60) {
      std::vector<PromotionCandidate> list;
      for (std::uint32_t i = 0; i <= below(12); ++i)
        list.push_back({key(i), static_cast<TierIndex>(below(2))});
      const auto decision = ledger.decide_promotions(list, 1 << 20, nullptr, now);
      REQUIRE((decision.num_admitted() == list.size()) == (decision.reason == RefusalReason::none));
      for (std::size_t i = 0; i < decision.num_admitted(); ++i) {
        auto& f = flights.try_emplace(decision.tickets[i], Flight{list[i].tier, true, 0, now})
                      .first->second;
        REQUIRE(f.tier == list[i].tier);
        ++f.chunks;
        ++chunks_admitted;
      }
    } else if (action < 96) {
      const bool use_gone = !gone.empty() && below(10) == 0;
      if (flights.empty() && !use_gone) continue;
      const std::uint32_t index = below(use_gone ? static_cast<std::uint32_t>(gone.size())
                                                 : static_cast<std::uint32_t>(flights.size()));
      const AdmissionTicket ticket =
          use_gone ? gone[index] : std::next(flights.begin(), index)->first;
      std::uint32_t n = 1 + below(8), excess = n;
      MonotonicTime since = now;
      if (const auto it = flights.find(ticket); it != flights.end()) {
        since = it->second.since;
        if (below(2) == 0) n = it->second.chunks;
        const std::uint32_t taken = std::min(n, it->second.chunks);
        excess = n - taken;
        it->second.chunks -= taken;
        if (it->second.chunks == 0) {
          gone.push_back(ticket);
          flights.erase(it);
        }
      } else {
        excess = n;
      }
      stale += excess;
      const CompletedTransfer result{below(5) != 0, std::uint64_t{below(9)} << 20, since, now};
      if (below(4) == 0)
        ledger.withdraw(ticket, n, now);
      else
        ledger.complete(ticket, n, result, now);
    } else if (action == 96) {
      for (const auto& [ticket, f] : flights) gone.push_back(ticket);
      flights.clear();
      ledger.reset();
    } else {
      ledger.disable_tier(tier, below(3) == 0);
    }

    std::string why;
    const bool balanced = ledger.check_balance(&why);
    INFO(why);
    REQUIRE(balanced);
    std::uint64_t promotions = 0;
    for (const TierIndex t : {TierIndex{0}, TierIndex{1}}) {
      REQUIRE(ledger.totals(t).cascades.in_flight.chunks == in_flight(t, 0));
      REQUIRE(ledger.totals(t).promotions.in_flight.chunks == in_flight(t, 1));
      REQUIRE(in_flight(t, 0) <= kPinShare[t]);
      REQUIRE(in_flight(t, 1) <= kPinShare[t]);
      promotions += in_flight(t, 1);
    }
    REQUIRE(promotions <= kCap);
    REQUIRE(ledger.stale_chunks() == stale);
    REQUIRE(ledger.pressure_epoch() >= epoch);
    epoch = ledger.pressure_epoch();
  }

  for (const auto& [ticket, f] : flights) ledger.withdraw(ticket, f.chunks, now);
  std::string why;
  const bool idle = ledger.check_idle(&why);
  INFO(why);
  CHECK(idle);
  CHECK(chunks_admitted > 1000);  // the sequence really exercised both answers
  CHECK(num_refused > 50);
}
