#include "kv_offload/actors/tenant_salt.hpp"
#include "kv_offload/tests/conformance/conformance.hpp"

// Chunks that must go, and tenants that must not meet.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

TEST_CASE("a forgotten chunk is in no tier any more", "[conformance]") {
  auto options = memory_tiers(2);
  options.events = true;
  VirtualEngine e(options);
  const auto r = e.request();
  e.store(r, keys("k", 3));
  e.take_events();
  const auto summary = e.forget({keys("k", 2)[1], keys("other", 1)[0]});
  REQUIRE(summary);
  CHECK(summary->primary_chunks == 1);
  CHECK(summary->tier_chunks == 2);
  CHECK(summary->not_forgotten.empty());
  CHECK(letters(poll_all(e, r, keys("k", 3), LookupScan::window).results) == "H.H");
  const auto events = e.take_events();
  REQUIRE(events.size() == 1);
  CHECK(events[0].removed);
  CHECK(events[0].keys == KeyList{keys("k", 2)[1]});
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a chunk forgotten while it is read goes when the reader has ended", "[conformance]") {
  VirtualEngine e(memory_tiers(0));
  const auto r = e.request();
  e.store(r, keys("k", 1));
  const auto load = e.prepare_load(r, keys("k", 1));
  REQUIRE(e.forget(keys("k", 1))->primary_chunks == 1);
  CHECK(e.poll(r, keys("k", 1)[0]) == LookupResult::miss);
  CHECK(e.stats().primary.pinned == 1);  // its bytes are still somebody's
  e.store(r, keys("k", 1));              // stored anew, in another slot
  CHECK(e.prepare_load(r, keys("k", 1))->chunk_ids[0] != load->chunk_ids[0]);
  REQUIRE(e.complete_load(load->lease));
  CHECK(e.stats().primary.free == 15);
}

TEST_CASE("a chunk forgotten while it is stored is never published", "[conformance]") {
  VirtualEngine e(memory_tiers());
  const auto r = e.request();
  const auto plan = e.prepare_store(r, keys("k", 2));
  REQUIRE(e.forget({keys("k", 1)[0]}));
  const auto outcome = e.complete_store(plan->lease).get();
  REQUIRE(outcome);
  CHECK(outcome->published == 1);
  REQUIRE(e.tier().submitted.size() == 1);
  CHECK(e.tier().submitted[0].keys == KeyList{keys("k", 2)[1]});
  CHECK(e.stats().primary.resident == 1);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a cascade that was running does not bring a forgotten chunk back", "[conformance]") {
  VirtualEngine e(memory_tiers());
  e.tier().automatic = false;
  const auto r = e.request();
  e.store(r, keys("k", 1));
  auto call = e.start<ForgetSummary>([&](Reply<ForgetSummary> reply) {
    return ForgetCall{std::make_shared<const KeyList>(keys("k", 1)), {}, false, std::move(reply)};
  });
  CHECK_FALSE(call.answered());  // the tier waits for its job
  e.tier().finish(0);
  e.run();
  REQUIRE(call.get());
  CHECK(e.tier().present.empty());
  CHECK(e.poll(r, keys("k", 1)[0]) == LookupResult::miss);
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a promotion that was running does not bring a forgotten chunk back", "[conformance]") {
  VirtualEngine e(memory_tiers());
  e.tier().automatic = false;
  e.tier().present = {keys("k", 1)[0]};
  const auto r = e.request();
  auto waiting = e.lookup(r, keys("k", 1));
  REQUIRE(e.tier().jobs.size() == 1);
  auto call = e.start<ForgetSummary>([&](Reply<ForgetSummary> reply) {
    return ForgetCall{std::make_shared<const KeyList>(keys("k", 1)), {}, false, std::move(reply)};
  });
  REQUIRE(waiting.answered());
  CHECK(letters(waiting.get()->results) == ".");
  e.tier().finish(0);
  e.run();
  REQUIRE(call.get());
  CHECK(e.stats().primary.resident == 0);
  CHECK(e.stats().primary.free == 16);
  CHECK(e.tier().present.empty());
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a tier that cannot forget is named", "[conformance]") {
  auto options = memory_tiers(2);
  options.setup_tier = [](std::size_t t, ScriptedTier& tier) { tier.forgets = t == 0; };
  VirtualEngine e(options);
  const auto summary = e.forget(keys("k", 1));
  REQUIRE(summary);
  REQUIRE(summary->not_forgotten.size() == 1);
  CHECK(summary->not_forgotten[0].find("2:scripted") == 0);
}

