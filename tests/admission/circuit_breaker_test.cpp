#include "kv_offload/admission/circuit_breaker.hpp"

#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

BreakerOptions small() {
  BreakerOptions o;
  o.window = 10;
  o.min_completions = 4;
  o.open_s = 2;
  o.max_open_s = 10;
  return o;
}
CircuitBreakerOptions both(const BreakerOptions& o, GateMode mode = GateMode::enforce) {
  return {mode, o, o};
}

CompletedTransfer failed_with(TransferFailure failure) {
  CompletedTransfer result = failed(0, 1);
  result.failure = failure;
  return result;
}

struct Driver {
  explicit Driver(CircuitBreakerOptions options = both(small())) : policy(options, two_tiers()) {}

  /// 0: refused; else the ticket.
  AdmissionTicket admit(double second, bool is_promotion = false, TierIndex tier = 0) {
    JobMetadata job = is_promotion ? promotion(next, 1, tier) : cascade(next, 1, tier);
    if (policy.should_admit(job, at(second)) != RefusalReason::none) {
      policy.on_refused(job, &policy, at(second));
      return 0;
    }
    policy.on_admitted(job, at(second));
    return next++;
  }
  void end(AdmissionTicket ticket, bool success, double second, bool is_promotion = false) {
    const JobMetadata job = is_promotion ? promotion(ticket) : cascade(ticket);
    policy.on_completed(job, success ? ended(0, 1) : failed(0, 1), at(second));
  }
  void run(int jobs, bool success, double second) {
    for (int i = 0; i < jobs; ++i) {
      const AdmissionTicket ticket = admit(second);
      REQUIRE(ticket != 0);
      end(ticket, success, second);
    }
  }
  [[nodiscard]] BreakerState state(double second, bool is_promotion = false) const {
    return policy.breaker(0, is_promotion).state(at(second));
  }

  CircuitBreaker policy;
  AdmissionTicket next = 1;
};

}  // namespace

TEST_CASE("a breaker opens when the share of failures in its window is reached",
          "[admission][unit]") {
  Driver driver;
  driver.run(10, true, 0);
  driver.run(4, false, 0);  // 6 good, 4 bad
  CHECK(driver.state(0) == BreakerState::closed);
  CHECK(driver.policy.breaker(0, false).error_rate() == 0.4);
  driver.run(1, false, 0);  // 5 of 10
  CHECK(driver.state(0) == BreakerState::open);
  CHECK(driver.admit(0) == 0);
  CHECK(driver.policy.should_admit(cascade(99), at(0)) == RefusalReason::circuit_breaker);
}

TEST_CASE("few completions open nothing", "[admission][unit]") {
  Driver driver;
  driver.run(3, false, 0);
  CHECK(driver.state(0) == BreakerState::closed);
  driver.run(1, false, 0);
  CHECK(driver.state(0) == BreakerState::open);
}

TEST_CASE("old failures leave the window", "[admission][unit]") {
  Driver driver;
  driver.run(3, true, 0);
  for (int round = 0; round < 100; ++round) {
    driver.run(2, false, 0);  // a fifth of all, for ever
    driver.run(8, true, 0);
  }
  CHECK(driver.state(0) == BreakerState::closed);
}

TEST_CASE("after its wait a bounded number of probes is in flight, and three close it",
          "[admission][unit]") {
  Driver driver;
  driver.run(4, false, 0);
  CHECK(driver.admit(1.99) == 0);
  CHECK(driver.state(2) == BreakerState::half_open);
  const AdmissionTicket a = driver.admit(2), b = driver.admit(2);
  REQUIRE(a != 0);
  REQUIRE(b != 0);
  CHECK(driver.admit(2) == 0);
  CHECK(driver.policy.probes_in_flight(0, false) == 2);
  driver.end(a, true, 2.1);
  CHECK(driver.state(2.1) == BreakerState::half_open);
  const AdmissionTicket c = driver.admit(2.1);
  REQUIRE(c != 0);
  driver.end(b, true, 2.2);
  driver.end(c, true, 2.2);
  CHECK(driver.state(2.2) == BreakerState::closed);
  CHECK(driver.policy.probes_in_flight(0, false) == 0);
  CHECK(driver.policy.breaker(0, false).error_rate() == 0);  // starts over
  driver.run(3, false, 3);
  CHECK(driver.state(3) == BreakerState::closed);
}

