#include "kv_offload/admission/load_worth.hpp"

#include "kv_offload/admission/admission_ledger.hpp"
#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// 128 tokens a chunk; a device of 12,800 tokens a second computes a chunk in 10 ms.
AdmissionEnvironment environment() {
  auto e = two_tiers();
  e.tokens_per_chunk = 128;
  e.compute_tokens_per_s = 12800;
  return e;
}

struct Loader {
  explicit Loader(const LoadWorthOptions& o = {})
      : ledger(std::make_unique<LoadWorth>(o, environment()), {1U << 20, 1U << 20}, environment()) {
  }
  const LoadWorth& gate() const { return dynamic_cast<const LoadWorth&>(ledger.policy()); }
  /// Asks for `chunks` chunks, which land after `seconds` if admitted; how many were.
  std::size_t load(std::uint32_t chunks, double seconds, TierIndex tier = 0) {
    std::vector<PromotionCandidate> wanted;
    for (const auto& key : keys(chunks)) wanted.push_back({key, tier});
    const auto decision = ledger.decide_promotions(wanted, kMiB, nullptr, at(now));
    const auto n = decision.num_admitted();
    if (n < chunks) CHECK(decision.reason == RefusalReason::load_worth);
    now += seconds;
    if (n > 0)
      ledger.complete(decision.tickets[0], static_cast<std::uint32_t>(n),
                      ended(now - seconds, now, n * kMiB), at(now));
    return n;
  }
  void compute(double busy_s, std::vector<TierTraffic> moved, double waited_s = 0) {
    ComputeSample sample;
    sample.tokens = 1280;
    sample.busy = from_seconds(busy_s);
    sample.waited = from_seconds(waited_s);
    sample.live = 1;
    sample.moved = std::move(moved);
    ledger.observe_computed(sample, at(now));
  }
  AdmissionLedger ledger;
  double now = 0;
};

}  // namespace

TEST_CASE("chunks that are sooner computed are computed", "[admission][unit]") {
  Loader l;
  for (int n = 0; n < 20; ++n) CHECK(l.load(10, 0.05) == 10);  // half of what computing takes
  std::size_t loaded = 0;
  for (int n = 0; n < 200; ++n) loaded += l.load(10, 0.5);
  CHECK(loaded < 200);  // a few until it shows, and a trial now and then
  CHECK(l.gate().tier(0).refused_for_time > 150);
  CHECK(l.load(10, 0.05, 1) == 10);  // the other tier is judged by itself
}

TEST_CASE("a load that is slow to start is worth making for many chunks, not for few",
          "[admission][unit]") {
  Loader l;
  // 0.2 s and 2 ms a chunk, against 10 ms a chunk.
  for (const std::uint32_t chunks : {100U, 200U, 50U, 400U, 80U, 100U})
    CHECK(l.load(chunks, 0.2 + 0.002 * chunks) == chunks);
  CHECK(l.load(100, 0.4) == 100);
  CHECK(l.load(10, 0) == 0);
}

TEST_CASE("whoever waits for the device anyway may wait for its load", "[admission][unit]") {
  Loader l;
  for (int n = 0; n < 5; ++n) (void)l.load(10, 0.5);
  REQUIRE(l.load(10, 0.5) == 0);
  for (int n = 0; n < 200; ++n) l.compute(0.1, {{}, {}}, 2);
  CHECK(l.load(10, 0.5) == 10);
}

TEST_CASE("a load that costs the device more than computing is refused, however fast it is",
          "[admission][unit]") {
  Loader l;
  const double per_chunk = GENERATE(0.012, 0.005);  // seconds of the device; computing takes 0.010
  for (int n = 0; n < 100; ++n) l.compute(0.1 + 10 * per_chunk, {{10 * kMiB, 0, 0}, {}});
  CHECK(l.gate().costs().read_s_per_byte(0) * kMiB == Approx(per_chunk).epsilon(0.02));
  CHECK(l.load(10, 0.001) == (per_chunk > 0.01 ? 0 : 10));
  if (per_chunk > 0.01) CHECK(l.gate().tier(0).refused_for_device == 1);
}

TEST_CASE("a tier that nobody has loaded from yet is tried by a few lookups, not by all",
          "[admission][unit]") {
  AdmissionLedger ledger(std::make_unique<LoadWorth>(LoadWorthOptions{}, environment()),
                         {1000, 1000}, environment());
  std::vector<PromotionCandidate> wanted;
  for (const auto& key : keys(5)) wanted.push_back({key, 0});
  int admitted = 0;
  for (int n = 0; n < 10; ++n)
    admitted += ledger.decide_promotions(wanted, kMiB, nullptr, at(0)).num_admitted() == 5 ? 1 : 0;
  CHECK(admitted == 2);
}

TEST_CASE("what is refused is tried again, a few chunks at a time and less and less often",
          "[admission][unit]") {
  LoadWorthOptions o;
  o.probe_every = 4;
  o.probe_chunks = 3;
  Loader l(o);
  for (int n = 0; n < 10; ++n) (void)l.load(10, 5);
  std::vector<int> at_lookup;
  for (int n = 0; n < 200; ++n)
    if (const auto loaded = l.load(10, 5); loaded > 0) {
      CHECK(loaded == 3);
      at_lookup.push_back(n);
    }
  REQUIRE(at_lookup.size() >= 4);
  CHECK(at_lookup.back() - at_lookup[at_lookup.size() - 2] > 2 * (at_lookup[1] - at_lookup[0]));
  // It has become fast: the trials find out.
  int lookups = 0;
  while (l.load(10, 0.01) < 10) REQUIRE(++lookups < 20000);
  CHECK(l.load(10, 0.01) == 10);
}

