#include "kv_offload/admission/adaptive.hpp"

#include "kv_offload/admission/admission_ledger.hpp"
#include "kv_offload/admission/backlog.hpp"
#include "kv_offload/admission/circuit_breaker.hpp"
#include "kv_offload/admission/composite.hpp"
#include "kv_offload/admission/demand.hpp"
#include "kv_offload/admission/latency_cap.hpp"
#include "kv_offload/admission/load_worth.hpp"
#include "kv_offload/admission/lookup_gates.hpp"
#include "kv_offload/admission/payoff.hpp"
#include "kv_offload/admission/promotion_concurrency.hpp"
#include "kv_offload/admission/write_budget.hpp"
#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <random>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

std::unique_ptr<AdmissionPolicy> adaptive(const std::string& overrides = "") {
  auto made = admission_policies().make(parse(R"({"type": "adaptive")" + overrides + "}"),
                                        "admission_policy", two_tiers());
  REQUIRE(made);
  return std::move(*made);
}
template <class Policy>
const Policy* find(const AdmissionPolicy& policy) {
  for (const auto& member : dynamic_cast<const Composite&>(policy).members())
    if (const auto* found = dynamic_cast<const Policy*>(member.get())) return found;
  return nullptr;
}

}  // namespace

TEST_CASE("adaptive is the recommended composite", "[admission][unit]") {
  const auto policy = adaptive();
  CHECK(policy->name() == "adaptive");
  std::vector<std::string> names;
  for (const auto& member : dynamic_cast<const Composite&>(*policy).members())
    names.emplace_back(member->name());
  CHECK(names == std::vector<std::string>{"circuit_breaker", "cascade_backpressure", "backlog",
                                          "promotion_concurrency", "demand", "load_worth", "payoff",
                                          "lookup_gate"});
  const auto* cap = find<LatencyCap>(*policy);
  REQUIRE(cap != nullptr);
  CHECK(cap->inner().signal() == LatencySignal::per_mib);
  CHECK(cap->inner().detector(0)->options().response == PressureResponse::throttled);
  CHECK(cap->inner().detector(0)->options().high_water == 0.010);
  CHECK(cap->inner().detector(0)->options().low_water == 0.002);
  CHECK(cap->inner().detector(1)->options().high_water == 0.1);  // an object store
  CHECK(cap->inner().detector(1)->options().low_water == 0.02);
  CHECK(find<PromotionConcurrency>(*policy)->max_inflight_promotions() == 4096);
  CHECK(find<Payoff>(*policy)->options().mode == GateMode::observe);
  CHECK(find<Payoff>(*policy)->options().target == 0.10);
  CHECK(find<Demand>(*policy)->options().mode == GateMode::enforce);
  CHECK(find<LookupGates>(*policy)->options().mode == GateMode::off);
  CHECK(find<CircuitBreaker>(*policy)->options().cascades.max_open_s == 1.5);
  CHECK(find<LoadWorth>(*policy)->options().mode == GateMode::enforce);
  CHECK(find<Backlog>(*policy)->options().max_queued_s == 15);  // half of deadlines.store
}

TEST_CASE("adaptive takes overrides key by key", "[admission][unit]") {
  const auto policy =
      adaptive(R"(, "payoff": {"mode": "enforce"}, "lookup_gate": {"mode": "enforce"},
    "write_budget": {"bytes_per_day": "24 MiB"}, "promotion_concurrency": {"max_inflight_promotions": 3},
    "demand": {"grace_bytes": "1 MiB"}, "backpressure": {"cooldown_s": 0})");
  CHECK(find<Payoff>(*policy)->options().mode == GateMode::enforce);
  CHECK(find<Payoff>(*policy)->options().target == 0.10);
  CHECK(find<Demand>(*policy)->options().grace_bytes == kMiB);
  CHECK(find<Demand>(*policy)->options().mode == GateMode::enforce);
  CHECK(find<LookupGates>(*policy)->options().mode == GateMode::enforce);
  CHECK(find<WriteBudget>(*policy)->options().peak_bytes == kMiB);
  CHECK(find<PromotionConcurrency>(*policy)->max_inflight_promotions() == 3);
  const auto& o = find<LatencyCap>(*policy)->inner().detector(0)->options();
  CHECK(o.cooldown_s == 0);
  CHECK(o.decay_half_life_s == 0.5);
  CHECK(o.high_water == 0.010);
}

