#include "kv_offload/admission/busy_rate.hpp"

#include "kv_offload/tests/admission/admission_fixture.hpp"

#include <catch2/catch.hpp>

using namespace kv_offload;
using namespace kv_offload::test;

TEST_CASE("a rate is of the time in which something was under way", "[admission][unit]") {
  BusyRate rate(4);
  CHECK(rate.rate(at(0)) == 0);
  for (int n = 0; n < 40; ++n) {
    rate.begin(1, at(10 * n));
    rate.end(1, 500, at(10 * n + 1));  // and nine seconds of nothing
  }
  CHECK(rate.rate(at(400)) == Approx(500).epsilon(0.1));
  CHECK(rate.busy_s(at(400)) == Approx(40));
  CHECK(rate.rate(at(100'000)) == rate.rate(at(400)));  // idle time does not fade it
}

TEST_CASE("a rate halves with each half life in which nothing ends", "[admission][unit]") {
  const double half_life = GENERATE(0.5, 4.0, 60.0);
  BusyRate rate(half_life);
  rate.begin(1, at(0));
  for (int n = 1; n <= 1000; ++n) {
    rate.end(1, 100, at(n * half_life / 10));
    rate.begin(1, at(n * half_life / 10));
  }
  const double last = 100 * half_life, before = rate.rate(at(last));
  CHECK(before == Approx(1000 / half_life).epsilon(0.05));
  CHECK(rate.rate(at(last + half_life)) == Approx(before / 2));
  CHECK(rate.rate(at(last + 3 * half_life)) == Approx(before / 8));
}

TEST_CASE("a rate that is asked a thousand times, or of the past, is the same",
          "[admission][unit]") {
  BusyRate rate(4);
  rate.begin(3, at(1));
  rate.end(1, 100, at(2));
  const auto before = bytes_of(rate);
  for (int i = 0; i < 1000; ++i) (void)rate.rate(at(i));
  CHECK(bytes_of(rate) == before);
  CHECK(rate.rate(at(0)) == rate.rate(at(2)));
  rate.end(9, 0, at(3));  // more than there was
  CHECK(rate.under_way() == 0);
}