TEST_CASE("a forget that a dead device holds up ends by its deadline", "[conformance]") {
  VirtualEngine e(memory_tiers());
  e.tier().automatic = false;
  const auto r = e.request();
  e.store(r, keys("k", 1));
  auto call = e.start<ForgetSummary>([&](Reply<ForgetSummary> reply) {
    return ForgetCall{std::make_shared<const KeyList>(keys("k", 1)), {}, false, std::move(reply)};
  });
  e.advance(31s);
  REQUIRE(call.answered());
}

TEST_CASE("tenants never meet", "[conformance]") {
  VirtualEngine e(memory_tiers());
  const auto list = keys("k", 2);
  const auto a = e.request(NewRequest{.req_id = "a", .tenant = "acme"});
  const auto b = e.request(NewRequest{.req_id = "b", .tenant = "blue"});
  const auto nobody = e.request("nobody");
  e.store(a, list);
  CHECK(letters(poll_all(e, a, list).results) == "HH");
  CHECK(letters(poll_all(e, b, list).results) == "..");
  CHECK(letters(poll_all(e, nobody, list).results) == "..");
  e.store(b, list);
  e.store(nobody, list);
  CHECK(e.tier().present.size() == 6);
  CHECK(e.prepare_load(a, list)->chunk_ids != e.prepare_load(b, list)->chunk_ids);
}

TEST_CASE("no two tenant names can be made up to meet", "[conformance]") {
  // The first two met under a hash that any byte string can be computed for.
  const std::string zero("\xd5\x6b\xb9\x53\x42\x87\x08\x36");
  CHECK(tenant_salt(zero) != tenant_salt(zero + '\0'));
  CHECK(tenant_salt("acme") == 0x822b33ad87c148a0ULL);  // the first bytes of SHA-256("acme")
}

TEST_CASE("a tenant is forgotten whole, and no other", "[conformance]") {
  VirtualEngine e(memory_tiers());
  const auto list = keys("k", 2);
  const auto a = e.request(NewRequest{.req_id = "a", .tenant = "acme"});
  const auto b = e.request(NewRequest{.req_id = "b", .tenant = "blue"});
  e.store(a, list);
  e.store(b, list);
  const auto summary = e.forget({}, "acme", true);
  REQUIRE(summary);
  CHECK(summary->primary_chunks == 2);
  CHECK(summary->tier_chunks == 2);
  CHECK(letters(poll_all(e, a, list).results) == "..");
  CHECK(letters(poll_all(e, b, list).results) == "HH");
  CHECK(e.forget({list[0]}, "blue")->primary_chunks == 1);
  CHECK(letters(poll_all(e, b, list, LookupScan::window).results) == ".H");
  REQUIRE(e.finish(a));
  REQUIRE(e.finish(b));
  e.require_promises();
}

TEST_CASE("a hash that leaves no room for a tenant is refused, saying so", "[conformance]") {
  VirtualEngine e(memory_tiers());
  const std::vector<std::byte> hash(60, std::byte{7});
  const KeyList list{*OffloadKey::make(hash, 0)};
  const auto a = e.request(NewRequest{.req_id = "a", .tenant = "acme"});
  const auto refused = e.lookup(a, list).get();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == OffloadErrc::invalid_argument);
  CHECK(refused.error().detail.find("60 bytes") != std::string::npos);
  CHECK(refused.error().detail.find("56") != std::string::npos);
}