TEST_CASE("an absent key still means always_admit", "[admission][unit]") {
  CHECK(admission_policies().make(nullptr, "admission_policy", two_tiers()).value()->name() ==
        "always_admit");
}

TEST_CASE("however bad an overload was, the first store passes within two seconds after it",
          "[admission][unit]") {
  const double slow_s = GENERATE(5.0, 60.0, 600.0);
  const double offer_every_s = GENERATE(0.01, 0.1);
  const TierIndex tier = GENERATE(TierIndex{0}, TierIndex{1});
  const std::uint64_t job_bytes = GENERATE(kMiB / 64, 4 * kMiB);
  CAPTURE(slow_s, offer_every_s, tier, job_bytes);
  AdmissionLedger ledger(adaptive(), {1000, 1000}, two_tiers());
  const auto one = keys(1);
  const auto offer = [&](double second) {
    return ledger.decide_cascade(tier, one, job_bytes, nullptr, at(second));
  };
  // Forty stores are under way when the tier stalls, and all of them come back late at once.
  std::vector<AdmissionTicket> tickets;
  for (int i = 0; i < 40; ++i) tickets.push_back(offer(0).ticket);
  for (const auto ticket : tickets)
    ledger.complete(ticket, 1, {true, job_bytes, at(0), at(slow_s)}, at(slow_s));
  REQUIRE_FALSE(offer(slow_s).admitted);
  double waited = 0;
  while (!offer(slow_s + waited).admitted) {
    waited += offer_every_s;
    REQUIRE(waited <= 2.0);
  }
  CHECK(waited > 0.1);  // it did back off
}

TEST_CASE("a tier whose transfers failed is tried again within two seconds, stores included",
          "[admission][unit]") {
  AdmissionLedger ledger(adaptive(), {1000, 1000}, two_tiers());
  const auto one = keys(1);
  double second = 0;
  // An outage of a minute: everything fails, probes too.
  while (second < 60) {
    const auto decision = ledger.decide_cascade(0, one, kMiB, nullptr, at(second));
    if (decision.admitted) ledger.complete(decision.ticket, 1, failed(second, second), at(second));
    second += 0.1;
  }
  double waited = 0;
  while (!ledger.decide_cascade(0, one, kMiB, nullptr, at(second + waited)).admitted) {
    waited += 0.05;
    REQUIRE(waited <= 2.0);
  }
}

TEST_CASE("the cap bounds a sample and changes nothing below it", "[admission][unit]") {
  CascadeBackpressure::Options options;
  options.signal = LatencySignal::per_mib;
  options.tiers = {per_mib_defaults(two_tiers().tiers[0])};
  options.tiers[0]->warmup_completions = 0;
  options.tiers[0]->alpha = 1;
  CascadeBackpressure plain(options);
  LatencyCap capped(std::make_unique<CascadeBackpressure>(options), 2.0);
  CHECK(capped.cap(0) == Approx(0.030 * 2));  // one half-life of 2 s before all is refused
  const auto average = [&](const AdmissionPolicy& policy, double second) {
    return sample_of(policy.stats(at(second)),
                     "vllm:kv_offload_tiering_backpressure_store_latency_ema", "1:unknown");
  };
  AdmissionTicket ticket = 0;
  double now = 0;
  for (const double latency : {0.001, 0.02, 0.059, 0.061, 5.0}) {
    ++ticket;
    for (AdmissionPolicy* policy :
         {static_cast<AdmissionPolicy*>(&plain), static_cast<AdmissionPolicy*>(&capped)}) {
      policy->on_admitted(cascade(ticket, 2), at(now));
      policy->on_completed(cascade(ticket, 2), ended(now, now + 2 * latency, 2 * kMiB),
                           at(now + 2 * latency));
    }
    now += 2 * latency;
    CHECK(average(plain, now) == Approx(latency));
    CHECK(average(capped, now) == Approx(std::min(latency, capped.cap(0))));
  }
  CHECK(capped.in_flight_chunks() == 0);
}

