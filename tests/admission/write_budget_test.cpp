#include "kv_offload/admission/write_budget.hpp"

#include "kv_offload/admission/composite.hpp"
#include "kv_offload/admission/promotion_concurrency.hpp"
#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

#include <deque>
#include <random>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr double kDay = 86400;

WriteBudgetOptions options(std::uint64_t mib_per_day, std::uint64_t peak_mib) {
  WriteBudgetOptions o;
  o.bytes_per_day = mib_per_day * kMiB;
  o.peak_bytes = peak_mib * kMiB;
  return o;
}

/// Drives one budget as the ledger does: ask, then commit.
struct Driver {
  explicit Driver(WriteBudgetOptions o) : policy(o, two_tiers()) {}

  bool store(std::uint32_t mib, double second, TierIndex tier = 0) {
    job = cascade(++ticket, mib, tier);
    const bool admitted = policy.should_admit(job, at(second)) == RefusalReason::none;
    if (admitted)
      policy.on_admitted(job, at(second));
    else
      policy.on_refused(job, &policy, at(second));
    return admitted;
  }
  [[nodiscard]] double left_mib(double second, TierIndex tier = 0) const {
    return policy.tier(tier)->bucket.tokens(at(second)) / kMiB;
  }

  WriteBudget policy;
  AdmissionTicket ticket = 0;
  JobMetadata job;
};

}  // namespace

TEST_CASE("a budget starts with one peak and refills by time", "[admission][unit]") {
  Driver driver(options(110, 10));  // refill: 100 MiB a day
  CHECK(driver.left_mib(0) == 10);
  CHECK(driver.store(10, 0));
  CHECK_FALSE(driver.store(1, 0));
  CHECK(driver.left_mib(kDay / 100) == Approx(1));
  CHECK_FALSE(driver.store(1, kDay / 100 - 1));
  CHECK(driver.store(1, kDay / 100));
  CHECK(driver.left_mib(10 * kDay) == 10);  // never more than the peak
  CHECK(driver.policy.tier(0)->refused_jobs == 2);
  CHECK(driver.policy.tier(0)->refused_bytes == 2 * kMiB);
}

TEST_CASE("no 24 hours see more than the day's bytes, and a busy day sees nearly all of them",
          "[admission][unit]") {
  const unsigned seed = GENERATE(range(1U, 5U));
  CAPTURE(seed);
  std::mt19937 random(seed);
  Driver driver(options(1000, 50));
  std::deque<std::pair<double, std::uint32_t>> day;
  std::uint64_t in_day = 0, most = 0;
  double second = 0;
  while (second < 4 * kDay) {
    second += random() % 100 == 0 ? 3600.0 : 20.0 + static_cast<double>(random() % 40);
    while (!day.empty() && day.front().first <= second - kDay) {
      in_day -= day.front().second;
      day.pop_front();
    }
    const auto mib = static_cast<std::uint32_t>(1 + random() % 5);
    if (!driver.store(mib, second)) continue;
    day.emplace_back(second, mib);
    in_day += mib;
    most = std::max(most, in_day);
    driver.policy.on_completed(driver.job, ended(second, second, mib * kMiB), at(second));
    REQUIRE(in_day <= 1000);
  }
  CHECK(most > 800);
}

TEST_CASE("what was not written is given back", "[admission][unit]") {
  Driver driver(options(1000, 10));
  REQUIRE(driver.store(10, 0));
  driver.policy.on_completed(driver.job, ended(0, 1, 4 * kMiB),
                             at(0));  // the rest was there already
  CHECK(driver.left_mib(0) == 6);
  REQUIRE(driver.store(6, 0));
  driver.policy.on_withdrawn(driver.job, at(0));
  CHECK(driver.left_mib(0) == 6);
  CHECK(driver.policy.tier(0)->written_bytes == 4 * kMiB);
  CHECK(driver.policy.in_flight_chunks() == 0);
}

TEST_CASE("a failed write stays charged, because it may have worn the device",
          "[admission][unit]") {
  Driver driver(options(1000, 10));
  REQUIRE(driver.store(8, 0));
  driver.policy.on_completed(driver.job, failed(0, 1), at(0));
  CHECK(driver.left_mib(0) == 2);
  CHECK(driver.policy.tier(0)->written_bytes == 8 * kMiB);
}

TEST_CASE("ends that were never admitted give nothing back", "[admission][unit]") {
  Driver driver(options(1000, 10));
  REQUIRE(driver.store(8, 0));
  driver.policy.on_withdrawn(cascade(99, 8), at(0));
  driver.policy.on_completed(cascade(98, 8), ended(0, 1, 0), at(0));
  CHECK(driver.left_mib(0) == 2);
  CHECK(driver.policy.in_flight_chunks() == 8);
}

