#include "kv_offload/tests/conformance/conformance.hpp"

// When each metric moves: first resolutions, delays, bytes, failures, gauges.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

namespace {

struct Counted {
  std::uint64_t queries, hits, sync, async;
  friend bool operator==(const Counted&, const Counted&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Counted& c) {
    return out << c.queries << " queries " << c.hits << " hits " << c.sync << " sync " << c.async << " async";
  }
};
Counted counted(VirtualEngine& e, std::size_t source) {
  const auto l = e.stats().scheduler.lookups[source];
  return {l.chunk_queries, l.chunk_hits, l.sync_delay.count(), l.async_delay.count()};
}

}  // namespace

TEST_CASE("a lookup counts at its first resolution per request, tier and key", "[conformance]") {
  VirtualEngine e(memory_tiers());
  const auto list = keys("k", 2);
  const auto a = e.request("a"), b = e.request("b");
  e.store(a, {list[0]});
  for (int again = 0; again < 3; ++again) e.poll(a, list[0]);
  CHECK(counted(e, 0) == Counted{1, 1, 1, 0});
  e.poll(a, list[1]);  // a miss in both
  e.poll(a, list[1]);
  CHECK(counted(e, 0) == Counted{2, 1, 2, 0});
  CHECK(counted(e, 1) == Counted{1, 0, 1, 0});
  e.poll(b, list[0]);  // another request counts anew
  CHECK(counted(e, 0) == Counted{3, 2, 3, 0});
}

TEST_CASE("lookups of an allocated request count no more", "[conformance]") {
  VirtualEngine e(memory_tiers());
  const auto list = keys("k", 2);
  const auto r = e.request();
  e.poll(r, list[0]);
  CHECK(counted(e, 1) == Counted{1, 0, 1, 0});
  e.step_end({{r}, {}});
  e.poll(r, list[1]);
  CHECK(counted(e, 0) == Counted{1, 0, 1, 0});
  CHECK(counted(e, 1) == Counted{1, 0, 1, 0});
}

TEST_CASE("a pending chunk counts nothing, nor does the promotion that ends in a hit", "[conformance]") {
  VirtualEngine e(memory_tiers());
  const auto list = keys("k", 1);
  e.tier().present = {list[0]};
  const auto r = e.request();
  e.poll(r, list[0]);  // primary miss, tier hit
  const Counted primary{1, 0, 1, 0}, tier{1, 1, 1, 0};
  CHECK(counted(e, 0) == primary);
  CHECK(counted(e, 1) == tier);
  e.poll(r, list[0]);  // pending
  e.step_end();
  e.step_begin();
  CHECK(e.poll(r, list[0]) == LookupResult::hit);
  CHECK(counted(e, 0) == primary);  // its first resolution was the miss
  CHECK(counted(e, 1) == tier);     // and a tier that answers from memory has no async delay
}

TEST_CASE("a retry counts when it resolves, with the time since it was first asked", "[conformance]") {
  auto options = reference_options();
  options.setup_tier = [](std::size_t, ScriptedTier& tier) { tier.answers_probes = false; };
  VirtualEngine e(options);
  const auto r = e.request();
  e.poll(r, keys("k", 1)[0]);
  CHECK(counted(e, 1) == Counted{0, 0, 0, 0});
  CHECK(e.stats().scheduler.lookups[1].looked_up == 0);
  e.advance(200ms);
  e.tier().answer_probe(e.tier().probes[0].first, e.tier().probes[0].second);
  e.run();
  e.poll(r, keys("k", 1)[0]);
  CHECK(counted(e, 1) == Counted{1, 0, 1, 1});
  CHECK(e.stats().scheduler.lookups[1].async_delay.sum == Approx(0.2));
  e.poll(r, keys("k", 1)[0]);
  CHECK(counted(e, 1) == Counted{1, 0, 1, 1});
}

