// Why the gates are what they are: each rule beside the obvious simpler one, over the same small workload. The rule
// holds and the simpler one fails, in numbers.
#include "kv_offload/admission/lookup_gate.hpp"
#include "kv_offload/admission/payoff.hpp"
#include "kv_offload/admission/verdict_feed.hpp"
#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

#include <set>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

/// SplitMix64: the same numbers on every machine.
struct Draws {
  std::uint64_t state;
  std::uint64_t below(std::uint64_t bound) {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return (z ^ (z >> 31U)) % bound;
  }
};

VerdictCounts one(LoadVerdict verdict, std::uint64_t count = 1) {
  VerdictCounts counts;
  counts.add(verdict, count);
  return counts;
}
double part(std::uint64_t of, std::uint64_t all) { return static_cast<double>(of) / static_cast<double>(all); }

/// Asks, commits the answer, and says it.
bool offer(Payoff& gate, AdmissionTicket ticket) {
  const auto job = cascade(ticket);
  const bool admitted = gate.should_admit(job, at(0)) == RefusalReason::none;
  if (admitted) gate.on_admitted(job, at(0));
  else gate.on_refused(job, &gate, at(0));
  return admitted;
}

}  // namespace

// -- a miss is no verdict ---------------------------------------------------------------------------------

namespace {

struct Filling {
  std::uint64_t repeats = 0, hits = 0, offered = 0, stored = 0;
  double payoff = 1;
};

/// New contexts, of which one in fifty comes back once; what comes back and is in the tier is a load that pays.
Filling fill(bool misses_are_verdicts) {
  Payoff gate({}, two_tiers());
  Draws draws{1};
  std::set<std::uint64_t> tier;
  Filling result;
  std::uint64_t contexts = 0;
  for (int request = 0; request < 40'000; ++request) {
    const bool repeats = contexts > 0 && draws.below(50) == 0;
    const std::uint64_t context = repeats ? draws.below(contexts) : contexts++;
    const bool hit = tier.contains(context);
    if (hit) gate.on_verdicts(0, one(LoadVerdict::aligned_large_hit), at(0));
    else if (misses_are_verdicts) gate.on_verdicts(0, one(LoadVerdict::too_small), at(0));
    result.repeats += repeats ? 1 : 0;
    result.hits += hit ? 1 : 0;
    if (hit) continue;
    ++result.offered;
    if (!offer(gate, result.offered)) continue;
    ++result.stored;
    tier.insert(context);
  }
  result.payoff = gate.tier(0).estimate.value();
  return result;
}

}  // namespace

TEST_CASE("misses counted as verdicts starve a tier that is filling, real verdicts do not", "[admission][ablation]") {
  const auto real = fill(false);
  CHECK(real.repeats > 700);
  CHECK(real.hits == real.repeats);
  CHECK(real.stored == real.offered);
  CHECK(real.payoff > 0.99);

  const auto ablated = fill(true);
  CAPTURE(ablated.repeats, ablated.hits, ablated.offered, ablated.stored, ablated.payoff);
  CHECK(ablated.repeats == real.repeats);
  CHECK(part(ablated.stored, ablated.offered) < 0.35);  // the floor of 0.25, and a little of the first verdicts
  CHECK(part(ablated.hits, ablated.repeats) < 0.45);
  CHECK(ablated.payoff < 0.10);  // and it stays there: storing less lowers it further
}

// -- totals, not tallies ----------------------------------------------------------------------------------

