#include "kv_offload/admission/lookup_gate.hpp"

#include "kv_offload/admission/lookup_gates.hpp"
#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

#include <cmath>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

constexpr std::uint64_t kPrompt = 20000;
constexpr std::uint64_t kCovered = 16000;  // leaves 3999: below the floor of 8192
constexpr std::uint64_t kOpen = 8000;      // leaves 11999

/// Drives one gate as the ledger does: ask, then commit.
struct Driver {
  explicit Driver(LookupGateOptions options = {}) : gate(options) {}

  LookupDecision ask(std::uint64_t prompt, std::uint64_t device, double second = 0) {
    const LookupDecision decision = gate.decide(prompt, device);
    if (decision == LookupDecision::skip)
      gate.on_skipped(prompt, device, at(second));
    else
      gate.on_issued(prompt, device, at(second));
    return decision;
  }
  /// An issued lookup and its answer.
  void look_up(bool actionable) {
    gate.on_issued(40000, kPrompt, at(0));
    gate.on_answer(actionable ? kPrompt + 8192 : kPrompt, kPrompt, from_seconds(0.001));
  }

  LookupGate gate;
};

}  // namespace

TEST_CASE("the lookup gate has the published defaults", "[admission][unit]") {
  const LookupGateOptions o;
  CHECK(o.mode == GateMode::enforce);
  CHECK(o.min_load_tokens == 8192);
  CHECK(o.cut == 0.01);
  CHECK(o.min_issued == 64);
  CHECK(o.probe_every == 32);
  CHECK(o.alpha == 1.0 / 64);
  CHECK(o.report_every == 256);
}

TEST_CASE("only a bound below the load floor can be skipped", "[admission][unit]") {
  const LookupGate gate{LookupGateOptions{}};
  // The bound is prompt - 1 - device.
  CHECK(gate.decide(8193, 0) == LookupDecision::look_up);
  CHECK(gate.decide(8192, 0) == LookupDecision::skip);
  CHECK(gate.decide(kPrompt, kPrompt - 8193) == LookupDecision::look_up);
  CHECK(gate.decide(kPrompt, kPrompt - 8192) == LookupDecision::skip);
  CHECK(gate.decide(kPrompt, kPrompt) == LookupDecision::skip);
  CHECK(gate.decide(kPrompt, kPrompt + 5) == LookupDecision::skip);
  CHECK(gate.decide(kPrompt, 0) == LookupDecision::look_up);  // frontier unknown
}

TEST_CASE("31 are skipped and the 32nd is looked up", "[admission][unit]") {
  Driver driver;
  for (int round = 1; round <= 4; ++round) {
    for (int i = 0; i < 31; ++i) CHECK(driver.ask(kPrompt, kCovered) == LookupDecision::skip);
    CHECK(driver.ask(kPrompt, kCovered) == LookupDecision::forced);
    CHECK(driver.gate.totals().lookups == static_cast<std::uint64_t>(round));
  }
  CHECK(driver.gate.totals().skips == 4 * 31);
  CHECK(driver.gate.totals().forced == 4);
  CHECK(driver.gate.totals().avoided_tokens == 4 * 31 * kPrompt);
}

TEST_CASE("lookups that cannot be skipped do not move the cadence", "[admission][unit]") {
  Driver driver;
  for (int i = 0; i < 31; ++i) {
    CHECK(driver.ask(kPrompt, kCovered) == LookupDecision::skip);
    CHECK(driver.ask(kPrompt, kOpen) == LookupDecision::look_up);
  }
  CHECK(driver.ask(kPrompt, kCovered) == LookupDecision::forced);
}

TEST_CASE("one actionable answer lifts the rate to a 64th", "[admission][unit]") {
  Driver driver;
  driver.look_up(true);
  CHECK(driver.gate.actionable_rate() == Approx(0.0156).margin(5e-5));
  CHECK(driver.gate.actionable_rate() == 1.0 / 64);
}

TEST_CASE("the rate decays and rises in closed form", "[admission][unit]") {
  Driver driver;
  for (int i = 0; i < 10; ++i) driver.look_up(true);
  const double top = 1 - std::pow(63.0 / 64, 10);
  CHECK(driver.gate.actionable_rate() == Approx(top).epsilon(1e-12));
  for (int i = 0; i < 50; ++i) driver.look_up(false);
  CHECK(driver.gate.actionable_rate() == Approx(top * std::pow(63.0 / 64, 50)).epsilon(1e-12));
}

