#include "kv_offload/admission/admission_ledger.hpp"

#include "kv_offload/admission/admission_registry.hpp"
#include "kv_offload/admission/always_admit.hpp"
#include "kv_offload/admission/cascade_backpressure.hpp"
#include "kv_offload/admission/composite.hpp"
#include "kv_offload/admission/promotion_concurrency.hpp"
#include "kv_offload/messages/broken_promise.hpp"
#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

constexpr std::uint64_t kChunk = 1 << 20;

std::unique_ptr<AdmissionPolicy> built(const std::string& json) {
  return admission_policies().make(parse(json), "admission_policy", two_tiers()).value();
}

CascadeDecision offer(AdmissionLedger& ledger, std::uint32_t chunks, double when = 0,
                      TierIndex tier = 0) {
  const auto list = keys(chunks);
  return ledger.decide_cascade(tier, list, chunks * kChunk, nullptr, at(when));
}

std::vector<PromotionCandidate> candidates(const std::vector<TierIndex>& tiers) {
  std::vector<PromotionCandidate> list;
  for (const TierIndex tier : tiers)
    list.push_back({key(static_cast<std::uint32_t>(list.size())), tier});
  return list;
}
PromotionDecision promote(AdmissionLedger& ledger, const std::vector<TierIndex>& tiers,
                          double when = 0) {
  return ledger.decide_promotions(candidates(tiers), kChunk, nullptr, at(when));
}

void require_balance(const AdmissionLedger& ledger) {
  std::string why;
  const bool balanced = ledger.check_balance(&why);
  INFO(why);
  REQUIRE(balanced);
}
void require_idle(const AdmissionLedger& ledger) {
  std::string why;
  const bool idle = ledger.check_idle(&why);
  INFO(why);
  REQUIRE(idle);
}

std::uint64_t refused_chunks(const AdmissionTotals& totals, RefusalReason reason) {
  return totals.refused[static_cast<std::size_t>(reason)].chunks;
}

}  // namespace

TEST_CASE("a cascade is admitted, counted and ended as one job", "[admission][unit]") {
  AdmissionLedger ledger(std::make_unique<AlwaysAdmit>(), {100});
  const auto decision = offer(ledger, 5);
  CHECK(decision.admitted);
  CHECK(decision.ticket != 0);
  CHECK(decision.reason == RefusalReason::none);
  const auto& totals = ledger.totals(0).cascades;
  CHECK(totals.offered == JobCount{1, 5});
  CHECK(totals.in_flight == JobCount{1, 5});
  std::string why;
  CHECK_FALSE(ledger.check_idle(&why));
  CHECK(why == "tier 0: 5 cascade and 0 promotion chunks were admitted and never ended");
  ledger.complete(decision.ticket, 5, ended(0, 1), at(1));
  CHECK(totals.completed == JobCount{1, 5});
  CHECK(totals.in_flight == JobCount{0, 0});
  require_idle(ledger);
}

TEST_CASE("without keys nothing is asked and nothing is counted", "[admission][unit]") {
  AdmissionLedger ledger(std::make_unique<AlwaysAdmit>(), {100});
  CHECK_FALSE(offer(ledger, 0).admitted);
  CHECK(promote(ledger, {}).num_admitted() == 0);
  CHECK(ledger.totals(0).cascades.offered == JobCount{});
  CHECK(ledger.decisions().num_added() == 0);
  require_idle(ledger);
}