TEST_CASE("a time that goes back is no time passed", "[admission][unit]") {
  Driver driver(options(1000, 10));
  REQUIRE(driver.store(10, 1000));
  CHECK(driver.left_mib(0) == 0);
  CHECK_FALSE(driver.store(1, 0));
  CHECK(driver.left_mib(1000) == 0);
}

TEST_CASE("a job above the peak never fits, and the report says so", "[admission][unit]") {
  Driver driver(options(1000, 10));
  CHECK_FALSE(driver.store(11, 0));
  CHECK_FALSE(driver.store(11, 10 * kDay));
  const GateReport report = driver.policy.gate_reports(at(10 * kDay))[0];
  CHECK(report.status == GateStatus::refusing);
  CHECK(report.text.find("never fits the peak") != std::string::npos);
  CHECK(driver.policy.gate_reports(at(0))[1].status == GateStatus::nothing_to_refuse);
}

TEST_CASE("tiers have budgets of their own, and some have none, promotions pass",
          "[admission][unit]") {
  WriteBudgetOptions o = options(1000, 10);
  SECTION("all") {
    Driver driver(o);
    CHECK(driver.store(10, 0, 0));
    CHECK_FALSE(driver.store(1, 0, 0));
    CHECK(driver.store(10, 0, 1));
    CHECK(driver.policy.should_admit(promotion(50, 100), at(0)) == RefusalReason::none);
  }
  SECTION("the second only") {
    o.tiers = {false, true};
    Driver driver(o);
    CHECK(driver.policy.tier(0) == nullptr);
    CHECK(driver.store(1000, 0, 0));
    CHECK_FALSE(driver.store(1000, 0, 1));
    CHECK(driver.policy.gate_reports(at(0)).size() == 1);
  }
}

TEST_CASE("an observing budget refuses nothing and goes on as if it had", "[admission][unit]") {
  WriteBudgetOptions o = options(1000, 10);
  o.mode = GateMode::observe;
  Driver driver(o);
  CHECK(driver.store(8, 0));
  CHECK(driver.store(8, 0));
  CHECK(driver.left_mib(0) == 2);
  driver.policy.on_withdrawn(driver.job, at(0));  // was never charged
  CHECK(driver.left_mib(0) == 2);
  CHECK(driver.policy.tier(0)->would_refuse_jobs == 1);
  CHECK(driver.policy.tier(0)->would_refuse_bytes == 8 * kMiB);
  CHECK(driver.policy.tier(0)->refused_jobs == 0);
  CHECK(driver.policy.in_flight_chunks() == 8);
}

TEST_CASE("a reset does not give a worn device back", "[admission][unit]") {
  Driver driver(options(1000, 10));
  REQUIRE(driver.store(9, 0));
  driver.policy.reset();
  CHECK(driver.left_mib(0) == 1);
  CHECK(driver.policy.in_flight_chunks() == 0);
  driver.policy.on_withdrawn(driver.job, at(0));  // of before the reset
  CHECK(driver.left_mib(0) == 1);
  CHECK(driver.policy.tier(0)->refused_jobs == 0);
}

