#include "kv_offload/tests/conformance/conformance.hpp"

// The life of a request: what tiers hear of it, when it ends, what it may store and load.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

namespace {

VirtualEngine::Options asking_tiers(std::size_t tiers, std::size_t request_level_tier) {
  auto options = memory_tiers(tiers);
  options.setup_tier = [=](std::size_t t, ScriptedTier& tier) {
    tier.in_memory = true;
    tier.tier_traits.asks_requests = true;
    if (t == request_level_tier) tier.policy = OffloadPolicy::request_level;
  };
  return options;
}
constexpr std::size_t kNone = 99;
using Calls = std::vector<std::string>;

std::uint64_t dropped(VirtualEngine& e, std::size_t t, DropReason why) {
  return e.stats().scheduler.offers[t].cascades_dropped[static_cast<std::size_t>(why)].chunks;
}

}  // namespace

TEST_CASE("tiers that ask hear of a request's beginning and end", "[conformance]") {
  VirtualEngine e(asking_tiers(2, kNone));
  const auto r = e.request("r");
  CHECK(r.policy == OffloadPolicy::chunk_level);
  CHECK(e.tier(0).calls == Calls{"open r"});
  REQUIRE(e.finish(r));
  CHECK(e.tier(0).calls == Calls{"open r", "close r"});
  CHECK(e.tier(1).calls == Calls{"open r", "close r"});
}

TEST_CASE("a tier hears of the end only when the last store was submitted", "[conformance]") {
  VirtualEngine e(asking_tiers(1, kNone));
  const auto r = e.request("r");
  const auto first = e.prepare_store(r, keys("a", 1));
  const auto second = e.prepare_store(r, keys("b", 1));
  REQUIRE(first);
  REQUIRE(second);
  REQUIRE(e.finish(r));
  CHECK(e.tier().calls == Calls{"open r"});
  REQUIRE(e.complete_store(first->lease).get());
  CHECK(e.tier().calls == Calls{"open r"});
  REQUIRE(e.complete_store(second->lease).get());
  CHECK(e.tier().calls == Calls{"open r", "close r"});
  CHECK(e.tier().submitted.size() == 2);  // the last chunk's cascade came before
}

TEST_CASE("a failed store ends a finished request, too", "[conformance]") {
  VirtualEngine e(asking_tiers(1, kNone));
  const auto r = e.request("r");
  const auto plan = e.prepare_store(r, keys("a", 1));
  REQUIRE(e.finish(r));
  REQUIRE(e.complete_store(plan->lease, {.success = false}).get());
  CHECK(e.tier().calls == Calls{"open r", "close r"});
  CHECK(e.stats().scheduler.requests_live == 0);
}

TEST_CASE("a request without stores ends at once, loads and promotions delay nothing", "[conformance]") {
  VirtualEngine e(asking_tiers(1, kNone));
  e.tier().automatic = false;
  e.tier().present = {keys("k", 1)[0]};
  const auto w = e.request("w");
  const auto r = e.request("r");
  CHECK(e.poll(r, keys("k", 1)[0]) == LookupResult::hit_pending);
  e.step_end();
  REQUIRE(e.finish(r));
  CHECK(e.tier().calls == Calls{"open w", "open r", "close r"});
  e.tier().finish(0);
  e.step_begin();
  CHECK(e.poll(w, keys("k", 1)[0]) == LookupResult::hit);  // it lands as an ordinary chunk
  const auto load = e.prepare_load(w, keys("k", 1));
  REQUIRE(e.finish(w));
  CHECK(e.tier().calls.back() == "close w");
  REQUIRE(e.complete_load(load->lease));  // legal after the end
  CHECK(e.stats().scheduler.requests_live == 0);
}

TEST_CASE("an ended request is kept until its last lease is completed", "[conformance]") {
  VirtualEngine e(memory_tiers());
  const auto r = e.request("r");
  e.store(r, keys("k", 1));
  const auto load = e.prepare_load(r, keys("k", 1));
  REQUIRE(e.finish(r));
  CHECK(e.stats().scheduler.requests_live == 1);
  CHECK(e.stats().scheduler.requests_ended == 0);
  REQUIRE(e.complete_load(load->lease));
  CHECK(e.stats().scheduler.requests_live == 0);
  CHECK(e.stats().scheduler.requests_ended == 1);
}

