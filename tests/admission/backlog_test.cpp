#include "kv_offload/admission/backlog.hpp"

#include "kv_offload/admission/admission_ledger.hpp"
#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

#include <deque>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

BacklogOptions options(double max_queued_s) {
  BacklogOptions o;
  o.max_queued_s = max_queued_s;
  return o;
}

/// A tier that writes one job of 1 MiB after the other.
struct Line {
  explicit Line(const BacklogOptions& o)
      : ledger(std::make_unique<Backlog>(o, two_tiers()), {1U << 30, 1U << 30}, two_tiers()) {}
  const Backlog& gate() const { return dynamic_cast<const Backlog&>(ledger.policy()); }
  bool offer(double second) {
    const auto decision = ledger.decide_cascade(0, keys(1), kMiB, nullptr, at(second));
    if (!decision.admitted)
      CHECK(decision.reason == RefusalReason::backlog);
    else
      queue.push_back(decision.ticket);
    return decision.admitted;
  }
  void end_one(double second) {
    ledger.complete(queue.front(), 1, ended(0, second), at(second));
    queue.pop_front();
  }
  AdmissionLedger ledger;
  std::deque<AdmissionTicket> queue;
};

}  // namespace

TEST_CASE("a queue is bounded in seconds of what the tier writes", "[admission][unit]") {
  const double per_s = GENERATE(2.0, 10.0, 50.0);
  Line line(options(3));
  double second = 0;
  // Offered twice as much as it takes.
  for (int n = 0; n < 4000; ++n) {
    second += 0.5 / per_s;
    (void)line.offer(second);
    if (n % 2 == 1 && !line.queue.empty()) line.end_one(second);
  }
  CHECK(static_cast<double>(line.queue.size()) == Approx(3 * per_s).epsilon(0.1).margin(2.1));
  CHECK(line.gate().rate(0, at(second)) ==
        Approx(per_s * kMiB).epsilon(0.25));  // it has just ended one
  CHECK(line.gate().tier(0).refused_jobs > 1000);
}

TEST_CASE("a tier that has nothing queued is always given a store", "[admission][unit]") {
  Line line(options(0.001));
  for (int n = 0; n < 20; ++n) {
    CHECK(line.offer(n));
    line.end_one(n + 0.9);
  }
}

TEST_CASE("a tier that ends nothing at all is full when its first store has taken too long",
          "[admission][unit]") {
  Line line(options(3));
  CHECK(line.offer(0));
  CHECK(line.offer(2));
  CHECK_FALSE(line.offer(7));
  line.end_one(8);
  line.end_one(8);
  CHECK(line.offer(8));
}

TEST_CASE("backlog: promotions pass, mode off refuses nothing, withdrawn stores leave the queue",
          "[admission][unit]") {
  Backlog gate(options(1), two_tiers());
  gate.on_admitted(cascade(1), at(0));
  CHECK(gate.should_admit(cascade(2), at(10)) == RefusalReason::backlog);
  CHECK(gate.should_admit(promotion(2), at(10)) == RefusalReason::none);
  CHECK(gate.should_admit(cascade(2, 1, 1), at(10)) == RefusalReason::none);  // the other tier
  gate.on_withdrawn(cascade(1), at(10));
  CHECK(gate.should_admit(cascade(2), at(10)) == RefusalReason::none);
  CHECK(gate.in_flight_chunks() == 0);
  auto o = options(1);
  o.mode = GateMode::observe;
  Backlog observing(o, two_tiers());
  observing.on_admitted(cascade(1), at(0));
  CHECK(observing.should_admit(cascade(2), at(10)) == RefusalReason::none);
  observing.on_admitted(cascade(2), at(10));
  CHECK(observing.tier(0).would_refuse_chunks == 1);
}

TEST_CASE("backlog: asking changes nothing, and a reset equals a fresh gate", "[admission][unit]") {
  Line line(options(1));
  (void)line.offer(0);
  (void)line.offer(0.5);
  line.end_one(0.7);
  const auto before = bytes_of(line.gate().tier(0));
  for (int i = 0; i < 1000; ++i) (void)line.gate().should_admit(cascade(9), at(i));
  CHECK(bytes_of(line.gate().tier(0)) == before);
  line.ledger.reset();
  CHECK(line.gate().queued_s(0, kMiB, at(1)) == 0);
  CHECK(line.gate().in_flight_chunks() == 0);
}

TEST_CASE("backlog says what it is doing, with the numbers", "[admission][unit]") {
  Line line(options(1));
  const auto report = [&](double second) { return line.gate().gate_reports(at(second)).front(); };
  CHECK(report(0).status == GateStatus::warming_up);
  for (int n = 0; n < 5; ++n) (void)line.offer(0);
  line.end_one(1);
  CHECK(report(1).status == GateStatus::refusing);
  CHECK(report(1).text.find("4 chunks queued") == 0);
  for (int n = 0; n < 4; ++n) line.end_one(1.5);
  CHECK(report(1.5).status == GateStatus::nothing_to_refuse);
}
