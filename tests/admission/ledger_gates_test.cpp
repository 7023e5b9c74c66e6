#include "kv_offload/admission/admission_ledger.hpp"
#include "kv_offload/admission/admission_registry.hpp"
#include "kv_offload/admission/always_admit.hpp"
#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

AdmissionLedger ledger_of(const std::string& json) {
  return {admission_policies().make(parse(json), "admission_policy", two_tiers()).value(),
          {1000, 1000},
          two_tiers()};
}
VerdictCounts unpaid(std::uint64_t n) {
  VerdictCounts counts;
  counts.add(LoadVerdict::too_small, n);
  return counts;
}
double verdicts_of(const AdmissionLedger& ledger, LoadVerdict verdict) {
  for (const auto& s : ledger.stats(at(0)))
    if (s.name == "kv_offload_payoff_verdicts_total" && s.labels[0].second == "1:fs" &&
        s.labels[1].second == to_string(verdict))
      return s.value;
  return -1;
}

}  // namespace

TEST_CASE("verdicts travel as totals of each sender and reach the gate once", "[admission][unit]") {
  auto ledger = ledger_of(R"({"type": "payoff"})");
  ledger.observe_verdicts(0, 0, unpaid(10), at(0));
  ledger.observe_verdicts(0, 0, unpaid(10), at(1));  // said again
  ledger.observe_verdicts(1, 0, unpaid(5), at(1));   // another domain
  ledger.observe_verdicts(0, 0, unpaid(40), at(2));  // steps between were lost
  CHECK(ledger.payoff().tier(0).estimate.samples() == 45);
  ledger.observe_verdicts(0, 0, unpaid(3), at(3));  // began anew
  CHECK(ledger.payoff().tier(0).estimate.samples() == 45);
  CHECK(ledger.verdict_resynchronisations() == 1);
  ledger.observe_verdicts(0, 0, unpaid(4), at(4));
  CHECK(ledger.payoff().tier(0).estimate.samples() == 46);
  CHECK(ledger.payoff().tier(1).estimate.samples() == 0);
}

TEST_CASE("a reset forgets the payoff, not how far the senders' totals were seen",
          "[admission][unit]") {
  auto ledger = ledger_of(R"({"type": "payoff"})");
  ledger.observe_verdicts(0, 0, unpaid(500), at(0));
  ledger.reset();
  CHECK(ledger.payoff().tier(0).estimate.value() == 1);
  ledger.observe_verdicts(0, 0, unpaid(501), at(1));
  CHECK(ledger.payoff().tier(0).estimate.samples() == 1);
  CHECK(verdicts_of(ledger, LoadVerdict::too_small) == 501);  // the counter goes on
}

TEST_CASE("a skipped lookup is one unpaid verdict, at once", "[admission][unit]") {
  auto ledger = ledger_of(
      R"({"type": "composite", "policies": [{"type": "payoff"}, {"type": "lookup_gate"}]})");
  for (int i = 0; i < 31; ++i)
    CHECK(ledger.decide_lookup(0, 20000, 16000, at(0)) == LookupDecision::skip);
  CHECK(ledger.decide_lookup(0, 20000, 16000, at(0)) == LookupDecision::forced);
  CHECK(ledger.payoff().tier(0).estimate.samples() == 31);
  CHECK(verdicts_of(ledger, LoadVerdict::lookup_skipped) == 31);
  CHECK(ledger.lookup_gates().gate(0).totals().avoided_tokens == 31 * 20000);
  ledger.answer_lookup(0, {true, 0, 16000, from_seconds(0.5)});  // a miss is no verdict
  CHECK(ledger.payoff().tier(0).estimate.samples() == 31);
  CHECK(ledger.lookup_gates().gate(0).totals().answers == 1);
  CHECK(ledger.lookup_gates().gate(1).totals().lookups == 0);
}

TEST_CASE("a lookup that nobody asked about is counted and never skipped", "[admission][unit]") {
  auto ledger = ledger_of(R"({"type": "lookup_gate"})");
  for (int i = 0; i < 5; ++i) ledger.count_lookup(0, 20000, 16000, at(0));
  ledger.count_lookup(9, 20000, 16000, at(0));  // a tier it does not know
  CHECK(ledger.lookup_gates().gate(0).totals().lookups == 5);
  CHECK(ledger.lookup_gates().gate(0).totals().skips == 0);
  CHECK(ledger.payoff().tier(0).estimate.samples() == 0);
}

TEST_CASE("without gates everything is looked up, admitted and measured all the same",
          "[admission][unit]") {
  AdmissionLedger ledger(std::make_unique<AlwaysAdmit>(), {1000, 1000}, two_tiers());
  ledger.observe_verdicts(0, 0, unpaid(200), at(0));
  for (int i = 0; i < 100; ++i) {
    CHECK(ledger.decide_lookup(0, 20000, 16000, at(0)) == LookupDecision::look_up);
    ledger.answer_lookup(0, {true, 16000 + 8192, 16000, from_seconds(0.01)});
    CHECK(ledger.decide_cascade(0, keys(2), 2 * kMiB, nullptr, at(0)).admitted);
  }
  const auto samples = ledger.stats(at(1));
  CHECK(sample_of(samples, "kv_offload_payoff", "1:fs") < 1e-4);
  CHECK(sample_of(samples, "kv_offload_payoff_saved_jobs_total", "1:fs") == 100);
  CHECK(sample_of(samples, "kv_offload_lookup_gate_lookups_total", "1:fs") == 100);
  CHECK(sample_of(samples, "kv_offload_lookup_gate_lookup_seconds_total", "1:fs") == Approx(1.0));
  CHECK(sample_of(samples, "kv_offload_lookup_gate_actionable_rate", "1:fs") > 0.5);
  const auto reports = ledger.gate_reports(at(1));
  CHECK(std::all_of(reports.begin(), reports.end(),
                    [](const GateReport& r) { return r.status == GateStatus::off; }));
  CHECK(reports.size() == 4);
  std::string why;
  CHECK(ledger.check_balance(&why));
}

