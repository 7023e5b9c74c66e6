// Events of real tiers, through the engine.
#include "kv_offload/tests/support/engine_fixture.hpp"

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

std::vector<OffloadingEvent> events_of_a_store(bool engine_publishes, bool tier_publishes) {
  TempDir dir;
  auto config = small_config();
  config.enable_kv_events = engine_publishes;
  auto tier = fs_tier(dir.path);
  tier.node.object()->emplace("enable_kv_events", ConfigNode(ConfigNode::Value(tier_publishes)));
  tier.node.object()->emplace("locality", ConfigNode(ConfigNode::Value(std::string("remote"))));
  config.secondary_tiers.push_back(tier);
  auto engine = start(config);
  const auto r = *engine->new_request({.req_id = "r"}).get();
  store(*engine, r, keys('a', 2), std::byte{1}, true);
  auto events = engine->take_events().get();
  REQUIRE(events);
  return *events;
}

}  // namespace

TEST_CASE("a tier's events need the engine's flag as well as its own", "[engine]") {
  CHECK(events_of_a_store(false, false).empty());
  CHECK(events_of_a_store(false, true).empty());
  CHECK(events_of_a_store(true, false).size() == 1);
  const auto events = events_of_a_store(true, true);
  REQUIRE(events.size() == 2);
  CHECK(events[0].medium == Medium::cpu);
  CHECK(events[1].medium == Medium::storage);
  CHECK(events[1].locality == Locality::remote);
  CHECK(events[1].keys == keys('a', 2));
  CHECK_FALSE(events[1].removed);
}
