#include "kv_offload/bench/device.hpp"
#include "kv_offload/bench/sim_device.hpp"
#include "kv_offload/bench/sim_expression.hpp"
#include "kv_offload/bench/sim_hbm.hpp"
#include "kv_offload/bench/sim_latency.hpp"
#include "kv_offload/bench/sim_totals.hpp"
#include "kv_offload/bench/sim_world.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <string>
#include <vector>

using namespace kv_offload;
using namespace kv_offload::bench;
using std::chrono::milliseconds;

namespace {

using Chunks = std::vector<std::uint64_t>;

void finish(SimWorld& world) {
  REQUIRE_FALSE(world.run([] { return false; }));  // until nothing is due any more
}

}  // namespace

TEST_CASE("virtual time fires by moment, and equal moments in the order they were asked for",
          "[bench][unit]") {
  SimWorld world;
  std::vector<int> order;
  world.after(milliseconds(20), [&] { order.push_back(3); });
  world.after(milliseconds(10), [&] {
    order.push_back(1);
    world.after(Duration::zero(), [&] { order.push_back(2); });
  });
  world.after(milliseconds(20), [&] { order.push_back(4); });
  finish(world);
  CHECK(order == std::vector<int>{1, 2, 3, 4});
  CHECK(world.seconds() == Approx(0.02));
}

TEST_CASE("a run that can never be done ends instead of spinning", "[bench][unit]") {
  SimWorld world;
  CHECK_FALSE(world.run([] { return false; }));
  CHECK(world.run([] { return true; }));
}

TEST_CASE(
    "the device's cache finds what ended requests left, and gives up the end of the oldest prompt "
    "first",
    "[bench][unit]") {
  SimHbm hbm(4);
  const Chunks a{1, 2, 3};
  auto lease = hbm.take(a, 0, 3);
  REQUIRE(lease);
  CHECK(hbm.match(a) == 0);  // nobody finds what is not computed yet
  hbm.publish(*lease, a);
  CHECK(hbm.match(a) == 3);
  hbm.release(std::move(*lease));
  CHECK(hbm.match(a) == 3);
  auto other = hbm.take(Chunks{8, 9}, 0, 2);
  REQUIRE(other);
  CHECK(hbm.match(a) == 2);
  CHECK(hbm.evictions() == 1);
}

TEST_CASE("the device's cache takes nothing from running requests", "[bench][unit]") {
  SimHbm hbm(4);
  auto first = hbm.take(Chunks{1, 2, 3}, 0, 3);
  REQUIRE(first);
  CHECK_FALSE(hbm.take(Chunks{7, 8}, 0, 2));
  CHECK(hbm.take(Chunks{7}, 0, 1));
  CHECK_FALSE(hbm.can_ever_fit(5));
}

TEST_CASE("two requests that compute the same chunk share it only once", "[bench][unit]") {
  SimHbm hbm(4);
  auto first = hbm.take(Chunks{1}, 0, 1);
  auto second = hbm.take(Chunks{1}, 0, 1);
  REQUIRE((first && second));
  hbm.publish(*first, Chunks{1});
  hbm.publish(*second, Chunks{1});
  CHECK(second->own == 1);
  hbm.release(std::move(*second));
  CHECK(hbm.match(Chunks{1}) == 1);
  hbm.release(std::move(*first));
  CHECK(hbm.take(Chunks{5, 6, 7, 8}, 0, 4));
}

TEST_CASE("a stall moves prefill and decode by its length, and copies not at all",
          "[bench][unit]") {
  SimWorld world;
  SimDeviceModel model;
  model.prefill_tokens_s = 1000;
  model.decode_tokens_s = 100;
  model.to_host_bytes_s = 1000;
  SimDevice device(world, model);
  double prefilled = 0, second = 0, decoded = 0, copied = 0;
  device.prefill(1000, [&] { prefilled = world.seconds(); });
  device.prefill(500, [&] { second = world.seconds(); });
  device.decode(200, [&] { decoded = world.seconds(); });
  device.to_host(1000, [&] { copied = world.seconds(); });
  world.after(milliseconds(500), [&] { device.stall(milliseconds(250)); });
  finish(world);
  CHECK(prefilled == Approx(1.25));
  CHECK(second == Approx(1.75));
  CHECK(decoded == Approx(2.25));
  CHECK(copied == Approx(1.0));
}

TEST_CASE("stalls add up, and work that begins within one waits for its end", "[bench][unit]") {
  SimWorld world;
  SimDevice device(world, SimDeviceModel{.prefill_tokens_s = 1000});
  double prefilled = 0;
  device.stall(milliseconds(100));
  device.stall(milliseconds(100));
  world.after(milliseconds(50), [&] { device.prefill(100, [&] { prefilled = world.seconds(); }); });
  finish(world);
  CHECK(prefilled == Approx(0.3));
}

TEST_CASE("latencies have the median they are given, and recorded ones scale by bytes",
          "[bench][unit]") {
  Random random(7);
  SimLatency latency;
  latency.median_s = 0.010;
  latency.sigma = 0.5;
  std::vector<double> drawn;
  for (int i = 0; i < 10'000; ++i) drawn.push_back(to_seconds(latency.draw(random, 1)));
  CHECK(quantile(drawn, 0.5) == Approx(0.010).epsilon(0.05));
  CHECK(quantile(drawn, 0.841) == Approx(0.010 * std::exp(0.5)).epsilon(0.05));
  latency.max_s = 0.011;
  for (int i = 0; i < 100; ++i) CHECK(to_seconds(latency.draw(random, 1)) <= 0.011);
  SimLatency recorded;
  recorded.recorded = {{1000, 0.002}};
  CHECK(to_seconds(recorded.draw(random, 3000)) == Approx(0.006));
}

TEST_CASE("an inequality is computed as arithmetic is", "[bench][unit]") {
  const Json runs = {{"off", {{"tps", 100.0}, {"refused", Json::object()}}},
                     {"a", {{"tps", 99.0}, {"t", {{"1:sim", {{"read", 8}}}}}}}};
  const auto held = [&](const std::string& text) {
    const auto verdict = evaluate(text, runs);
    INFO(text << ": " << (verdict ? "" : verdict.error().detail));
    REQUIRE(verdict);
    return verdict->held;
  };
  CHECK(held("a.tps >= 0.98 * off.tps"));
  CHECK_FALSE(held("a.tps >= off.tps"));
  CHECK(held("1 + 2 * 3 - 4 / 2 == 5"));
  CHECK(held("(1 + 2) * 3 == 9"));
  CHECK(held("a.t.1:sim.read == 8"));
  CHECK(held("max(a.tps, off.tps, 3) == 100"));
  CHECK(held("min(a.tps, off.tps) == 99"));
  CHECK(held("off.refused.payoff == 0"));
  CHECK(held("-1 < 0"));
}

TEST_CASE("an inequality that cannot be computed names what is wrong", "[bench][unit]") {
  const Json runs = {{"off", {{"tps", 100.0}}}};
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"off.nothing > 1", "there is no figure off.nothing"},
           {"other.tps > 1", "there is no figure other.tps"},
           {"off > 1", "off is not a number"},
           {"off.tps", "no comparison"},
           {"off.tps > ", "an unexpected end"},
           {"off.tps > 1 2", "something behind"},
           {"1 / 0 > 1", "a division by zero"},
           {"(1 > 2", "a missing )"}}) {
    const auto verdict = evaluate(text, runs);
    REQUIRE_FALSE(verdict);
    INFO(verdict.error().detail);
    CHECK(verdict.error().detail.find(part) != std::string::npos);
  }
}