TEST_CASE("a failed probe opens again and doubles the wait, up to the most", "[admission][unit]") {
  Driver driver;
  driver.run(4, false, 0);
  double second = 0, wait = 2;
  for (int i = 0; i < 6; ++i) {
    CHECK(driver.state(second + wait - 0.01) == BreakerState::open);
    second += wait;
    const AdmissionTicket probe = driver.admit(second);
    REQUIRE(probe != 0);
    driver.end(probe, false, second);
    CHECK(driver.state(second) == BreakerState::open);
    wait = std::min(10.0, wait * 2);
  }
  // Once closed, the next opening waits the first time again.
  second += wait;
  driver.run(3, true, second);
  CHECK(driver.state(second) == BreakerState::closed);
  driver.run(4, false, second);
  CHECK(driver.state(second + 1.99) == BreakerState::open);
  CHECK(driver.state(second + 2) == BreakerState::half_open);
}

TEST_CASE("a job from before the opening is no probe", "[admission][unit]") {
  Driver driver;
  std::vector<AdmissionTicket> old;
  for (int i = 0; i < 5; ++i) old.push_back(driver.admit(0));
  driver.run(4, false, 0);
  for (int i = 0; i < 3; ++i) driver.end(old[static_cast<std::size_t>(i)], true, 2.5);
  CHECK(driver.state(2.5) == BreakerState::half_open);
  driver.end(old[3], false, 2.5);
  CHECK(driver.state(2.5) == BreakerState::half_open);
  CHECK(driver.admit(2.5) != 0);
}

TEST_CASE("a probe of an earlier opening counts for no later one", "[admission][unit]") {
  Driver driver;
  driver.run(4, false, 0);
  const AdmissionTicket late = driver.admit(2), failing = driver.admit(2);
  driver.end(failing, false, 2);
  CHECK(driver.state(6) == BreakerState::half_open);
  driver.end(late, false, 6);
  CHECK(driver.state(6) == BreakerState::half_open);
  CHECK(driver.policy.probes_in_flight(0, false) == 0);
}

TEST_CASE("a job that its deadline gave up is one failure, at that moment", "[admission][unit]") {
  Driver driver;
  std::vector<AdmissionTicket> stuck;
  for (int i = 0; i < 4; ++i) stuck.push_back(driver.admit(0));
  for (const auto ticket : stuck) driver.policy.on_overdue(cascade(ticket), at(30));
  CHECK(driver.state(30) == BreakerState::open);
  CHECK(driver.policy.in_flight_chunks() == 4);
  const auto openings = driver.policy.breaker(0, false).openings();
  for (const auto ticket : stuck) driver.end(ticket, ticket % 2 == 0, 31);  // ends at last
  CHECK(driver.policy.breaker(0, false).openings() == openings);
  CHECK(driver.policy.breaker(0, false).completions() == 4);
  CHECK(driver.policy.in_flight_chunks() == 0);
}

TEST_CASE("a probe that hangs is a failure and keeps its place", "[admission][unit]") {
  Driver driver;
  driver.run(4, false, 0);
  const AdmissionTicket a = driver.admit(2), b = driver.admit(2);
  driver.policy.on_overdue(cascade(a), at(5));
  CHECK(driver.state(5) == BreakerState::open);
  CHECK(driver.state(9) == BreakerState::half_open);
  CHECK(driver.admit(9) == 0);  // two jobs hang in the tier: no third
  driver.end(b, true, 9);
  CHECK(driver.admit(9) != 0);
  driver.policy.on_overdue(cascade(a), at(9));  // told twice, counted once
  CHECK(driver.state(9) == BreakerState::half_open);
}

TEST_CASE("withdrawn jobs and failures of the data count for nothing", "[admission][unit]") {
  Driver driver;
  const auto failure = GENERATE(TransferFailure::not_found, TransferFailure::foreign,
                                TransferFailure::cancelled, TransferFailure::stale_slot);
  for (int i = 0; i < 20; ++i) {
    const AdmissionTicket a = driver.admit(0), b = driver.admit(0);
    driver.policy.on_withdrawn(cascade(a), at(0));
    driver.policy.on_completed(cascade(b), failed_with(failure), at(0));
  }
  CHECK(driver.policy.breaker(0, false).completions() == 0);
  CHECK(driver.state(0) == BreakerState::closed);
  CHECK(driver.policy.in_flight_chunks() == 0);
}

TEST_CASE("failures of the tier count, whatever their kind", "[admission][unit]") {
  const auto failure =
      GENERATE(TransferFailure::none, TransferFailure::io_error, TransferFailure::corrupt,
               TransferFailure::no_space, TransferFailure::deadline, TransferFailure::lane_dead);
  Driver driver;
  for (int i = 0; i < 4; ++i)
    driver.policy.on_completed(cascade(driver.admit(0)), failed_with(failure), at(0));
  CHECK(driver.state(0) == BreakerState::open);
}