TEST_CASE("the policy sees keys, bytes, direction and request", "[admission][unit]") {
  struct Watcher final : AdmissionPolicy {
    mutable std::vector<JobMetadata> seen;
    mutable std::vector<OffloadKey> first_keys;
    [[nodiscard]] std::string_view name() const override { return "watcher"; }
    [[nodiscard]] RefusalReason should_admit(const JobMetadata& job,
                                             MonotonicTime /*now*/) const override {
      seen.push_back(job);
      first_keys.push_back(job.keys[0]);
      return RefusalReason::none;
    }
    void on_admitted(const JobMetadata& /*job*/, MonotonicTime /*now*/) override {}
    void on_refused(const JobMetadata& /*job*/, const AdmissionPolicy* /*refuser*/,
                    MonotonicTime /*now*/) override {}
    void on_completed(const JobMetadata& job, const CompletedTransfer& /*result*/,
                      MonotonicTime /*now*/) override {
      seen.push_back(job);
    }
    void on_withdrawn(const JobMetadata& /*job*/, MonotonicTime /*now*/) override {}
    void reset() override {}
  };
  auto owned = std::make_unique<Watcher>();
  const Watcher& watcher = *owned;
  AdmissionLedger ledger(std::move(owned), {100, 100});
  RequestContext request;
  const auto stored = keys(3, 40);
  const auto cascade_decision = ledger.decide_cascade(1, stored, 3 * kChunk, &request, at(0));
  ledger.complete(cascade_decision.ticket, 2, ended(0, 1), at(1));
  promote(ledger, {0, 0});
  REQUIRE(watcher.seen.size() == 4);
  CHECK(watcher.seen[0].tier == 1);
  CHECK(watcher.seen[0].num_chunks == 3);
  CHECK(watcher.seen[0].bytes == 3 * kChunk);
  CHECK(watcher.seen[0].keys.size() == 3);
  CHECK(watcher.seen[0].request == &request);
  CHECK_FALSE(watcher.seen[0].is_promotion);
  CHECK(watcher.first_keys[0] == key(40));
  CHECK(watcher.seen[1].num_chunks == 2);
  CHECK(watcher.seen[1].bytes == 2 * kChunk);
  CHECK(watcher.seen[1].keys.empty());
  CHECK(watcher.seen[2].is_promotion);
  CHECK(watcher.seen[2].num_chunks == 1);
  CHECK(watcher.seen[2].bytes == kChunk);
  CHECK(watcher.first_keys[2] == key(1));
}

TEST_CASE("the pin share refuses before the policy is asked", "[admission][unit]") {
  auto owned = std::make_unique<ScriptedPolicy>("scripted");
  const ScriptedPolicy& policy = *owned;
  AdmissionLedger ledger(std::move(owned), {10, 10});
  const auto first = offer(ledger, 6);
  REQUIRE(first.admitted);
  const int asked = policy.asked_;
  const auto refused = offer(ledger, 5);
  CHECK_FALSE(refused.admitted);
  CHECK(refused.ticket == 0);
  CHECK(refused.reason == RefusalReason::pin_share);
  CHECK(refused.refuser == "pin_share");
  CHECK(policy.asked_ == asked);
  CHECK(policy.refused_ == 0);
  CHECK(offer(ledger, 5, 0, 1).admitted);  // the other tier has its own share
  CHECK(offer(ledger, 4).admitted);        // exactly the share
  CHECK(refused_chunks(ledger.totals(0).cascades, RefusalReason::pin_share) == 5);
  // Stores in the way of nothing: promotions have as much for themselves.
  const auto batch = promote(ledger, std::vector<TierIndex>(11, 0));
  CHECK(batch.num_admitted() == 10);
  CHECK(batch.reason == RefusalReason::pin_share);
  ledger.complete(batch.tickets.front(), 1, ended(0, 1), at(1));
  CHECK(promote(ledger, {0}).num_admitted() == 1);
  ledger.complete(first.ticket, 6, ended(0, 1), at(1));
  CHECK(offer(ledger, 6).admitted);
  require_balance(ledger);
}

TEST_CASE("a pin share of 0 refuses everything", "[admission][unit]") {
  AdmissionLedger ledger(std::make_unique<AlwaysAdmit>(), {0});
  CHECK(offer(ledger, 1).reason == RefusalReason::pin_share);
  CHECK(promote(ledger, {0}).reason == RefusalReason::pin_share);
  require_idle(ledger);
}