TEST_CASE("an overloaded tier settles below its capacity under adaptive admission",
          "[admission][unit]") {
  // A tier of 50 MiB/s offered 100 MiB/s in jobs of 1 MiB: the queue must stay bounded. Its chunks are asked for
  // again: otherwise `demand` would shut the tier once the grace was used up, and say nothing about the queue.
  AdmissionLedger ledger(adaptive(), {100000, 100000}, two_tiers());
  const auto one = keys(1);
  struct Job {
    AdmissionTicket ticket;
    double from, to;
  };
  std::vector<Job> queue;
  double free_at = 0;
  std::size_t longest = 0, done = 0, next = 0;
  for (int i = 0; i < 20000; ++i) {
    const double now = i * 0.01;
    while (next < queue.size() && queue[next].to <= now) {
      const Job& job = queue[next++];
      ledger.complete(job.ticket, 1, ended(job.from, job.to, kMiB), at(job.to));
      ++done;
    }
    if (i % 10 == 9) ledger.observe_demand({1, {}, {}, true}, at(now));
    const auto decision = ledger.decide_cascade(0, one, kMiB, nullptr, at(now));
    REQUIRE(decision.reason != RefusalReason::demand);
    if (decision.admitted) {
      free_at = std::max(free_at, now) + 0.02;
      queue.push_back({decision.ticket, now, free_at});
    }
    longest = std::max(longest, queue.size() - next);
  }
  CAPTURE(longest, done);
  CHECK(longest < 50);      // a second of work
  CHECK(done > 10000 / 4);  // and the tier is not starved: 10000 would be its capacity
}

TEST_CASE("adaptive stores to a tier whose chunks nobody asks for until its grace is used up, and again when they do",
          "[admission][unit]") {
  AdmissionLedger ledger(adaptive(R"(, "demand": {"grace_bytes": "100 MiB"})"), {100000, 100000}, two_tiers());
  std::size_t stored = 0;
  const auto offer = [&](std::uint32_t i) {
    const auto decision = ledger.decide_cascade(0, keys(1, i), kMiB, nullptr, at(i * 0.01));
    if (decision.admitted)
      ledger.complete(decision.ticket, 1, ended(i * 0.01, i * 0.01 + 0.001, kMiB), at(i * 0.01 + 0.001));
    else
      CHECK(decision.reason == RefusalReason::demand);
    stored += decision.admitted ? 1 : 0;
  };
  for (std::uint32_t i = 0; i < 1000; ++i) offer(i);
  CHECK(stored == 100);
  ledger.observe_demand({0, {}, keys(50, 500), true}, at(10));  // declined, and wanted
  for (std::uint32_t i = 1000; i < 1100; ++i) offer(i);
  CHECK(stored == 200);
}