TEST_CASE("finished jobs count bytes, time and failures as the reference does", "[conformance]") {
  VirtualEngine e(memory_tiers());
  e.tier().automatic = false;
  const auto list = keys("k", 6);
  const auto r = e.request();
  e.store(r, {list[0], list[1]});
  e.tier().finish(0);
  e.run();
  auto t = e.stats().tracker.tiers[0];
  CHECK(t.write_bytes == 2 * 4096);
  CHECK(t.cascade_job_failures == 0);
  e.tier().unstorable = {keys("bad", 1)[0]};
  e.store(r, {list[2], keys("bad", 1)[0]});
  e.tier().finish(0);  // a cascade that failed, if only in part, counts no bytes and still unpins
  e.run();
  t = e.stats().tracker.tiers[0];
  CHECK(t.write_bytes == 2 * 4096);
  CHECK(t.cascade_job_failures == 1);
  CHECK(e.stats().primary.pins_open == 0);
  e.tier().present = {list[3], list[4], list[5]};
  e.tier().unreadable = {list[4]};
  poll_all(e, r, {list[3], list[4], list[5]});
  e.step_end();
  e.tier().finish(0);  // two of three: bytes of two, and a failure
  e.step_begin();
  t = e.stats().tracker.tiers[0];
  CHECK(t.read_bytes == 2 * 4096);
  CHECK(t.promotion_job_failures == 1);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("gauges count active jobs and the chunks they keep", "[conformance]") {
  VirtualEngine e(memory_tiers(2));
  e.tier(0).automatic = e.tier(1).automatic = false;
  const auto list = keys("k", 4);
  const auto r = e.request();
  e.store(r, {list[0], list[1]});
  e.tier(0).present.insert(list[2]);
  e.poll(r, list[2]);
  auto t = e.stats().tracker.tiers;
  CHECK(t[0].active_cascade_jobs == 1);
  CHECK(t[0].active_cascade_chunks == 2);
  CHECK(t[1].active_cascade_chunks == 2);  // the same chunks, counted for each tier
  CHECK(t[0].active_promotion_jobs == 0);  // reserved, not submitted
  CHECK(e.stats().primary.write_pending == 1);
  e.step_end();
  t = e.stats().tracker.tiers;
  CHECK(t[0].active_promotion_jobs == 1);
  CHECK(t[0].active_promotion_chunks == 1);
  e.tier(0).finish(0);
  e.tier(0).finish(0);
  e.tier(1).finish(0);
  e.run();
  t = e.stats().tracker.tiers;
  CHECK(t[0].active_cascade_jobs + t[0].active_promotion_jobs + t[1].active_cascade_jobs == 0);
  CHECK(t[0].active_cascade_chunks + t[0].active_promotion_chunks + t[1].active_cascade_chunks == 0);
}

TEST_CASE("each non-empty reservation is one size sample, each promoted chunk one of size 1", "[conformance]") {
  VirtualEngine e(memory_tiers(1, 4));
  const auto r = e.request();
  const auto samples = [&] { return e.stats().primary.allocation_size.count(); };
  e.store(r, keys("a", 2));
  CHECK(samples() == 1);
  e.store(r, keys("a", 2));  // nothing to reserve
  CHECK(samples() == 1);
  const auto busy = e.prepare_load(r, keys("a", 2));
  CHECK_FALSE(e.prepare_store(r, keys("b", 3)));  // sampled although it did not fit
  CHECK(samples() == 2);
  e.tier().present.insert(keys("p", 1)[0]);
  e.poll(r, keys("p", 1)[0]);
  CHECK(samples() == 3);
  CHECK(e.stats().primary.allocation_size.sum == Approx(2 + 3 + 1));
}

TEST_CASE("malformed parameters are counted each time and said once", "[conformance]") {
  VirtualEngine e(memory_tiers());
  for (int i = 0; i < 3; ++i)
    e.request(NewRequest{.req_id = std::to_string(i), .param_faults = {TransferParamFault::max_load_tokens}});
  CHECK(e.stats().scheduler.transfer_param_faults[static_cast<std::size_t>(TransferParamFault::max_load_tokens)] == 3);
  std::size_t said = 0;
  for (const auto& line : e.log) said += line.find("max_load_tokens") != std::string::npos ? 1U : 0U;
  CHECK(said == 1);
}