TEST_CASE("a live id cannot be announced twice, an ended one can", "[conformance]") {
  VirtualEngine e(memory_tiers());
  const auto r = e.request("r");
  const auto again = e.start<OpenedRequest>([](Reply<OpenedRequest> reply) {
    return NewRequestCall{NewRequest{.req_id = "r"}, std::nullopt, std::move(reply)};
  });
  REQUIRE_FALSE(again.get());
  REQUIRE(e.finish(r));
  CHECK(e.request("r").handle != r.handle);
}

TEST_CASE("an id must be there and short enough to keep", "[conformance]") {
  VirtualEngine e(memory_tiers());
  for (const auto& id : {std::string(), std::string(2000, 'x')}) {
    const auto refused = e.start<OpenedRequest>([&](Reply<OpenedRequest> reply) {
      return NewRequestCall{NewRequest{.req_id = id}, std::nullopt, std::move(reply)};
    });
    const auto answer = refused.get();
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code == OffloadErrc::invalid_argument);
  }
  e.request(NewRequest{.req_id = "evil\nerror: forged", .param_faults = {TransferParamFault::not_an_object}});
  for (const auto& line : e.log) CHECK(line.find('\n') == std::string::npos);
}

TEST_CASE("calls of an unknown or ended request are refused", "[conformance]") {
  VirtualEngine e(memory_tiers());
  const auto r = e.request("r");
  REQUIRE(e.finish(r));
  CHECK(e.prepare_store(r, keys("k", 1)).error().code == OffloadErrc::unknown_request);
  CHECK(e.prepare_load(r, keys("k", 1)).error().code == OffloadErrc::unknown_request);
  CHECK(e.lookup(r, keys("k", 1)).get().error().code == OffloadErrc::unknown_request);
  CHECK(e.finish(r).error().code == OffloadErrc::unknown_request);
}

// -- request level ------------------------------------------------------------------------------------------

TEST_CASE("one tier's wish makes a request request-level, for that tier alone", "[conformance]") {
  VirtualEngine e(asking_tiers(2, 1));
  const auto w = e.request("w");
  e.store(w, keys("k", 2));
  e.tier(0).submitted.clear();
  e.tier(1).submitted.clear();
  const auto r = e.request("r");
  CHECK(r.policy == OffloadPolicy::request_level);
  const auto plan = e.prepare_store(r, keys("k", 3));
  REQUIRE(plan);
  CHECK(plan->key_idx == std::vector<std::uint32_t>{2});
  CHECK(e.tier(0).submitted.empty());
  REQUIRE(e.tier(1).submitted.size() == 1);  // what was there already goes to the tier that asked
  CHECK(e.tier(1).submitted[0].keys == keys("k", 2));
  CHECK(e.tier(1).submitted[0].request->request.req_id == "r");
  REQUIRE(e.complete_store(plan->lease).get());
  CHECK(e.tier(0).submitted.size() == 1);  // what is new goes to all
  CHECK(e.tier(1).submitted.size() == 2);
  REQUIRE(e.finish(w));
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a chunk being written is parked and cascaded when its write ends", "[conformance]") {
  VirtualEngine e(asking_tiers(1, 0));
  const auto w = e.request("w");
  const auto writing = e.prepare_store(w, keys("k", 2));
  const auto r = e.request("r");
  const auto plan = e.prepare_store(r, keys("k", 2));
  REQUIRE(plan);
  CHECK(plan->key_idx.empty());
  CHECK(e.stats().scheduler.cascades_parked == 2);
  CHECK(e.has_pending_work());
  REQUIRE(e.complete_store(plan->lease).get());
  REQUIRE(e.finish(r));
  CHECK(e.tier().calls == Calls{"open w", "open r"});  // parked cascades delay the end
  REQUIRE(e.complete_store(writing->lease).get());
  CHECK(e.stats().scheduler.cascades_parked == 0);
  std::size_t for_r = 0;
  for (const auto& job : e.tier().submitted) for_r += job.request->request.req_id == "r" ? job.keys.size() : 0;
  CHECK(for_r == 2);
  CHECK(e.tier().calls == Calls{"open w", "open r", "close r"});
  REQUIRE(e.finish(w));
  e.require_promises();
}

TEST_CASE("a parked chunk whose write fails is dropped and counted", "[conformance]") {
  VirtualEngine e(asking_tiers(1, 0));
  const auto w = e.request("w");
  const auto writing = e.prepare_store(w, keys("k", 1));
  const auto r = e.request("r");
  REQUIRE(e.complete_store(e.prepare_store(r, keys("k", 1))->lease).get());
  REQUIRE(e.finish(r));
  REQUIRE(e.complete_store(writing->lease, {.success = false}).get());
  CHECK(e.tier().submitted.empty());
  CHECK(dropped(e, 0, DropReason::evicted) == 1);
  CHECK(e.tier().calls.back() == "close r");
  REQUIRE(e.finish(w));
  e.require_promises();
}