TEST_CASE("a disabled tier is refused, its work in flight still ends", "[admission][unit]") {
  AdmissionLedger ledger(std::make_unique<AlwaysAdmit>(), {10, 10});
  const auto before = offer(ledger, 2);
  const auto epoch = ledger.pressure_epoch();
  ledger.disable_tier(0, true);
  CHECK(ledger.pressure_epoch() == epoch);
  CHECK(offer(ledger, 1).reason == RefusalReason::tier_disabled);
  CHECK(promote(ledger, {1, 0}).reason == RefusalReason::tier_disabled);
  CHECK(offer(ledger, 1, 0, 1).admitted);
  ledger.complete(before.ticket, 2, failed(0, 1), at(1));
  ledger.reset();
  CHECK(ledger.is_disabled(0));  // a dead lane is not cured by a reset
  const auto disabled_epoch = ledger.pressure_epoch();
  ledger.disable_tier(0, false);
  CHECK(ledger.pressure_epoch() > disabled_epoch);
  CHECK(offer(ledger, 1).admitted);
}

TEST_CASE("no batch overshoots a cap", "[admission][unit]") {
  AdmissionLedger ledger(std::make_unique<PromotionConcurrency>(7), {100, 100});
  const auto first = promote(ledger, std::vector<TierIndex>(5, 0));
  CHECK(first.num_admitted() == 5);
  CHECK(first.reason == RefusalReason::none);
  const auto second = promote(ledger, std::vector<TierIndex>(100, 1));
  CHECK(second.num_admitted() == 2);
  CHECK(second.reason == RefusalReason::promotion_concurrency);
  CHECK(second.refuser == "promotion_concurrency");
  CHECK(ledger.policy().in_flight_chunks() == 7);
  // What is behind the refused chunk was never asked.
  CHECK(ledger.totals(1).promotions.offered == JobCount{1, 3});
  CHECK(refused_chunks(ledger.totals(1).promotions, RefusalReason::promotion_concurrency) == 1);
  CHECK(promote(ledger, {0, 0}).num_admitted() == 0);
  require_balance(ledger);
}

TEST_CASE("the chunks of one tier in one batch share a ticket", "[admission][unit]") {
  AdmissionLedger ledger(std::make_unique<PromotionConcurrency>(100), {100, 100});
  const auto batch = promote(ledger, {0, 0, 1, 0, 1});
  REQUIRE(batch.num_admitted() == 5);
  const AdmissionTicket a = batch.tickets[0], b = batch.tickets[2];
  CHECK(a != b);
  CHECK(batch.tickets == std::vector<AdmissionTicket>{a, a, b, a, b});
  CHECK(promote(ledger, {0}).tickets[0] > b);
  CHECK(ledger.totals(0).promotions.admitted == JobCount{2, 4});
  CHECK(ledger.totals(1).promotions.admitted == JobCount{1, 2});
  ledger.withdraw(a, 1, at(1));
  ledger.complete(a, 2, ended(0, 1), at(1));
  ledger.complete(b, 2, ended(0, 1), at(1));
  CHECK(ledger.totals(0).promotions.completed == JobCount{1, 2});
  CHECK(ledger.totals(0).promotions.withdrawn == JobCount{0, 1});
  CHECK(ledger.totals(1).promotions.in_flight == JobCount{});
  require_balance(ledger);
}

TEST_CASE("a refused job uses no ticket", "[admission][unit]") {
  AdmissionLedger ledger(std::make_unique<PromotionConcurrency>(2), {3});
  const auto first = offer(ledger, 2);
  for (int i = 0; i < 10; ++i) CHECK_FALSE(offer(ledger, 2).admitted);
  CHECK(promote(ledger, {0}).num_admitted() == 1);
  ledger.complete(first.ticket, 2, ended(0, 1), at(1));
  const auto next = offer(ledger, 1);
  CHECK(next.ticket == first.ticket + 2);  // the promotion took the one between
}

TEST_CASE("withdrawal gives the place back", "[admission][unit]") {
  AdmissionLedger ledger(std::make_unique<PromotionConcurrency>(2), {10});
  const auto batch = promote(ledger, {0, 0, 0});
  REQUIRE(batch.num_admitted() == 2);
  ledger.withdraw(batch.tickets[0], 2, at(0));
  CHECK(ledger.totals(0).promotions.withdrawn == JobCount{1, 2});
  CHECK(promote(ledger, {0, 0}).num_admitted() == 2);
  require_balance(ledger);
}