TEST_CASE("a budget goes on over a restart, with the time between counted", "[admission][unit]") {
  Driver before(options(110, 10));
  REQUIRE(before.store(10, 0));
  REQUIRE(before.store(10, 0, 1));
  before.policy.on_completed(before.job, ended(0, 1, 10 * kMiB), at(0));
  const std::string state = before.policy.saved_state(at(0), 1'000'000'000'000);
  Driver after(options(110, 10));
  // A steady clock of another process: nothing about it carries over.
  REQUIRE(after.policy.restore_state(state, at(500), 1'000'000'000'000 + 864'000));
  CHECK(after.left_mib(500) == Approx(1));  // a hundredth of a day
  CHECK(after.left_mib(500 + kDay / 100) == Approx(2));
  CHECK(after.policy.tier(1)->written_ever == 10.0 * kMiB);
  CHECK(after.policy.tier(0)->written_ever == 0);
}

TEST_CASE("a clock that was set back gives nothing", "[admission][unit]") {
  Driver before(options(110, 10)), after(options(110, 10));
  REQUIRE(before.store(10, 0));
  const std::string state = before.policy.saved_state(at(0), 2'000'000);
  REQUIRE(after.policy.restore_state(state, at(0), 1'000'000));
  CHECK(after.left_mib(0) == 0);
}

TEST_CASE("the saved text has a version and is read back to the byte", "[admission][unit]") {
  Driver driver(options(110, 10));
  REQUIRE(driver.store(3, 0));
  const std::string state = driver.policy.saved_state(at(0), 1234);
  CHECK(state == "write_budget 1 1234\ntier 7340032 0 1:fs\ntier 10485760 0 2:obj\nend\n");
  Driver other(options(110, 10));
  REQUIRE(other.policy.restore_state(state, at(9), 1234));
  CHECK(other.policy.saved_state(at(9), 1234) == state);
  CHECK(other.policy.restore_state("", at(9), 1234));  // no earlier life
}

TEST_CASE("a damaged state leaves an empty budget and an error, never a full one",
          "[admission][unit]") {
  Driver before(options(110, 10));
  const std::string good = before.policy.saved_state(at(0), 1234);
  std::vector<std::string> bad = {"damaged",
                                  "write_budget 2 1234\nend\n",
                                  good + "x",
                                  "write_budget 1 -5\nend\n",
                                  "write_budget 1 x\nend\n",
                                  "write_budget 1 99999999999999999999\nend\n",
                                  "write_budget 1 1\ntier 5 1:fs\nend\n",
                                  "write_budget 1 1\ntier 5 -5 1:fs\nend\n",
                                  "write_budget 1 1\ntier 5 5 a\ntier 5 5 a\nend\n"};
  for (std::size_t length = 1; length < good.size(); ++length)
    bad.push_back(good.substr(0, length));
  for (const std::string& text : bad) {
    INFO(text);
    Driver driver(options(110, 10));
    const auto restored = driver.policy.restore_state(text, at(0), 1234);
    REQUIRE_FALSE(restored);
    CHECK(driver.left_mib(0) == 0);
    CHECK(driver.left_mib(kDay / 100) == Approx(1));  // it refills as ever
  }
}

TEST_CASE("a tier that the saved text does not name starts full", "[admission][unit]") {
  Driver driver(options(110, 10));
  REQUIRE(driver.policy.restore_state("write_budget 1 1\ntier 0 5 1:fs\ntier 0 5 9:gone\nend\n",
                                      at(0), 1));
  CHECK(driver.left_mib(0, 0) == 0);
  CHECK(driver.left_mib(0, 1) == 10);
}

TEST_CASE("more saved than the peak is cut to it", "[admission][unit]") {
  Driver driver(options(110, 10));  // the peak was lowered in the configuration
  REQUIRE(
      driver.policy.restore_state("write_budget 1 1\ntier 99999999999 5 1:fs\nend\n", at(0), 1));
  CHECK(driver.left_mib(0) == 10);
}

namespace {
std::unique_ptr<Composite> composite(bool with_cap_first) {
  Composite::Members inner;
  inner.push_back(std::make_unique<WriteBudget>(options(110, 10), two_tiers()));
  Composite::Members members;
  if (with_cap_first) members.push_back(std::make_unique<PromotionConcurrency>(5));
  members.push_back(std::make_unique<WriteBudget>(options(220, 20), two_tiers()));
  members.push_back(Composite::make(std::move(inner)).value());
  members.push_back(std::make_unique<WriteBudget>(options(330, 30), two_tiers()));
  return Composite::make(std::move(members)).value();
}
const WriteBudget& budget_of(const Composite& policy, std::size_t i) {
  return dynamic_cast<const WriteBudget&>(*policy.members()[i]);
}
}  // namespace

TEST_CASE("a composite keeps the state of each member apart, also when members are added",
          "[admission][unit]") {
  auto before = composite(false);
  before->on_admitted(cascade(1, 4), at(0));
  const std::string state = before->saved_state(at(0), 77);
  auto after = composite(true);
  REQUIRE(after->restore_state(state, at(0), 77));
  CHECK(budget_of(*after, 1).tier(0)->bucket.tokens(at(0)) == 16 * kMiB);
  CHECK(budget_of(*after, 3).tier(0)->bucket.tokens(at(0)) == 26 * kMiB);
  const auto& nested = dynamic_cast<const Composite&>(*after->members()[2]);
  CHECK(budget_of(nested, 0).tier(0)->bucket.tokens(at(0)) == 6 * kMiB);
}

TEST_CASE("damage to a composite's state is damage to every member's", "[admission][unit]") {
  auto before = composite(false);
  const std::string state = before->saved_state(at(0), 77);
  for (const std::size_t length : {std::size_t{1}, state.size() / 2, state.size() - 1}) {
    auto after = composite(false);
    REQUIRE_FALSE(after->restore_state(state.substr(0, length), at(0), 77));
    const auto& last = budget_of(*after, 2);
    CHECK(last.tier(0)->bucket.tokens(at(0)) == 0);
  }
}

TEST_CASE("asking a budget a thousand times changes nothing", "[admission][unit]") {
  Driver driver(options(1000, 10));
  REQUIRE(driver.store(9, 0));
  const auto before = bytes_of(*driver.policy.tier(0));
  for (int i = 0; i < 1000; ++i)
    REQUIRE(driver.policy.should_admit(cascade(7, 5), at(i * 0.01)) == RefusalReason::write_budget);
  (void)driver.policy.stats(at(50));
  CHECK(bytes_of(*driver.policy.tier(0)) == before);
}