TEST_CASE("a write that never ends parks nothing beyond its deadline", "[conformance]") {
  VirtualEngine e(asking_tiers(1, 0));
  const auto w = e.request("w");
  const auto writing = e.prepare_store(w, keys("k", 1));
  const auto r = e.request("r");
  REQUIRE(e.complete_store(e.prepare_store(r, keys("k", 1))->lease).get());
  REQUIRE(e.finish(r));
  e.advance(31s);
  CHECK(dropped(e, 0, DropReason::deadline) == 1);
  CHECK(e.tier().calls.back() == "close r");
  REQUIRE(e.complete_store(writing->lease).get());  // late, and legal
  REQUIRE(e.finish(w));
  e.run();
  e.require_promises();
}

TEST_CASE("a reset drops parked cascades and ends the finished request", "[conformance]") {
  VirtualEngine e(asking_tiers(1, 0));
  const auto w = e.request("w");
  const auto writing = e.prepare_store(w, keys("k", 1));
  const auto r = e.request("r");
  REQUIRE(e.complete_store(e.prepare_store(r, keys("k", 1))->lease).get());
  REQUIRE(e.finish(r));
  REQUIRE(e.reset());
  CHECK(dropped(e, 0, DropReason::reset) == 1);
  CHECK(e.tier().calls.back() == "close r");
  REQUIRE(e.complete_store(writing->lease).get());
  CHECK(e.poll(w, keys("k", 1)[0]) == LookupResult::miss);
}

TEST_CASE("request-level cascades are asked of admission, too", "[conformance]") {
  auto options = asking_tiers(1, 0);
  options.pin_share = 0.07;  // one of sixteen
  VirtualEngine e(options);
  e.tier().automatic = false;
  const auto w = e.request("w");
  e.store(w, keys("a", 1));
  e.store(w, keys("b", 1));  // refused: the tier's pin share is used up
  CHECK(e.tier().submitted.size() == 1);
  const auto r = e.request("r");
  REQUIRE(e.complete_store(e.prepare_store(r, keys("b", 1))->lease).get());
  CHECK(e.tier().submitted.size() == 1);
  CHECK(e.stats().primary.pins_open == 1);
  e.tier().finish(0);
  e.run();
  REQUIRE(e.finish(w));
  REQUIRE(e.finish(r));
  e.require_promises();
}

// -- limits -------------------------------------------------------------------------------------------------

TEST_CASE("a filtered tier is not asked, the primary tier always is", "[conformance]") {
  auto options = memory_tiers(2);
  options.setup_tier = [](std::size_t t, ScriptedTier& tier) {
    tier.in_memory = true;
    if (t == 1) tier.tier_traits.locality = Locality::remote;
  };
  VirtualEngine e(options);
  const auto list = keys("k", 2);
  e.tier(0).present = {list[0]};
  e.tier(1).present = {list[1]};
  const auto r = e.request("r", TierFilter::only({TierMatcher{std::nullopt, Locality::remote}}));
  CHECK(e.poll(r, list[0]) == LookupResult::miss);
  CHECK(e.poll(r, list[1]) == LookupResult::hit_pending);
  const auto none = e.request("none", TierFilter::only({}));
  e.tier(0).present.insert(keys("x", 1)[0]);
  CHECK(e.poll(none, keys("x", 1)[0]) == LookupResult::miss);
  e.store(none, keys("y", 1));
  CHECK(e.poll(none, keys("y", 1)[0]) == LookupResult::hit);
}

