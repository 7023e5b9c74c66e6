#include "kv_offload/admission/payoff.hpp"

#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <random>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

constexpr double kAlpha = 1.0 / 16;

VerdictCounts tally(std::uint64_t samples, std::uint64_t paid) {
  VerdictCounts counts;
  counts.add(LoadVerdict::aligned_large_hit, paid);
  counts.add(LoadVerdict::too_small, samples - paid);
  return counts;
}

/// Drives one gate as the ledger does: ask, then commit.
struct Gate {
  explicit Gate(PayoffOptions options = {}) : policy(options, two_tiers()) {}

  void verdicts(std::uint64_t samples, std::uint64_t paid, TierIndex tier = 0) {
    policy.on_verdicts(tier, tally(samples, paid), at(0));
  }
  bool save(std::uint32_t chunks = 1, TierIndex tier = 0) {
    const JobMetadata job = cascade(ticket++, chunks, tier);
    const bool admitted = policy.should_admit(job, at(0)) == RefusalReason::none;
    if (admitted)
      policy.on_admitted(job, at(0));
    else
      policy.on_refused(job, &policy, at(0));
    return admitted;
  }
  [[nodiscard]] double payoff(TierIndex tier = 0) const {
    return policy.tier(tier).estimate.value();
  }
  [[nodiscard]] GateReport report(TierIndex tier = 0) const {
    return policy.gate_reports(at(1))[tier];
  }

  Payoff policy;
  AdmissionTicket ticket = 1;
};

}  // namespace

TEST_CASE("payoff has the published defaults", "[admission][unit]") {
  const PayoffOptions o;
  CHECK(o.mode == GateMode::enforce);
  CHECK(o.target == 0.10);
  CHECK(o.floor == 0.25);
  CHECK(o.alpha == 0.0625);
  CHECK(o.warmup == 64);
  CHECK(o.report_every == 256);
}

TEST_CASE("a fold is the moving average of as many equal samples", "[admission][unit]") {
  const std::uint64_t n = GENERATE(1ULL, 2ULL, 7ULL, 64ULL, 1000ULL);
  const bool paid = GENERATE(false, true);
  PayoffEstimate folded(kAlpha), single(kAlpha);
  folded.fold(5, 0);  // away from the start value
  single.fold(5, 0);
  folded.fold(n, paid ? n : 0);
  for (std::uint64_t i = 0; i < n; ++i) single.add(paid);
  CHECK(folded.value() == Approx(single.value()).epsilon(1e-12));
  CHECK(folded.samples() == single.samples());
}

TEST_CASE("a mixed fold converges on its rate in closed form", "[admission][unit]") {
  PayoffEstimate estimate(kAlpha);
  estimate.fold(10, 4);
  const double kept = std::pow(1 - kAlpha, 10);
  CHECK(estimate.value() == Approx(kept + 0.4 * (1 - kept)).epsilon(1e-14));
  estimate.fold(100000, 40000);
  CHECK(estimate.value() == Approx(0.4).epsilon(1e-12));
}

TEST_CASE("an empty fold changes nothing and more paid than samples is all paid",
          "[admission][unit]") {
  PayoffEstimate estimate(kAlpha);
  estimate.fold(3, 1);
  const double before = estimate.value();
  estimate.fold(0, 0);
  estimate.fold(0, 7);
  CHECK(estimate.value() == before);
  CHECK(estimate.samples() == 3);
  PayoffEstimate clamped(kAlpha), all(kAlpha);
  clamped.fold(4, 9);
  all.fold(4, 4);
  CHECK(clamped.value() == all.value());
}

TEST_CASE("from its start at 1 the payoff takes ln(10)/alpha unpaid verdicts to the target",
          "[admission][unit]") {
  PayoffEstimate estimate(kAlpha);
  CHECK(estimate.value() == 1);
  int verdicts = 0;
  while (estimate.value() >= 0.10) {
    estimate.add(false);
    ++verdicts;
  }
  CHECK(verdicts == static_cast<int>(std::ceil(std::log(0.10) / std::log(1 - kAlpha))));
  CHECK(verdicts == 36);
}