/// Counts how often it is told of an end.
class EndCounter final : public AdmissionPolicy {
 public:
  explicit EndCounter(int& ends) : ends_(ends) {}
  std::string_view name() const override { return "end_counter"; }
  RefusalReason should_admit(const JobMetadata&, MonotonicTime) const override { return RefusalReason::none; }
  void on_admitted(const JobMetadata&, MonotonicTime) override {}
  void on_refused(const JobMetadata&, const AdmissionPolicy*, MonotonicTime) override {}
  void on_completed(const JobMetadata&, const CompletedTransfer&, MonotonicTime) override { ++ends_; }
  void on_withdrawn(const JobMetadata&, MonotonicTime) override { ++ends_; }
  void reset() override {}

 private:
  int& ends_;
};

TEST_CASE("an end that names no open ticket is not told to the policy", "[admission][unit]") {
  int ends = 0;
  AdmissionLedger ledger(std::make_unique<EndCounter>(ends), {10});
  const auto stored = offer(ledger, 2);
  ledger.complete(stored.ticket + 1, 1, ended(0, 1), at(1));
  ledger.withdraw(stored.ticket + 1, 1, at(1));
  CHECK(ends == 0);
  ledger.complete(stored.ticket, 2, ended(0, 1), at(1));
  CHECK(ends == 1);
  ledger.complete(stored.ticket, 2, ended(0, 1), at(1));  // a second time
  CHECK(ends == 1);
}

TEST_CASE("stale and excess ends change nothing but their counter", "[admission][unit]") {
  AdmissionLedger ledger(std::make_unique<PromotionConcurrency>(10), {10});
  const auto batch = promote(ledger, {0, 0});
  const auto epoch = ledger.pressure_epoch();
  ledger.complete(999, 4, ended(0, 1), at(1));
  ledger.withdraw(0, 1, at(1));
  CHECK(ledger.stale_chunks() == 5);
  CHECK(ledger.pressure_epoch() == epoch);
  ledger.complete(batch.tickets[0], 5, ended(0, 1), at(1));  // three too many
  CHECK(ledger.stale_chunks() == 8);
  ledger.complete(batch.tickets[0], 2, ended(0, 1), at(1));  // twice
  CHECK(ledger.stale_chunks() == 10);
  CHECK(ledger.totals(0).promotions.completed == JobCount{1, 2});
  require_idle(ledger);
}

TEST_CASE("reset erases what is in flight, and results from before are stale", "[admission][unit]") {
  AdmissionLedger ledger(built(R"({"type": "composite", "policies": [
    {"type": "cascade_backpressure"}, {"type": "promotion_concurrency"}]})"),
                         {100, 100});
  const auto stored = offer(ledger, 3);
  const auto batch = promote(ledger, {1, 1});
  const auto epoch = ledger.pressure_epoch();
  ledger.reset();
  CHECK(ledger.pressure_epoch() > epoch);
  CHECK(ledger.totals(0).cascades.erased == JobCount{1, 3});
  CHECK(ledger.totals(1).promotions.erased == JobCount{1, 2});
  require_idle(ledger);
  const auto after = offer(ledger, 1);
  CHECK(after.ticket > batch.tickets[0]);  // tickets never repeat
  ledger.complete(stored.ticket, 3, ended(0, 9), at(9));
  ledger.withdraw(batch.tickets[0], 2, at(9));
  CHECK(ledger.stale_chunks() == 5);
  CHECK(ledger.totals(0).cascades.completed == JobCount{});
  ledger.complete(after.ticket, 1, ended(0, 1), at(9));
  require_idle(ledger);
}

TEST_CASE("counters go on over a reset, gauges do not", "[admission][unit]") {
  auto owned = std::make_unique<ScriptedPolicy>("scripted", RefusalReason::custom);
  ScriptedPolicy& policy = *owned;
  AdmissionLedger ledger(std::move(owned), {10});
  for (int i = 0; i < 3; ++i) offer(ledger, 1);
  policy.level_ = 9;
  ledger.reset();
  policy.level_ = 1;
  policy.refused_by_me_ = 0;
  offer(ledger, 1);
  CHECK(sample_of(ledger.stats(at(0)), "scripted_refused_total", "1:fs") == 4);
  CHECK(sample_of(ledger.stats(at(0)), "scripted_level", "1:fs") == 1);
}