TEST_CASE("4 actionable answers in 2048 keep the rate above the cut for 116 lookups",
          "[admission][unit]") {
  Driver driver;
  int above = 0;
  for (int i = 0; i < 2048; ++i) {
    driver.look_up(i % 512 == 0);
    if (driver.gate.actionable_rate() >= 0.01) ++above;
  }
  CHECK(above == 116);
  CHECK_FALSE(driver.gate.is_load_bearing());
  CHECK(driver.ask(kPrompt, kCovered) == LookupDecision::skip);
}

TEST_CASE("a tier that fills, with one useful answer in 32, is never skipped",
          "[admission][unit]") {
  Driver driver;
  for (int i = 0; i < 256; ++i) driver.look_up(i % 32 == 0);
  CHECK(driver.gate.actionable_rate() > 0.01);
  CHECK(driver.ask(kPrompt, kCovered) == LookupDecision::look_up);
}

TEST_CASE("a load-bearing tier is asked, from the 64th lookup on", "[admission][unit]") {
  Driver driver;
  for (int i = 0; i < 63; ++i) driver.look_up(true);
  CHECK(driver.gate.decide(kPrompt, kCovered) == LookupDecision::skip);
  driver.look_up(true);
  CHECK(driver.gate.decide(kPrompt, kCovered) == LookupDecision::look_up);
  const std::uint64_t skippable = driver.gate.totals().skippable;
  for (int i = 0; i < 40; ++i) CHECK(driver.ask(kPrompt, kCovered) == LookupDecision::look_up);
  CHECK(driver.gate.totals().skippable == skippable);  // the cadence rests while it stands down
}

TEST_CASE("answers that were never actionable leave the skip on", "[admission][unit]") {
  Driver driver;
  for (int i = 0; i < 64; ++i) driver.look_up(false);
  CHECK(driver.ask(kPrompt, kCovered) == LookupDecision::skip);
}

TEST_CASE("forced lookups alone find a tier that became useful", "[admission][unit]") {
  Driver driver;
  for (int i = 0; i < 64; ++i) driver.look_up(false);
  int requests = 0;
  while (!driver.gate.is_load_bearing()) {
    ++requests;
    REQUIRE(requests <= 64);
    if (driver.ask(kPrompt, kCovered) != LookupDecision::skip)
      driver.gate.on_answer(kCovered + 8192, kCovered, {});
  }
  CHECK(requests == 32);
}

TEST_CASE("skips do not feed the rate, and lookups without an answer neither",
          "[admission][unit]") {
  Driver driver;
  driver.look_up(true);
  const double rate = driver.gate.actionable_rate();
  for (int i = 0; i < 31; ++i) driver.ask(kPrompt, kCovered);
  driver.gate.on_issued(kPrompt, kOpen, at(0));
  driver.gate.on_no_answer(from_seconds(3));
  CHECK(driver.gate.actionable_rate() == rate);
  const auto& t = driver.gate.totals();
  CHECK(t.lookups == 2);
  CHECK(t.answers == 1);
  CHECK(t.unanswered == 1);
  CHECK(t.lookup_seconds == Approx(3.001));
}

TEST_CASE("an answer is actionable from the chunk boundary above the frontier on",
          "[admission][unit]") {
  LookupGateOptions o;
  o.tokens_per_chunk = 128;
  Driver driver(o);
  const auto actionable = [&](std::uint64_t hit, std::uint64_t device) {
    const std::uint64_t before = driver.gate.totals().actionable;
    driver.gate.on_answer(hit, device, {});
    return driver.gate.totals().actionable > before;
  };
  CHECK(actionable(8192, 0));
  CHECK_FALSE(actionable(8191, 0));
  CHECK(actionable(128 + 8192, 128));
  CHECK_FALSE(actionable(129 + 8192, 129));
  CHECK(actionable(256 + 8192, 129));
  CHECK_FALSE(actionable(0, 0));
}

TEST_CASE("an observing gate asks always and counts what it would have skipped",
          "[admission][unit]") {
  LookupGateOptions o;
  o.mode = GateMode::observe;
  Driver observing(o);
  for (int i = 0; i < 64; ++i) CHECK(observing.ask(kPrompt, kCovered) == LookupDecision::look_up);
  CHECK(observing.gate.totals().would_skip == 62);
  CHECK(observing.gate.totals().forced == 2);
  CHECK(observing.gate.totals().skips == 0);
  CHECK(observing.gate.totals().avoided_tokens == 0);
  CHECK(observing.gate.report("1:fs", at(0)).status == GateStatus::refusing);
}