TEST_CASE("the share follows payoff over target between the floor and 1", "[admission][unit]") {
  CHECK(payoff_share(0.05, 0.10, 0.25) == Approx(0.5));
  CHECK(payoff_share(0.0, 0.10, 0.25) == 0.25);
  CHECK(payoff_share(0.025, 0.10, 0.25) == 0.25);
  CHECK(payoff_share(0.10, 0.10, 0.25) == 1);
  CHECK(payoff_share(0.90, 0.10, 0.25) == 1);
  CHECK(payoff_share(0.0, 0.0, 0.25) == 1);  // without a target everything is stored
  CHECK(payoff_share(0.0, 0.10, 0.0) == 0);  // without a floor nothing may be
  CHECK(payoff_share(0.01, 0.10, 1.0) == 1);
}

TEST_CASE("199 unpaid verdicts among 269 saves: payoff gone, about half declined",
          "[admission][unit]") {
  Gate gate;
  int declined = 0, verdicts = 0;
  for (int save = 1; save <= 269; ++save) {
    for (; verdicts < 199 * save / 269; ++verdicts) gate.verdicts(1, 0);
    if (!gate.save()) ++declined;
  }
  CHECK(verdicts == 199);
  CHECK(gate.payoff() < 1e-5);
  CHECK(declined >= 130);
  CHECK(declined <= 140);
  CHECK(gate.policy.tier(0).declined_jobs == static_cast<std::uint64_t>(declined));
  CHECK(gate.policy.tier(0).saved_jobs == static_cast<std::uint64_t>(269 - declined));
  CHECK(gate.report().status == GateStatus::refusing);
}

TEST_CASE("at the floor of a quarter the pattern is three declined, one saved",
          "[admission][unit]") {
  Gate gate;
  gate.verdicts(1000, 0);
  for (int round = 0; round < 50; ++round) {
    CHECK_FALSE(gate.save());
    CHECK_FALSE(gate.save());
    CHECK_FALSE(gate.save());
    CHECK(gate.save());
  }
}

TEST_CASE("the realised share equals the computed one within one decision over any window",
          "[admission][unit]") {
  // Every share between 0 and 1 as target over payoff 1: computed_share is the floor.
  const int percent = GENERATE(range(1, 101));
  PayoffOptions o;
  o.floor = percent / 100.0;
  o.warmup = 0;
  Gate gate(o);
  gate.verdicts(100000, 0);
  const double share = gate.policy.computed_share(0);
  REQUIRE(share == o.floor);
  constexpr int kDecisions = 400;
  std::vector<int> saved_until = {0};
  for (int i = 0; i < kDecisions; ++i)
    saved_until.push_back(saved_until.back() + (gate.save() ? 1 : 0));
  double worst = 0;
  for (int from = 0; from < kDecisions; ++from)
    for (int to = from + 1; to <= kDecisions; ++to)
      worst = std::max(worst, std::abs(saved_until[to] - saved_until[from] - share * (to - from)));
  CAPTURE(share, worst);
  CHECK(worst <= 1 + 1e-6);
}

TEST_CASE("a share that moves is met within one decision too", "[admission][unit]") {
  const unsigned seed = GENERATE(range(1U, 9U));
  CAPTURE(seed);
  std::mt19937 random(seed);
  Gate gate;
  gate.verdicts(64, 0);
  double owed = 0;
  for (int i = 0; i < 5000; ++i) {
    if (random() % 3 == 0) gate.verdicts(1, random() % 8 == 0 ? 1 : 0);
    owed += gate.policy.computed_share(0);
    if (gate.save()) owed -= 1;
    REQUIRE(owed > -1e-6);
    REQUIRE(owed < 1);
  }
}

TEST_CASE("nothing is declined before the warm-up is over", "[admission][unit]") {
  Gate gate;
  gate.verdicts(63, 0);
  CHECK(gate.payoff() < 0.02);
  for (int i = 0; i < 20; ++i) CHECK(gate.save());
  CHECK(gate.report().status == GateStatus::warming_up);
  CHECK(gate.report().text.find("1 of 64 verdicts of the warm-up are missing") !=
        std::string::npos);
  CHECK(gate.policy.tier(0).credit.credit() == 0);  // the warm-up earns and owes nothing
  gate.verdicts(1, 0);
  CHECK_FALSE(gate.save());
}

