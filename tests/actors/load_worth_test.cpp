#include "kv_offload/actors/load_costs.hpp"
#include "kv_offload/tests/support/virtual_engine.hpp"

using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

TEST_CASE("what was never measured is no reason against loading", "[actor]") {
  const LoadCosts costs(1);
  const std::vector<std::uint8_t> origins = {0, 1, 1};
  const auto worth = costs.worth(origins, 0.01);
  CHECK(worth.load_s == 0);
  CHECK(worth.compute_s == Approx(0.03));
  CHECK(worth.chunks == 3);
}

TEST_CASE("without a rate of computing everything is worth loading", "[actor]") {
  LoadCosts costs(1);
  costs.landed(0, 1, 10s);
  const std::vector<std::uint8_t> origins = {1, 1};
  const auto worth = costs.worth(origins, 0);
  CHECK(worth.load_s == Approx(20));
  CHECK(worth.compute_s == 0);
  CHECK(worth.chunks == 2);
}

TEST_CASE("the leading chunks worth loading end where the sum begins to lose", "[actor]") {
  LoadCosts costs(2);
  costs.copied(10, 10ms);
  costs.landed(0, 1, 4ms);
  costs.landed(1, 1, 50ms);
  // At 10 ms a chunk: the primary's gain 9 each, the first tier's 5, the second's lose 41.
  const std::vector<std::uint8_t> origins = {0, 0, 1, 2, 1};
  const auto worth = costs.worth(origins, 0.010);
  CHECK(worth.load_s == Approx(0.001 * 5 + 0.004 * 2 + 0.050));
  CHECK(worth.chunks == 3);
  const std::vector<std::uint8_t> dear = {2, 0, 0, 0, 0, 0};  // the first is dear, what is behind it makes up for it
  CHECK(costs.worth(dear, 0.010).chunks == 6);
  const std::vector<std::uint8_t> too_dear = {2, 0};
  CHECK(costs.worth(too_dear, 0.010).chunks == 0);
}

TEST_CASE("the costs follow what is measured", "[actor]") {
  LoadCosts costs(1);
  costs.landed(0, 2, 2ms);
  CHECK(costs.landing_s_per_chunk(0) == Approx(0.001));
  for (int i = 0; i < 200; ++i) costs.landed(0, 1, 9ms);
  CHECK(costs.landing_s_per_chunk(0) == Approx(0.009).epsilon(0.01));
  costs.landed(7, 1, 1s);  // a tier that is not there
  costs.copied(0, 1s);
  CHECK(costs.copy_s_per_chunk() == 0);
}

TEST_CASE("a lookup says what its loads would take, and how many are worth it", "[actor]") {
  VirtualEngine::Options options;
  options.tokens_per_chunk = 16;
  options.compute_tokens_per_s = 1600;  // 10 ms a chunk
  VirtualEngine e(options);
  e.tier().automatic = false;
  const auto list = keys("k", 8);
  for (const auto& key : list) e.tier().present.insert(key);
  const auto measured = e.request("measured");
  LookupOptions resolved;
  resolved.wait = LookupWait::resolved;
  const auto first = e.lookup(measured, {list[0]}, resolved).get();
  REQUIRE(first);
  CHECK(first->worth.chunks == 1);
  CHECK(first->worth.load_s == 0);  // nothing was measured yet
  e.advance(30ms);
  e.tier().finish(0);
  e.run();
  const auto lease = e.prepare_load(measured, {list[0]});
  REQUIRE(lease);
  e.advance(2ms);
  REQUIRE(e.complete_load(lease->lease));
  const auto r = e.request("r");
  const auto second = e.lookup(r, {list[0], list[1]}, resolved).get();
  REQUIRE(second);
  CHECK(second->leading_hits == 2);
  CHECK(second->worth.compute_s == Approx(0.020));
  CHECK(second->worth.load_s == Approx(0.002 * 2 + 0.030).epsilon(0.1));
  CHECK(second->worth.chunks == 1);  // the second is sooner computed than it lands
}