TEST_CASE("max_offload_tokens caps what a request stores", "[conformance]") {
  auto options = memory_tiers();
  options.tokens_per_chunk = 16;
  VirtualEngine e(options);
  const auto counted = e.request(NewRequest{.req_id = "counted", .max_offload_tokens = 40});
  const auto plan = e.prepare_store(counted, keys("a", 3));
  REQUIRE(plan);
  CHECK(plan->key_idx.size() == 2);  // 40 tokens hold two whole chunks
  CHECK(plan->capped == 1);
  CHECK(e.prepare_store(counted, keys("b", 1))->key_idx.empty());
  const auto placed = e.request(NewRequest{.req_id = "placed", .max_offload_tokens = 40});
  CHECK(e.prepare_store(placed, keys("c", 2), {.first_token = 16})->key_idx.size() == 1);
  CHECK(e.prepare_store(placed, keys("d", 2), {.first_token = 64})->key_idx.empty());
  const auto nothing = e.request(NewRequest{.req_id = "nothing", .max_offload_tokens = 0});
  CHECK(e.prepare_store(nothing, keys("e", 2))->capped == 2);
  CHECK(e.stats().scheduler.stores_capped_chunks == 1 + 1 + 1 + 2 + 2);
}

TEST_CASE("a store refused for space does not use up max_offload_tokens", "[conformance]") {
  auto options = memory_tiers(1, 4);
  options.tokens_per_chunk = 16;
  VirtualEngine e(options);
  const auto w = e.request("w");
  const auto busy = e.prepare_store(w, keys("busy", 3));
  const auto r = e.request(NewRequest{.req_id = "r", .max_offload_tokens = 32});
  CHECK(e.prepare_store(r, keys("a", 2)).error().code == OffloadErrc::no_space);
  REQUIRE(e.complete_store(busy->lease).get());
  CHECK(e.prepare_store(r, keys("a", 2))->key_idx.size() == 2);
}

TEST_CASE("only the prompt is offloaded where the chunks' places are known", "[conformance]") {
  auto options = memory_tiers();
  options.tokens_per_chunk = 16;
  VirtualEngine e(options);
  const auto r = e.request(NewRequest{.req_id = "r", .prompt_tokens = 40});
  CHECK(e.prepare_store(r, keys("a", 3), {.first_token = 0})->key_idx.size() == 2);
  options.offload_prompt_only = false;
  VirtualEngine all(options);
  const auto s = all.request(NewRequest{.req_id = "s", .prompt_tokens = 40});
  CHECK(all.prepare_store(s, keys("a", 3), {.first_token = 0})->key_idx.size() == 3);
}

TEST_CASE("max_load_tokens caps what a lookup finds", "[conformance]") {
  auto options = memory_tiers();
  options.tokens_per_chunk = 16;
  VirtualEngine e(options);
  const auto w = e.request("w");
  e.store(w, keys("k", 4));
  const auto r = e.request(NewRequest{.req_id = "r", .max_load_tokens = 33});
  const auto answer = poll_all(e, r, keys("k", 4));
  CHECK(letters(answer.results) == "HH..");
  CHECK(answer.leading_hits == 2);
  CHECK(answer.capped == 2);
  for (std::uint64_t i = 0; i < 4; ++i) {  // key by key the limit is the same
    const auto one = e.lookup(r, {keys("k", 4)[i]}, {.wait = LookupWait::polled, .first_token = 16 * i}).get();
    CHECK(one->leading_hits == (i < 2 ? 1U : 0U));
  }
  const auto window = e.lookup(r, keys("k", 4), {.scan = LookupScan::window}).get();
  CHECK(letters(window->results) == "HH..");
  // What the device holds is not loaded: the limit counts from there.
  CHECK(e.lookup(r, keys("k", 4), {.device_tokens = 32}).get()->leading_hits == 4);
  const auto nothing = e.request(NewRequest{.req_id = "n", .max_load_tokens = 0});
  CHECK(poll_all(e, nothing, keys("k", 4)).leading_hits == 0);
  REQUIRE(e.finish(w));
  REQUIRE(e.finish(r));
  REQUIRE(e.finish(nothing));
  e.require_promises();
}

// -- reuse --------------------------------------------------------------------------------------------------

TEST_CASE("below store_threshold lookups a chunk is not stored, and counted", "[conformance]") {
  auto options = reference_options(0);
  options.store_threshold = 2;
  VirtualEngine e(options);
  const auto r = e.request();
  const auto list = keys("k", 3);
  e.poll(r, list[0]);
  e.poll(r, list[1]);
  e.poll(r, list[1]);
  const auto plan = e.prepare_store(r, list);
  REQUIRE(plan);
  CHECK(plan->key_idx == std::vector<std::uint32_t>{1});
  CHECK(e.stats().primary.stores_skipped == 2);
  REQUIRE(e.complete_store(plan->lease).get());
  e.poll(r, list[0]);
  CHECK(e.prepare_store(r, {list[0]})->key_idx.size() == 1);
  CHECK(e.stats().primary.stores_skipped == 2);
}