TEST_CASE("counts balance under random sequences for every policy and for adaptive",
          "[admission][unit]") {
  const std::string json = GENERATE(
      R"({"type": "payoff", "warmup": 4, "alpha": 0.2})",
      R"({"type": "payoff", "mode": "observe", "warmup": 4})", R"({"type": "lookup_gate"})",
      R"({"type": "demand", "grace_bytes": "20 MiB", "horizon_chunks": 30})",
      R"({"type": "load_worth", "probe_every": 4, "probe_chunks": 2})",
      R"({"type": "backlog", "max_queued_s": 0.5})",
      R"({"type": "write_budget", "bytes_per_day": "100 GiB", "peak_bytes": "30 MiB"})",
      R"({"type": "write_budget", "mode": "observe", "bytes_per_day": "100 GiB", "peak_bytes": "9 MiB"})",
      R"({"type": "circuit_breaker", "window": 6, "min_completions": 3})",
      R"({"type": "circuit_breaker", "mode": "observe", "window": 6, "min_completions": 3})",
      R"({"type": "adaptive", "write_budget": {"bytes_per_day": "900 GiB", "peak_bytes": "50 MiB"},
          "lookup_gate": {"mode": "enforce"}, "demand": {"grace_bytes": "20 MiB"},
          "payoff": {"mode": "enforce"}, "promotion_concurrency": {"max_inflight_promotions": 9}})");
  const unsigned seed = GENERATE(1U, 2U, 3U, 4U);
  CAPTURE(json, seed);
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  AdmissionLedger ledger(
      admission_policies().make(parse(json), "admission_policy", two_tiers()).value(), {40, 25},
      two_tiers());
  std::map<AdmissionTicket, std::uint32_t> flights;
  VerdictCounts verdicts[2];
  MonotonicTime now = at(0);
  std::uint64_t admitted = 0;
  for (int step = 0; step < 2000; ++step) {
    now += from_seconds(0.001 * below(400));
    const auto tier = static_cast<TierIndex>(below(2));
    const std::uint32_t action = below(100);
    if (action < 35) {
      const std::uint32_t n = 1 + below(8);
      const auto decision = ledger.decide_cascade(tier, keys(n), n * kMiB, nullptr, now);
      if (decision.admitted) flights[decision.ticket] += n;
      admitted += decision.admitted ? n : 0;
    } else if (action < 55) {
      std::vector<PromotionCandidate> list;
      for (std::uint32_t i = 0; i <= below(6); ++i) list.push_back({key(i), tier});
      for (const auto ticket : ledger.decide_promotions(list, kMiB, nullptr, now).tickets) {
        ++flights[ticket];
        ++admitted;
      }
    } else if (action < 90) {
      if (flights.empty()) continue;
      const auto it = std::next(flights.begin(), below(static_cast<std::uint32_t>(flights.size())));
      const std::uint32_t n = below(3) == 0 ? 1 : it->second;
      const auto ticket = it->first;
      if (below(8) == 0) {
        ledger.overdue(ticket, n, now);
        continue;
      }
      it->second -= n;
      if (it->second == 0) flights.erase(it);
      CompletedTransfer result{below(3) != 0, below(9) * kMiB, now, now};
      if (!result.success) result.failure = static_cast<TransferFailure>(below(10));
      if (below(5) == 0)
        ledger.withdraw(ticket, n, now);
      else
        ledger.complete(ticket, n, result, now);
    } else if (action < 97) {
      verdicts[tier].add(static_cast<LoadVerdict>(below(5)), below(4));
      ledger.observe_verdicts(static_cast<DomainId>(0), tier, verdicts[tier], now);
      if (ledger.decide_lookup(tier, below(20000), below(20000), now) != LookupDecision::skip)
        ledger.answer_lookup(tier, {below(4) != 0, below(20000), below(20000), {}});
      const auto unserved = keys(below(4));
      ledger.observe_demand({below(2), {}, unserved, below(2) == 0}, now);
      ledger.refuse_below_floor(tier, below(3), below(2) == 0, now);
    } else if (action == 97) {
      ledger.reset();
      flights.clear();
    } else {
      (void)ledger.stats(now);
      (void)ledger.due_reports(now);
    }
    std::string why;
    const bool balanced = ledger.check_balance(&why);
    INFO(why);
    REQUIRE(balanced);
    for (const TierIndex t : {TierIndex{0}, TierIndex{1}}) {
      const auto& gate = ledger.lookup_gates().gate(t).totals();
      REQUIRE(gate.lookups == gate.answers + gate.unanswered);
    }
  }
  for (const auto& [ticket, n] : flights) ledger.withdraw(ticket, n, now);
  std::string why;
  const bool idle = ledger.check_idle(&why);
  INFO(why);
  CHECK(idle);
  CHECK(admitted > 200);
}

TEST_CASE("asking adaptive a thousand times changes no number it shows", "[admission][unit]") {
  AdmissionLedger ledger(adaptive(R"(, "payoff": {"mode": "enforce"})"), {40, 25}, two_tiers());
  VerdictCounts verdicts;
  verdicts.add(LoadVerdict::too_small, 100);
  ledger.observe_verdicts(0, 0, verdicts, at(0));
  const auto* policy = &ledger.policy();
  const auto values = [&] {
    std::vector<double> all;
    for (const auto& s : policy->stats(at(1))) all.push_back(s.value);
    return all;
  };
  const auto before = values();
  for (int i = 0; i < 1000; ++i)
    REQUIRE(policy->should_admit(cascade(5), at(1)) == RefusalReason::payoff);
  CHECK(values() == before);
}

TEST_CASE("what the ledger emits is declared", "[admission][unit]") {
  for (const std::string& name : admission_policies().names()) {
    INFO(name);
    const std::string members = name == "composite" ? R"(, "policies": [])" : "";
    auto policy = admission_policies()
                      .make(parse(R"({"type": ")" + name + "\"" + members + "}"), "p", two_tiers())
                      .value();
    const auto definitions = admission_metric_definitions(*policy, two_tiers());
    std::map<std::string, const MetricDefinition*> declared;
    for (const auto& d : definitions) CHECK(declared.emplace(d.name, &d).second);
    AdmissionLedger ledger(std::move(policy), {1, 1}, two_tiers());
    for (const auto& sample : ledger.stats(at(0))) {
      INFO(sample.name);
      REQUIRE(declared.count(sample.name) == 1);
      const auto& d = *declared.at(sample.name);
      REQUIRE(sample.labels.size() == d.label_names.size());
      for (std::size_t i = 0; i < sample.labels.size(); ++i)
        CHECK(sample.labels[i].first == d.label_names[i]);
      CHECK(d.name.ends_with("_total") == (d.kind == MetricKind::counter));
    }
  }
}