TEST_CASE("keys that were never offered are asked for only while the tier has some of them",
          "[admission][unit]") {
  Loader l;
  for (int n = 0; n < 3; ++n) l.compute(0.5, {{}, {}});
  REQUIRE(l.gate().costs().knows_speed());
  (void)l.ledger.decide_cascade(0, keys(10), 10 * kMiB, nullptr, at(0));
  const auto list = keys(40);  // ten were offered
  const LookupReach lookup{0, list, 0};
  const auto answer = [&](std::uint32_t served) {
    l.ledger.observe_reach(
        {lookup, served, served, 0, std::min(served + 1, 40U), std::chrono::milliseconds(20)},
        at(0));
  };
  CHECK(l.ledger.decide_reach(lookup, at(0)) == LookupReach::kEverything);
  const auto strangers = keys(5, 100);
  for (int n = 0; n < 40; ++n) {
    answer(10);
    l.ledger.observe_reach({{0, strangers, 0}, 0, 0, 0, 5, std::chrono::milliseconds(20)}, at(0));
  }
  CHECK(l.ledger.decide_reach(lookup, at(0)) == 18);  // and a first window behind them
  CHECK(l.ledger.decide_reach({0, strangers, 0}, at(0)) == 0);
  CHECK(l.ledger.decide_reach({1, strangers, 0}, at(0)) ==
        LookupReach::kEverything);  // not known of the other tier
  // An engine beside it has begun to fill the tier: trials notice.
  for (int n = 0; n < 40; ++n) answer(40);
  CHECK(l.ledger.decide_reach({0, strangers, 0}, at(0)) == LookupReach::kEverything);
}

TEST_CASE("what the memory has forgotten here and there is asked for all the same",
          "[admission][unit]") {
  LoadWorthOptions o;
  o.memory_chunks = 1024;
  Loader l(o);
  for (std::uint32_t first = 0; first < 2048; first += 64)
    (void)l.ledger.decide_cascade(0, keys(64, first), 64 * kMiB, nullptr, at(0));
  const auto recent = keys(512, 1536);  // some of them have lost their place to a later one
  const auto strangers = keys(64, 100000);
  for (int n = 0; n < 40; ++n)
    l.ledger.observe_reach({{0, strangers, 0}, 0, 0, 0, 8, std::chrono::milliseconds(20)}, at(0));
  CHECK(l.ledger.decide_reach({0, strangers, 0}, at(0)) == 0);
  CHECK(l.ledger.decide_reach({0, recent, 0}, at(0)) >= 500);
}

TEST_CASE("a tier from which nothing is loaded is not asked either", "[admission][unit]") {
  Loader l;
  (void)l.ledger.decide_cascade(0, keys(10), 10 * kMiB, nullptr, at(0));
  const auto list = keys(10);
  const LookupReach lookup{0, list, 0};
  for (int n = 0; n < 100; ++n)
    l.ledger.observe_reach({lookup, 0, 0, 0, 1, std::chrono::milliseconds(20)}, at(0));
  int asked = 0;
  for (int n = 0; n < 640; ++n)
    asked += l.ledger.decide_reach(lookup, at(0)) == LookupReach::kEverything ? 1 : 0;
  CHECK(asked >= 2);
  CHECK(asked <= 10);
}

TEST_CASE("load_worth: asking changes nothing, stores pass, and a reset equals a fresh gate",
          "[admission][unit]") {
  Loader l;
  for (int n = 0; n < 20; ++n) (void)l.load(10, 5);
  const auto before = bytes_of(l.gate().tier(0));
  for (int i = 0; i < 1000; ++i) {
    CHECK(l.gate().should_admit(cascade(1), at(i)) == RefusalReason::none);
    (void)l.gate().should_admit(promotion(1), at(i));
    (void)l.gate().lookup_reach({0, {}, 0}, at(i));
  }
  CHECK(bytes_of(l.gate().tier(0)) == before);
  CHECK(l.gate().should_admit(promotion(1), at(0)) == RefusalReason::load_worth);
  l.ledger.reset();
  CHECK(l.gate().should_admit(promotion(1), at(0)) == RefusalReason::none);
  CHECK(l.gate().tier(0).refused_lookups == 0);
  LoadWorthOptions o;
  o.mode = GateMode::observe;
  Loader observing(o);
  for (int n = 0; n < 50; ++n) CHECK(observing.load(10, 5) == 10);
  CHECK(observing.gate().tier(0).would_refuse_lookups > 30);
  CHECK_FALSE(observing.gate().bounds_lookups());
}

TEST_CASE("load_worth says what it is doing, with the numbers", "[admission][unit]") {
  Loader l;
  const auto report = [&] { return l.gate().gate_reports(at(0)).front(); };
  CHECK(report().status == GateStatus::nothing_to_refuse);
  CHECK(report().text.find("a chunk computed in 10 ms") == 0);
  const auto moments = report().log_moments;
  for (int n = 0; n < 20; ++n) (void)l.load(10, 5);
  CHECK(report().status == GateStatus::refusing);
  CHECK(report().log_moments == moments + 1);
}
