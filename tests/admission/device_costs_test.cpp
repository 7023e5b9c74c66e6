#include "kv_offload/admission/device_costs.hpp"

#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <random>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

constexpr double kGb = 1e9;

/// A device that computes 10,000 tokens a second and stands still for what two tiers move.
struct Device {
  double written_s_per_gb[2] = {0, 0}, read_s_per_gb[2] = {0, 0}, probed = 0;
  double second = 0;

  ComputeSample compute(std::uint64_t tokens, std::vector<TierTraffic> moved = {{}, {}},
                        double rest_s = 0, std::uint32_t live = 4) {
    double took = static_cast<double>(tokens) / 10000;
    for (std::size_t t = 0; t < moved.size(); ++t)
      took += written_s_per_gb[t] * static_cast<double>(moved[t].written_bytes) / kGb +
              read_s_per_gb[t] * static_cast<double>(moved[t].read_bytes) / kGb +
              probed * moved[t].probe_s;
    second += took + rest_s;
    ComputeSample sample;
    sample.alone = true;
    sample.tokens = tokens;
    sample.busy = from_seconds(took);
    sample.live = live;
    for (const auto& tier : moved)
      sample.alone = sample.alone && tier.read_bytes + tier.written_bytes == 0;
    sample.moved = std::move(moved);
    return sample;
  }
};

std::uint64_t gb(double n) { return static_cast<std::uint64_t>(n * kGb); }

}  // namespace

TEST_CASE("what transfers take from the device is told apart", "[admission][unit]") {
  Device device;
  device.written_s_per_gb[0] = 0.2;
  device.read_s_per_gb[1] = 1.5;
  device.probed = 0.5;
  DeviceCosts costs(2, 0);
  std::mt19937 random(GENERATE(1, 2, 3));
  std::uniform_real_distribution<double> some(0, 1);
  for (int n = 0; n < 400; ++n) {
    std::vector<TierTraffic> moved(2);
    moved[0].written_bytes = gb(some(random));
    moved[1].read_bytes = gb(0.3 * some(random));
    moved[1].written_bytes = gb(some(random));  // costs nothing
    moved[0].probe_s = moved[1].probe_s = 0.1 * some(random);
    costs.add(device.compute(1000 + static_cast<std::uint64_t>(8000 * some(random)), moved),
              at(device.second));
  }
  CHECK(costs.token_s() == Approx(1e-4).epsilon(0.02));
  CHECK(costs.written_s_per_byte(0) * kGb == Approx(0.2).epsilon(0.05));
  CHECK(costs.read_s_per_byte(1) * kGb == Approx(1.5).epsilon(0.05));
  CHECK(costs.written_s_per_byte(1) == 0);
  CHECK(costs.read_s_per_byte(0) == 0);
  CHECK(costs.probed_s_per_s(1) == Approx(0.5).epsilon(0.2));
}

TEST_CASE(
    "everything that is computed being stored does not hide what storing takes, once the device "
    "was seen alone",
    "[admission][unit]") {
  const bool configured = GENERATE(false, true);
  Device device;
  device.written_s_per_gb[0] = 0.3;
  DeviceCosts costs(2, configured ? 10000 : 0);
  for (int n = 0; n < 4; ++n) costs.add(device.compute(4000), at(device.second));
  for (int n = 0; n < 100; ++n) {
    const auto tokens = static_cast<std::uint64_t>(4000 + 13 * n);
    costs.add(device.compute(tokens, {{0, tokens * 100'000, 0}, {}}), at(device.second));
  }
  CHECK(costs.token_s() == Approx(1e-4).epsilon(0.02));
  CHECK(costs.written_s_per_byte(0) * kGb == Approx(0.3).epsilon(0.05));
}

TEST_CASE("a cost that does not show is none", "[admission][unit]") {
  Device device;
  device.written_s_per_gb[0] = 0.01;  // a thousandth of the time
  DeviceCosts costs(2, 10000);
  for (int n = 0; n < 100; ++n)
    costs.add(device.compute(10000, {{0, gb(0.1), 0}, {}}), at(device.second));
  CHECK(costs.written_s_per_byte(0) == 0);
}

TEST_CASE(
    "nothing is known before a few windows, and samples of no length belong to the one before",
    "[admission][unit]") {
  Device device;
  DeviceCosts costs(2, 0);
  CHECK_FALSE(costs.knows_speed());
  for (int n = 0; n < 10; ++n) {
    ComputeSample sample = device.compute(8000);
    sample.tokens = 2000;  // its first store; the others come in the same moment
    costs.add(sample, at(device.second));
    sample.tokens = 3000;
    sample.busy = {};
    costs.add(sample, at(device.second));
    costs.add(sample, at(device.second));
  }
  CHECK(costs.token_s() == Approx(1e-4));
}

TEST_CASE("a second saved is worth less where the device rests", "[admission][unit]") {
  Device busy, resting;
  DeviceCosts a(2, 10000), b(2, 10000);
  for (int n = 0; n < 300; ++n) {
    a.add(busy.compute(5000), at(busy.second));
    b.add(resting.compute(5000, {{}, {}}, 0.5, 10), at(resting.second));
  }
  CHECK(a.saved_second() == Approx(1).epsilon(0.01));
  CHECK(b.saved_second() == Approx(1 / (10 * 0.5 * 0.5)).epsilon(0.05));
}