TEST_CASE("the pressure epoch moves with what can turn a refusal", "[admission][unit]") {
  AdmissionLedger ledger(built(R"({"type": "cascade_backpressure"})"), {1000, 1000});
  const auto epoch_before = ledger.pressure_epoch();
  std::vector<AdmissionTicket> tickets;
  for (int i = 0; i < 3; ++i) tickets.push_back(offer(ledger, 1).ticket);
  CHECK(ledger.pressure_epoch() == epoch_before);  // admissions free nothing
  for (const auto ticket : tickets) {
    const auto before = ledger.pressure_epoch();
    ledger.complete(ticket, 1, ended(0, 2), at(2));
    CHECK(ledger.pressure_epoch() == before + 1);
  }
  const auto pressed = ledger.pressure_epoch();
  for (int i = 0; i < 5; ++i) CHECK(offer(ledger, 1, 2.0).reason == RefusalReason::backpressure);
  CHECK(ledger.pressure_epoch() == pressed);  // refusals alone free nothing
  // Idle decay clears the pressure without any event: the next answer shows it.
  CHECK(offer(ledger, 1, 10.0).admitted);
  CHECK(ledger.pressure_epoch() == pressed + 1);
  CHECK(offer(ledger, 1, 10.0).admitted);
  CHECK(ledger.pressure_epoch() == pressed + 1);
}

TEST_CASE("after a reset an admission moves the epoch no more", "[admission][unit]") {
  auto owned = std::make_unique<ScriptedPolicy>("scripted", RefusalReason::custom);
  ScriptedPolicy& policy = *owned;
  AdmissionLedger ledger(std::move(owned), {10});
  CHECK_FALSE(offer(ledger, 1).admitted);
  CHECK(promote(ledger, {0}).num_admitted() == 0);
  ledger.reset();
  const auto epoch = ledger.pressure_epoch();
  policy.reason_ = RefusalReason::none;
  CHECK(offer(ledger, 1).admitted);
  CHECK(promote(ledger, {0}).num_admitted() == 1);
  CHECK(ledger.pressure_epoch() == epoch);
}

TEST_CASE("a refused direction that admits again moves the epoch", "[admission][unit]") {
  auto owned = std::make_unique<ScriptedPolicy>("scripted", RefusalReason::custom);
  ScriptedPolicy& policy = *owned;
  AdmissionLedger ledger(std::move(owned), {10, 10});
  promote(ledger, {1});
  policy.reason_ = RefusalReason::none;
  const auto epoch = ledger.pressure_epoch();
  offer(ledger, 1, 0, 1);  // the other direction
  promote(ledger, {0});    // the other tier
  CHECK(ledger.pressure_epoch() == epoch);
  promote(ledger, {1});
  CHECK(ledger.pressure_epoch() == epoch + 1);
}

TEST_CASE("a refused cascade leaves no trace in the policy's counts", "[admission][unit]") {
  AdmissionLedger ledger(built(R"({"type": "cascade_backpressure"})"), {1000, 1000});
  for (int i = 0; i < 3; ++i) {
    const auto stored = offer(ledger, 1);
    ledger.complete(stored.ticket, 1, ended(0, 2), at(2));
  }
  for (int i = 0; i < 100; ++i) {
    const auto refused = offer(ledger, 4, 2.0);
    CHECK(refused.refuser == "cascade_backpressure");
  }
  CHECK(refused_chunks(ledger.totals(0).cascades, RefusalReason::backpressure) == 400);
  require_idle(ledger);
}

TEST_CASE("the leaf that refused is named through composites", "[admission][unit]") {
  AdmissionLedger ledger(built(R"({"type": "composite", "policies": [{"type": "composite",
    "policies": [{"type": "always_admit"},
                 {"type": "promotion_concurrency", "max_inflight_promotions": 1}]}]})"),
                         {10});
  const auto batch = promote(ledger, {0, 0});
  CHECK(batch.refuser == "promotion_concurrency");
}