TEST_CASE("a tier that pays off again is stored to in full", "[admission][unit]") {
  Gate gate;
  gate.verdicts(500, 0);
  CHECK_FALSE(gate.save());
  int verdicts = 0;
  while (gate.policy.computed_share(0) < 1) {
    gate.verdicts(1, 1);
    ++verdicts;
  }
  CHECK(verdicts == 2);  // 1 - (15/16)^2 is above a tenth
  for (int i = 0; i < 20; ++i) CHECK(gate.save());
  CHECK(gate.report().status == GateStatus::nothing_to_refuse);
}

TEST_CASE("one decision per cascade, whatever its chunks, promotions pass", "[admission][unit]") {
  Gate gate;
  gate.verdicts(1000, 0);
  CHECK_FALSE(gate.save(1000));
  CHECK_FALSE(gate.save(1));
  CHECK_FALSE(gate.save(7));
  CHECK(gate.save(300));
  CHECK(gate.policy.tier(0).declined_chunks == 1008);
  CHECK(gate.policy.tier(0).saved_chunks == 300);
  CHECK(gate.policy.realised_share(0) == 0.25);
  for (int i = 0; i < 8; ++i) {
    CHECK(gate.policy.should_admit(promotion(99), at(0)) == RefusalReason::none);
    gate.policy.on_admitted(promotion(99), at(0));
  }
  CHECK(gate.policy.tier(0).saved_jobs == 1);
}

TEST_CASE("tiers have estimates and credits of their own", "[admission][unit]") {
  Gate gate;
  gate.verdicts(1000, 0, 0);
  gate.verdicts(1000, 1000, 1);
  CHECK_FALSE(gate.save(1, 0));
  for (int i = 0; i < 10; ++i) CHECK(gate.save(1, 1));
  CHECK(gate.save(1, 7));  // a tier it does not know
}

TEST_CASE("a refusal by another policy moves no credit", "[admission][unit]") {
  Gate gate;
  gate.verdicts(1000, 0);
  ScriptedPolicy other("other");
  const double before = gate.policy.tier(0).credit.credit();
  for (int i = 0; i < 10; ++i) gate.policy.on_refused(cascade(1), &other, at(0));
  CHECK(gate.policy.tier(0).credit.credit() == before);
  CHECK(gate.policy.tier(0).declined_jobs == 0);
}

TEST_CASE("an observing gate refuses nothing and reports what enforcing would have declined",
          "[admission][unit]") {
  PayoffOptions o;
  o.mode = GateMode::observe;
  Gate observing(o), enforcing;
  observing.verdicts(100, 0);
  enforcing.verdicts(100, 0);
  for (int i = 0; i < 101; ++i) {
    CHECK(observing.save(2));
    enforcing.save(2);
  }
  const auto& seen = observing.policy.tier(0);
  CHECK(seen.saved_jobs == 101);
  CHECK(seen.declined_jobs == 0);
  CHECK(seen.would_decline_jobs == enforcing.policy.tier(0).declined_jobs);
  CHECK(seen.would_decline_chunks == enforcing.policy.tier(0).declined_chunks);
  CHECK(seen.would_decline_jobs > 70);
  CHECK(observing.policy.realised_share(0) == 1);
  CHECK(observing.policy.computed_share(0) == 0.25);
  CHECK(observing.report().status == GateStatus::refusing);
  CHECK(observing.report().mode == GateMode::observe);
}

TEST_CASE("a gate that is off still measures", "[admission][unit]") {
  PayoffOptions o;
  o.mode = GateMode::off;
  Gate gate(o);
  gate.verdicts(200, 0);
  for (int i = 0; i < 20; ++i) CHECK(gate.save());
  CHECK(gate.payoff() < 1e-4);
  const auto samples = gate.policy.stats(at(1));
  CHECK(sample_of(samples, "kv_offload_payoff", "1:fs") == gate.payoff());
  CHECK(sample_of(samples, "kv_offload_payoff_save_share", "1:fs") == 1);
  CHECK(sample_of(samples, "kv_offload_payoff_computed_share", "1:fs") == 1);
  CHECK(sample_of(samples, "kv_offload_payoff_saved_jobs_total", "1:fs") == 20);
  CHECK(gate.report().status == GateStatus::off);
}