TEST_CASE("a withdrawn probe frees its place and decides nothing", "[admission][unit]") {
  Driver driver;
  driver.run(4, false, 0);
  const AdmissionTicket a = driver.admit(2), b = driver.admit(2);
  driver.policy.on_withdrawn(cascade(a), at(2));
  CHECK(driver.state(2) == BreakerState::half_open);
  CHECK(driver.policy.probes_in_flight(0, false) == 1);
  CHECK(driver.admit(2) != 0);
  driver.end(b, false, 2);
  CHECK(driver.state(2) == BreakerState::open);
}

TEST_CASE("directions and tiers have breakers of their own", "[admission][unit]") {
  Driver driver;
  driver.run(4, false, 0);
  CHECK(driver.admit(0) == 0);
  CHECK(driver.admit(0, true) != 0);
  CHECK(driver.admit(0, false, 1) != 0);
  CHECK(driver.state(0, true) == BreakerState::closed);
  CHECK(driver.policy.should_admit(cascade(1, 1, 9), at(0)) == RefusalReason::none);
}

TEST_CASE("a batch of promotions under one ticket is one probe", "[admission][unit]") {
  BreakerOptions o = small();
  o.half_open_jobs = 1;
  Driver driver(both(o));
  for (int i = 0; i < 4; ++i) driver.end(driver.admit(0, true), false, 0, true);
  REQUIRE(driver.state(2, true) == BreakerState::half_open);
  for (int chunk = 0; chunk < 5; ++chunk) {
    CHECK(driver.policy.should_admit(promotion(50), at(2)) == RefusalReason::none);
    driver.policy.on_admitted(promotion(50), at(2));
  }
  CHECK(driver.policy.should_admit(promotion(51), at(2)) == RefusalReason::circuit_breaker);
  CHECK(driver.policy.probes_in_flight(0, true) == 1);
  driver.policy.on_completed(promotion(50, 2), ended(0, 1), at(2));
  CHECK(driver.policy.probes_in_flight(0, true) == 1);
  driver.policy.on_completed(promotion(50, 3), ended(0, 1), at(2));
  CHECK(driver.policy.probes_in_flight(0, true) == 0);
}

TEST_CASE("an observing breaker refuses nothing, probes on, and counts", "[admission][unit]") {
  Driver driver(both(small(), GateMode::observe));
  driver.run(4, false, 0);
  CHECK(driver.state(0) == BreakerState::open);
  for (int i = 0; i < 7; ++i) CHECK(driver.admit(1) != 0);
  CHECK(sample_of(driver.policy.stats(at(1)), "x", "1:fs") == -1);
  double would = 0;
  for (const auto& s : driver.policy.stats(at(1)))
    if (s.name == "kv_offload_circuit_breaker_would_refuse_decisions_total") would += s.value;
  CHECK(would == 7);
  driver.run(3, true, 2);
  CHECK(driver.state(2) == BreakerState::closed);
}

TEST_CASE("the report tells a closed breaker from an open one, with numbers", "[admission][unit]") {
  Driver driver;
  CHECK(driver.policy.gate_reports(at(0))[0].status == GateStatus::warming_up);
  driver.run(4, true, 0);
  CHECK(driver.policy.gate_reports(at(0))[0].status == GateStatus::nothing_to_refuse);
  driver.run(4, false, 0);
  const GateReport report = driver.policy.gate_reports(at(0))[0];
  CHECK(report.status == GateStatus::refusing);
  CHECK(report.text.find("cascades open, 50 % of the last 8 jobs failed") != std::string::npos);
  CHECK(driver.policy.gate_reports(at(0))[1].status == GateStatus::warming_up);
}

TEST_CASE("asking a breaker a thousand times changes nothing, also when its wait ends",
          "[admission][unit]") {
  Driver driver;
  driver.run(4, false, 0);
  const auto before = bytes_of(driver.policy.breaker(0, false));
  for (int i = 0; i < 1000; ++i)
    REQUIRE((driver.policy.should_admit(cascade(99), at(i * 0.004)) == RefusalReason::none) ==
            (i * 0.004 >= 2));
  (void)driver.policy.stats(at(5));
  (void)driver.policy.gate_reports(at(5));
  CHECK(bytes_of(driver.policy.breaker(0, false)) == before);
  CHECK(driver.policy.probes_in_flight(0, false) == 0);
}

TEST_CASE("a reset breaker equals a fresh one", "[admission][unit]") {
  Driver driver;
  driver.run(3, false, 0);
  const AdmissionTicket old = driver.admit(0);
  driver.policy.reset();
  CHECK(driver.policy.in_flight_chunks() == 0);
  driver.end(old, false, 0);  // of before the reset
  driver.run(3, false, 0);
  CHECK(driver.state(0) == BreakerState::closed);
  driver.run(1, false, 0);
  CHECK(driver.state(0) == BreakerState::open);
}
