#include "kv_offload/tests/conformance/conformance.hpp"

// Pages and their side data: never one without the other.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

namespace {

OffloadKey key(const std::string& hash, std::uint32_t group) {
  return *OffloadKey::make(std::as_bytes(std::span(hash)), group);
}
VirtualEngine::Options paired(std::uint32_t chunks = 16) {
  auto options = memory_tiers(1, chunks);
  options.atomic_groups = {{0, 1}};
  return options;
}

}  // namespace

TEST_CASE("a page without its side data is not found", "[conformance]") {
  VirtualEngine e(paired());
  const auto r = e.request();
  const KeyList both{key("a", 0), key("a", 1)};
  e.store(r, {both[0]});
  CHECK(letters(poll_all(e, r, both).results) == "..");
  CHECK(poll_all(e, r, {both[0]}).leading_hits == 0);
  e.store(r, {both[1]});
  CHECK(letters(poll_all(e, r, both).results) == "HH");
  REQUIRE(e.finish(r));
  e.require_promises();
}

TEST_CASE("a load that loses one sibling shows neither", "[conformance]") {
  VirtualEngine e(paired());
  const KeyList list{key("a", 0), key("a", 1), key("b", 0), key("b", 1)};
  for (const auto& k : list) e.tier().present.insert(k);
  e.tier().unreadable = {list[3]};
  const auto r = e.request();
  const auto answer = e.lookup(r, list).get();
  REQUIRE(answer);
  CHECK(letters(answer->results) == "HH..");
  CHECK(answer->leading_hits == 2);
  CHECK(e.prepare_load(r, list)->chunk_ids.size() == 2);
}

TEST_CASE("siblings are pinned together or not at all", "[conformance]") {
  VirtualEngine e(paired());
  const auto r = e.request();
  const KeyList list{key("a", 0), key("a", 1), key("b", 0), key("b", 1)};
  e.store(r, {list[0], list[1], list[2]});
  const auto load = e.prepare_load(r, list);
  CHECK(load->chunk_ids.size() == 2);
  CHECK(e.stats().primary.pinned == 2);
  REQUIRE(e.complete_load(load->lease));
}

TEST_CASE("siblings are refused together", "[conformance]") {
  auto options = paired();
  options.admission = R"({"type": "promotion_concurrency", "max_inflight_promotions": 3})";
  VirtualEngine e(options);
  e.tier().automatic = false;
  const KeyList list{key("a", 0), key("a", 1), key("b", 0), key("b", 1)};
  for (const auto& k : list) e.tier().present.insert(k);
  const auto r = e.request();
  CHECK(letters(poll_all(e, r, list).results) == "PP..");
  e.step_end();
  REQUIRE(e.tier().submitted.size() == 1);
  CHECK(e.tier().submitted[0].keys.size() == 2);
  const auto s = e.stats();
  CHECK(s.scheduler.offers[0].promotions_dropped[static_cast<std::size_t>(DropReason::sibling)].chunks == 1);
  CHECK(s.admission.tiers[0].in_flight == 2);
  e.tier().finish(0);
  e.run();
  REQUIRE(e.finish(r));
  e.require_promises();
}