TEST_CASE("a gate that is off asks always and still measures", "[admission][unit]") {
  LookupGateOptions o;
  o.mode = GateMode::off;
  Driver driver(o);
  for (int i = 0; i < 100; ++i) CHECK(driver.ask(kPrompt, kCovered) == LookupDecision::look_up);
  driver.look_up(true);
  CHECK(driver.gate.totals().lookups == 101);
  CHECK(driver.gate.totals().would_skip == 0);
  CHECK(driver.gate.actionable_rate() > 0.01);
  CHECK(driver.gate.report("1:fs", at(0)).status == GateStatus::off);
}

TEST_CASE("the lookup gate tells nothing to skip from cannot skip, with numbers",
          "[admission][unit]") {
  SECTION("gaps far above the floor") {
    Driver driver;
    for (int i = 0; i < 64; ++i) driver.ask(40000, 13099 - static_cast<std::uint64_t>(i));
    const GateReport report = driver.gate.report("1:fs", at(1));
    CHECK(report.status == GateStatus::unreachable);
    CHECK(report.text.find("smallest gap in 64 was 26900 tokens, the floor is 8192") !=
          std::string::npos);
  }
  SECTION("no frontier is ever named") {
    Driver driver;
    for (int i = 0; i < 64; ++i) driver.ask(40000, 0);
    CHECK(driver.gate.report("1:fs", at(1)).text.find("none named what the device holds") !=
          std::string::npos);
  }
  SECTION("no load floor") {
    LookupGateOptions o;
    o.min_load_tokens = 0;
    Driver driver(o);
    CHECK(driver.ask(kPrompt, kPrompt) == LookupDecision::look_up);
    CHECK(driver.gate.report("1:fs", at(1)).status == GateStatus::unreachable);
  }
  SECTION("the tier is load-bearing") {
    Driver driver;
    for (int i = 0; i < 64; ++i) driver.look_up(true);
    driver.ask(kPrompt, kCovered);
    CHECK(driver.gate.report("1:fs", at(1)).status == GateStatus::nothing_to_refuse);
  }
  SECTION("too early to tell") {
    Driver driver;
    CHECK(driver.gate.report("1:fs", at(1)).status == GateStatus::warming_up);
  }
}

TEST_CASE("the report gives event counts in seconds at the present rate", "[admission][unit]") {
  Driver driver;
  for (int i = 0; i < 200; ++i) driver.ask(kPrompt, kCovered, i * 0.5);
  CHECK(driver.gate.lookups_per_second(at(99.5)) == Approx(2).epsilon(0.02));
  const std::string text = driver.gate.report("1:fs", at(99.5)).text;
  CHECK(text.find("64 lookups take") != std::string::npos);
  CHECK(text.find("a forced one comes every") != std::string::npos);
}

TEST_CASE("deciding a thousand times changes nothing", "[admission][unit]") {
  Driver driver;
  for (int i = 0; i < 31; ++i) driver.ask(kPrompt, kCovered);
  const auto before = bytes_of(driver.gate);
  for (int i = 0; i < 1000; ++i)
    REQUIRE(driver.gate.decide(kPrompt, kCovered) == LookupDecision::forced);
  (void)driver.gate.report("1:fs", at(5));
  CHECK(bytes_of(driver.gate) == before);
}

TEST_CASE("the gates of all tiers are one policy that refuses no job", "[admission][unit]") {
  LookupGates gates({}, two_tiers());
  REQUIRE(gates.num_tiers() == 2);
  for (int i = 0; i < 3; ++i) gates.gate(0).on_skipped(kPrompt, kCovered, at(0));
  CHECK(gates.gate(1).totals().skips == 0);
  CHECK(gates.should_admit(cascade(1), at(0)) == RefusalReason::none);
  CHECK(gates.should_admit(promotion(1), at(0)) == RefusalReason::none);
  const auto samples = gates.stats(at(1));
  CHECK(sample_of(samples, "kv_offload_lookup_gate_skips_total", "1:fs") == 3);
  CHECK(sample_of(samples, "kv_offload_lookup_gate_avoided_tokens_total", "1:fs") == 3 * kPrompt);
  CHECK(sample_of(samples, "kv_offload_lookup_gate_skips_total", "2:obj") == 0);
  gates.reset();
  CHECK(sample_of(gates.stats(at(1)), "kv_offload_lookup_gate_skips_total", "1:fs") == 0);
}