TEST_CASE("tallies of single steps lose what a lost step carried, cumulative totals do not", "[admission][ablation]") {
  Payoff by_totals({}, two_tiers()), by_tallies({}, two_tiers());
  VerdictFeed feed;
  VerdictCounts total;
  std::uint64_t lost_steps = 0;
  for (int step = 1; step <= 2'000; ++step) {
    // Every tenth step is a busy one, in which loads pay; and it is the busy ones whose message does not come.
    const bool busy = step % 10 == 0;
    const auto tally = busy ? one(LoadVerdict::aligned_large_hit, 10) : one(LoadVerdict::too_small);
    for (std::size_t i = 0; i < kNumLoadVerdicts; ++i) total.by_verdict[i] += tally.by_verdict[i];
    if (busy) {
      ++lost_steps;
      continue;
    }
    by_totals.on_verdicts(0, feed.take(7, 0, total), at(step));
    by_tallies.on_verdicts(0, tally, at(step));
  }
  by_totals.on_verdicts(0, feed.take(7, 0, total), at(2'001));
  CHECK(lost_steps == 200);
  CHECK(by_totals.tier(0).verdicts.samples() == 1'800 + 2'000);
  CHECK(by_totals.tier(0).verdicts.paid() == 2'000);
  CHECK(by_totals.tier(0).estimate.value() > 0.25);
  CHECK(by_totals.computed_share(0) == 1);  // everything is stored, as it should be

  CHECK(by_tallies.tier(0).verdicts.samples() == 1'800);
  CHECK(by_tallies.tier(0).verdicts.paid() == 0);
  CHECK(by_tallies.tier(0).estimate.value() < 1e-5);
  CHECK(by_tallies.computed_share(0) == 0.25);  // the floor, for a tier more than half of whose loads pay
}

// -- the gate's own rate, not the payoff --------------------------------------------------------------------

namespace {

struct Gated {
  std::uint64_t skippable = 0, skipped = 0, turnarounds = 0;
  double payoff = 0, actionable = 0;
};

enum class Judge { nobody, actionable_rate, payoff };

/// Of 400 requests 359 are long and new to everyone, one finds a long prefix in the tier, and 40 have so much on the
/// device that nothing is worth loading although the tier claims it. Averages over some thousand samples.
Gated gate_by(Judge judge, double cut) {
  LookupGateOptions o;
  o.alpha = 1.0 / 2048;
  if (judge == Judge::nobody) o.mode = GateMode::observe;
  o.cut = cut;
  LookupGate gate(o);
  PayoffEstimate payoff(1.0 / 512);
  Gated result;
  bool stands_down = false;
  for (int request = 0; request < 400'000; ++request) {
    const int kind = request % 400;
    const bool finds = kind == 0, on_device = kind % 10 == 5;
    const std::uint64_t device = on_device ? 19'000 : 0, found = finds || on_device ? 19'500 : 0;
    auto decision = gate.decide(20'000, device);
    if (judge == Judge::payoff && on_device) {
      // The same rule with the other number: below the cut skip, all but one in 32.
      const bool bears = payoff.value() >= cut;
      if (bears != stands_down) ++result.turnarounds;
      stands_down = bears;
      decision = bears ? LookupDecision::look_up
                       : (result.skippable % 32 == 31 ? LookupDecision::forced : LookupDecision::skip);
    } else if (judge == Judge::actionable_rate && on_device) {
      if (gate.is_load_bearing() != stands_down) ++result.turnarounds;
      stands_down = gate.is_load_bearing();
    }
    result.skippable += on_device ? 1 : 0;
    if (decision == LookupDecision::skip) {
      gate.on_skipped(20'000, device, at(0));
      ++result.skipped;
      continue;
    }
    gate.on_issued(20'000, device, at(0));
    gate.on_answer(found, device, Duration::zero());
    if (found > 0) payoff.add(finds);
  }
  result.payoff = payoff.value();
  result.actionable = gate.actionable_rate();
  return result;
}

}  // namespace

TEST_CASE("skipping lookups raises the payoff many times over and leaves the actionable rate as it was",
          "[admission][ablation]") {
  const auto open = gate_by(Judge::nobody, 0.01);
  CHECK(open.skipped == 0);
  const auto skipping = gate_by(Judge::actionable_rate, 0.01);
  CAPTURE(open.payoff, skipping.payoff, open.actionable, skipping.actionable);
  CHECK(part(skipping.skipped, skipping.skippable) > 0.96);
  CHECK(open.payoff == Approx(1.0 / 41).epsilon(0.2));
  CHECK(skipping.payoff > 10 * open.payoff);  // 1 of 1 + 40/32 claims, for the same tier and the same requests
  CHECK(open.actionable == Approx(1.0 / 400).epsilon(0.15));
  CHECK(skipping.actionable < 1.25 * open.actionable);
}

TEST_CASE("a gate driven by the payoff takes back its own decision, by the actionable rate it does not",
          "[admission][ablation]") {
  const auto real = gate_by(Judge::actionable_rate, 0.01);
  CHECK(real.turnarounds == 0);
  CHECK(part(real.skipped, real.skippable) > 0.96);

  // Any cut between the payoff with and without skips makes it swing; a tenth is the payoff gate's own target.
  const auto ablated = gate_by(Judge::payoff, 0.10);
  CAPTURE(ablated.turnarounds, ablated.skipped, ablated.skippable, ablated.payoff);
  CHECK(ablated.turnarounds > 20);
  CHECK(part(ablated.skipped, ablated.skippable) < 0.9);
}

// -- a low cut, and forced lookups --------------------------------------------------------------------------

namespace {

struct Attached {
  std::uint64_t returns = 0, hits = 0, turns = 0, looked_up = 0;
  double actionable = 0;
  /// Of the last half: the tier has had its time.
  std::uint64_t late_returns = 0, late_hits = 0;
};

/// A tier that is attached to a running server. Each session has five turns with its prefix on the device (which
/// only a lookup that ran offers to the tier; a skip takes it as saved), then loses it and comes back once: worth a
/// load if the tier has the prefix. One request in fifty is such a return, the other 44 are long and new.
Attached attach(const LookupGateOptions& options, std::uint64_t returns_from_round = 0) {
  constexpr std::uint64_t kRounds = 4'000, kLag = 20;
  LookupGate gate(options);
  std::set<std::uint64_t> tier;  // sessions whose prefix it has
  Attached result;
  const auto ask = [&](std::uint64_t device, std::uint64_t found) {
    if (gate.decide(20'000, device) == LookupDecision::skip) {
      gate.on_skipped(20'000, device, at(0));
      return false;
    }
    gate.on_issued(20'000, device, at(0));
    gate.on_answer(found, device, Duration::zero());
    return true;
  };
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    for (int request = 0; request < 49; ++request) {
      if (request % 10 != 0) {
        ask(0, 0);
        continue;
      }
      ++result.turns;
      if (!ask(19'000, tier.contains(round) ? 19'000 : 0)) continue;
      ++result.looked_up;
      tier.insert(round);
    }
    if (round < kLag || round < returns_from_round) continue;
    const bool hit = tier.contains(round - kLag);
    ask(0, hit ? 19'000 : 0);
    ++result.returns;
    result.hits += hit ? 1 : 0;
    if (round < kRounds / 2) continue;
    ++result.late_returns;
    result.late_hits += hit ? 1 : 0;
  }
  result.actionable = gate.actionable_rate();
  return result;
}

}  // namespace

TEST_CASE("a cut of ten percent starves a tier with two percent actionable answers, one of one percent does not",
          "[admission][ablation]") {
  LookupGateOptions open;
  open.mode = GateMode::observe;
  const auto ungated = attach(open);
  CHECK(ungated.hits == ungated.returns);
  CHECK(part(ungated.hits, 50 * ungated.returns) == Approx(0.02));

  const auto real = attach({});
  CAPTURE(real.late_returns, real.late_hits, real.looked_up, real.turns, real.actionable);
  CHECK(part(real.late_hits, real.late_returns) > 0.95);

  LookupGateOptions high;
  high.cut = 0.10;
  const auto ablated = attach(high);
  CAPTURE(ablated.late_returns, ablated.late_hits, ablated.looked_up, ablated.turns, ablated.actionable);
  CHECK(part(ablated.late_hits, ablated.late_returns) < 0.25);  // five turns, one of 32 looked up
  CHECK(part(ablated.looked_up, ablated.turns) < 0.05);
}

TEST_CASE("without forced lookups a gate never learns that a tier became useful, with one in 32 it does",
          "[admission][ablation]") {
  // For a quarter of the time nothing ever comes back: all that can be skipped is skipped, rightly.
  const auto real = attach({}, 1'000);
  CAPTURE(real.late_returns, real.late_hits, real.looked_up);
  CHECK(part(real.late_hits, real.late_returns) > 0.95);

  LookupGateOptions never;
  never.probe_every = 1'000'000;  // the largest that may be configured; more than the run has requests
  const auto ablated = attach(never, 1'000);
  CHECK(ablated.looked_up == 0);
  CHECK(ablated.hits == 0);
  CHECK(ablated.late_returns == real.late_returns);
  CHECK(ablated.actionable == 0);
}