TEST_CASE("the log explains the last 256 decisions, oldest first", "[admission][unit]") {
  AdmissionLedger ledger(std::make_unique<PromotionConcurrency>(3), {1000, 1000});
  promote(ledger, {0, 1, 0, 0}, 5);
  const auto records = ledger.decisions().recent();
  REQUIRE(records.size() == 3);
  CHECK(records[0].tier == 0);
  CHECK(records[0].chunks == 2);
  CHECK(records[0].admitted);
  CHECK(records[1].tier == 1);
  CHECK(records[1].chunks == 1);
  CHECK_FALSE(records[2].admitted);
  CHECK(records[2].reason == RefusalReason::promotion_concurrency);
  CHECK(records[2].refuser == "promotion_concurrency");
  CHECK(records[2].at == at(5));

  for (std::uint32_t i = 1; i <= 400; ++i) {
    const auto decision = offer(ledger, 1, 10 + i);
    ledger.complete(decision.ticket, 1, ended(0, 1), at(10 + i));
  }
  const auto later = ledger.decisions().recent();
  CHECK(later.size() == 256);
  CHECK(later.front().at == at(10 + 145));
  CHECK(later.back().at == at(10 + 400));
  CHECK(ledger.decisions().num_added() == 403);
}

TEST_CASE("a policy that loses count is found", "[admission][unit]") {
  auto owned = std::make_unique<ScriptedPolicy>("leaky");
  ScriptedPolicy& policy = *owned;
  AdmissionLedger ledger(std::move(owned), {10});
  const auto decision = offer(ledger, 4);
  require_balance(ledger);
  policy.in_flight_ = 3;
  std::string why;
  CHECK_FALSE(ledger.check_balance(&why));
  CHECK(why == "leaky: chunks in flight = the ledger's: 3 is not 4");
  policy.in_flight_ = 4;
  ledger.complete(decision.ticket, 4, ended(0, 1), at(1));
  require_idle(ledger);
}

TEST_CASE("the library's own policies are checked against the ledger too", "[admission][unit]") {
  std::string why;
  auto cap_owned = std::make_unique<PromotionConcurrency>(9);
  auto& cap = *cap_owned;
  AdmissionLedger promotions(std::move(cap_owned), {10});
  promote(promotions, {0, 0});
  offer(promotions, 3);
  require_balance(promotions);
  cap.on_admitted(promotion(77, 3), at(0));  // as many as some other count: still a mismatch
  CHECK_FALSE(promotions.check_balance(&why));
  CHECK(why == "promotion_concurrency: chunks in flight = the ledger's: 5 is not 2");

  CascadeBackpressure::Options options;
  options.tiers = {std::nullopt, wall_clock_defaults()};
  auto pressure_owned = std::make_unique<CascadeBackpressure>(options);
  auto& pressure = *pressure_owned;
  AdmissionLedger cascades(std::move(pressure_owned), {10, 10});
  offer(cascades, 4, 0, 0);  // not watched
  offer(cascades, 3, 0, 1);
  require_balance(cascades);
  pressure.on_admitted(cascade(77, 4, 1), at(0));
  CHECK_FALSE(cascades.check_balance(&why));
  CHECK(why == "cascade_backpressure: chunks in flight = the ledger's: 7 is not 3");
}

#ifdef KV_OFFLOAD_TEST_FAULTS
TEST_CASE("the broken third promise is seen at the next idle point", "[admission][unit]") {
  AdmissionLedger ledger(std::make_unique<AlwaysAdmit>(), {10});
  const auto decision = offer(ledger, 4);
  broken_promise_switch() = 3;
  ledger.complete(decision.ticket, 4, ended(0, 1), at(1));
  broken_promise_switch() = 0;
  std::string why;
  CHECK_FALSE(ledger.check_idle(&why));
  CHECK(why == "tier 0: 4 cascade and 0 promotion chunks were admitted and never ended");
}
#endif