TEST_CASE("payoff tells nothing to refuse from cannot refuse", "[admission][unit]") {
  PayoffOptions o;
  SECTION("the tier pays off") {
    Gate gate(o);
    gate.verdicts(100, 90);
    CHECK(gate.report().status == GateStatus::nothing_to_refuse);
  }
  SECTION("a floor of 1") {
    o.floor = 1;
    Gate gate(o);
    gate.verdicts(100, 0);
    CHECK(gate.save());
    CHECK(gate.report().status == GateStatus::unreachable);
  }
  SECTION("a target of 0") {
    o.target = 0;
    Gate gate(o);
    gate.verdicts(100, 0);
    CHECK(gate.save());
    CHECK(gate.report().status == GateStatus::unreachable);
  }
  SECTION("no verdict ever comes") {
    Gate gate(o);
    CHECK(gate.report().status == GateStatus::warming_up);
    for (int i = 0; i < 64; ++i) gate.save();
    CHECK(gate.report().status == GateStatus::unreachable);
    CHECK(gate.report().text.find("no verdict came in 64 cascades") != std::string::npos);
  }
}

TEST_CASE("verdicts are counted by name and the present rate gives constants in seconds",
          "[admission][unit]") {
  Gate gate;
  VerdictCounts counts;
  for (std::size_t i = 0; i < kNumLoadVerdicts; ++i) counts.add(static_cast<LoadVerdict>(i), i + 1);
  for (int second = 0; second <= 600; ++second) gate.policy.on_verdicts(0, counts, at(second));
  const auto samples = gate.policy.stats(at(600));
  double sum = 0;
  for (const auto& s : samples) {
    if (s.name != "kv_offload_payoff_verdicts_total" || s.labels[0].second != "1:fs") continue;
    REQUIRE(s.labels[1].first == "verdict");
    for (std::size_t i = 0; i < kNumLoadVerdicts; ++i)
      if (s.labels[1].second == to_string(static_cast<LoadVerdict>(i)))
        CHECK(s.value == 601.0 * static_cast<double>(i + 1));
    sum += s.value;
  }
  CHECK(sum == 601 * 21);
  // 21 a second, discretised: a sum of a geometric row against an integral.
  CHECK(sample_of(samples, "kv_offload_payoff_verdicts_per_second", "1:fs") ==
        Approx(21).epsilon(0.02));
  CHECK(sample_of(samples, "kv_offload_payoff_verdicts_per_second", "2:obj") == 0);
  CHECK(gate.policy.gate_reports(at(600))[0].text.find("verdicts/s: alpha settles in") !=
        std::string::npos);
}

TEST_CASE("a log line is due when the verdicts cross a multiple of the cadence",
          "[admission][unit]") {
  Gate gate;
  gate.verdicts(255, 0);
  CHECK(gate.report().log_moments == 0);
  gate.verdicts(1, 0);
  CHECK(gate.report().log_moments == 1);
  gate.verdicts(255, 0);
  CHECK(gate.report().log_moments == 1);
  gate.verdicts(10, 0);
  CHECK(gate.report().log_moments == 2);
  gate.verdicts(1000, 0);  // several at once are one line
  CHECK(gate.report().log_moments == 3);
}

TEST_CASE("asking the payoff gate a thousand times changes nothing", "[admission][unit]") {
  Gate gate;
  gate.verdicts(100, 3);
  for (int i = 0; i < 5; ++i) gate.save();
  const auto state_of = [&] {
    std::vector<unsigned char> bytes;
    for (const TierIndex tier : {TierIndex{0}, TierIndex{1}})
      for (const auto b : bytes_of(gate.policy.tier(tier))) bytes.push_back(b);
    return bytes;
  };
  const auto before = state_of();
  const RefusalReason first = gate.policy.should_admit(cascade(77), at(0));
  for (int i = 0; i < 1000; ++i) REQUIRE(gate.policy.should_admit(cascade(77), at(i)) == first);
  (void)gate.policy.stats(at(2000));
  (void)gate.policy.gate_reports(at(2000));
  CHECK(state_of() == before);
}

TEST_CASE("a reset payoff gate equals a fresh one", "[admission][unit]") {
  Gate used, fresh;
  used.verdicts(500, 17);
  for (int i = 0; i < 9; ++i) used.save(3);
  used.policy.reset();
  for (Gate* gate : {&used, &fresh}) gate->verdicts(64, 0);
  for (int i = 0; i < 50; ++i) CHECK(used.save() == fresh.save());
  CHECK(used.payoff() == fresh.payoff());
  const auto a = used.policy.stats(at(1)), b = fresh.policy.stats(at(1));
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i].value == b[i].value);
}