TEST_CASE("a ledger without an environment measures nothing and decides as before",
          "[admission][unit]") {
  AdmissionLedger ledger(std::make_unique<AlwaysAdmit>(), {1000});
  ledger.observe_verdicts(0, 0, unpaid(200), at(0));
  CHECK(ledger.decide_lookup(0, 20000, 16000, at(0)) == LookupDecision::look_up);
  ledger.answer_lookup(0, {});
  CHECK(ledger.stats(at(0)).empty());
  CHECK(ledger.gate_reports(at(0)).empty());
}

TEST_CASE("chunks below the save floor are refused without asking anyone", "[admission][unit]") {
  auto owned = std::make_unique<ScriptedPolicy>("scripted");
  const ScriptedPolicy* policy = owned.get();
  AdmissionLedger ledger(std::move(owned), {1000, 1000}, two_tiers());
  ledger.refuse_below_floor(0, 7, false, at(0));
  ledger.refuse_below_floor(0, 5, true, at(0));
  ledger.refuse_below_floor(0, 0, true, at(0));
  CHECK(policy->asked_ == 0);
  CHECK(policy->refused_ == 0);
  const auto& cascades = ledger.totals(0).cascades;
  const JobCount refused = cascades.refused[static_cast<std::size_t>(RefusalReason::save_floor)];
  CHECK(refused.jobs == 1);
  CHECK(refused.chunks == 12);
  CHECK(cascades.offered == refused);
  std::string why;
  CHECK(ledger.check_balance(&why));
  REQUIRE(ledger.decisions().recent().size() == 2);
  CHECK(ledger.decisions().recent()[0].refuser == "save_floor");
}

TEST_CASE("an overdue job opens the breaker before its I/O has ended", "[admission][unit]") {
  auto ledger = ledger_of(R"({"type": "circuit_breaker", "min_completions": 3, "window": 3})");
  std::vector<AdmissionTicket> tickets;
  for (int i = 0; i < 3; ++i)
    tickets.push_back(ledger.decide_cascade(0, keys(4), 4 * kMiB, nullptr, at(0)).ticket);
  for (const auto ticket : tickets) ledger.overdue(ticket, 4, at(30));
  ledger.overdue(999, 4, at(30));  // unknown
  const auto refused = ledger.decide_cascade(0, keys(4), 4 * kMiB, nullptr, at(30));
  CHECK(refused.reason == RefusalReason::circuit_breaker);
  CHECK(refused.refuser == "circuit_breaker");
  CHECK(ledger.totals(0).cascades.in_flight.chunks == 12);
  for (const auto ticket : tickets) ledger.complete(ticket, 4, failed(0, 31), at(31));
  std::string why;
  CHECK(ledger.check_idle(&why));
}

TEST_CASE("reports are due by their own cadence, each once", "[admission][unit]") {
  auto ledger = ledger_of(R"({"type": "payoff", "report_every": 10})");
  CHECK(ledger.due_reports(at(0)).empty());
  ledger.observe_verdicts(0, 0, unpaid(10), at(0));
  const auto due = ledger.due_reports(at(0));
  REQUIRE(due.size() == 1);
  CHECK(due[0].gate == "payoff");
  CHECK(due[0].tier == "1:fs");
  CHECK(ledger.due_reports(at(0)).empty());
  ledger.reset();
  CHECK(ledger.due_reports(at(0)).empty());
  ledger.observe_verdicts(0, 0, unpaid(20), at(0));
  CHECK(ledger.due_reports(at(0)).size() == 1);
}

TEST_CASE("what must survive a restart is one text, and nothing where nothing must",
          "[admission][unit]") {
  const std::string json = R"({"type": "adaptive",
    "write_budget": {"bytes_per_day": "100 MiB", "peak_bytes": "10 MiB"}})";
  CHECK(ledger_of(R"({"type": "adaptive"})").saved_state(at(0), 5).empty());
  auto before = ledger_of(json);
  REQUIRE(before.decide_cascade(0, keys(10), 10 * kMiB, nullptr, at(0)).admitted);
  const std::string text = before.saved_state(at(0), 5000);
  CHECK(text.starts_with("kv_offload admission 1\n"));

  auto after = ledger_of(json);
  REQUIRE(after.restore_state(text, at(0), 5000));
  CHECK(after.decide_cascade(0, keys(1), kMiB, nullptr, at(0)).reason ==
        RefusalReason::write_budget);
  CHECK(after.decide_cascade(1, keys(1), kMiB, nullptr, at(0)).admitted);

  CHECK(ledger_of(json).restore_state("", at(0), 5000));
  for (const std::string& bad : {std::string("x"), text.substr(0, text.size() / 2),
                                 "kv_offload admission 2\n" + text.substr(23)}) {
    auto ledger = ledger_of(json);
    CHECK_FALSE(ledger.restore_state(bad, at(0), 5000));
    CHECK_FALSE(ledger.decide_cascade(1, keys(1), kMiB, nullptr, at(0)).admitted);
  }
}
