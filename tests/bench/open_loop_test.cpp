#include "kv_offload/bench/open_loop.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <set>
#include <vector>

using namespace kv_offload;
using namespace kv_offload::bench;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

std::vector<Duration> arrivals_of(const ArrivalPlan& plan, std::uint32_t caller) {
  std::vector<Duration> all;
  for (ArrivalSchedule schedule(plan, caller); schedule.left() > 0;) all.push_back(schedule.next());
  return all;
}

/// One caller, a request each millisecond from 0.5 ms on, in time that only moves when somebody works or sleeps.
struct Bench {
  explicit Bench(double rate_per_s = 1000, Duration run = milliseconds(100))
      : plan{rate_per_s, run, ArrivalSpacing::even} {}

  /// `work_us(n)` is how long the n-th request takes.
  template <class F>
  RequestTimes serve(
      F work_us, const std::function<bool()>& stopped = [] { return false; }) {
    OpenLoop loop(ArrivalSchedule(plan, 0),
                  {[this] { return now; }, [this](MonotonicTime until) { now = until; }});
    int served = 0;
    loop.run(
        now, plan.run, [&](MonotonicTime) { now += microseconds(work_us(served++)); }, stopped);
    return loop.times();
  }

  ArrivalPlan plan;
  MonotonicTime now{seconds(1000)};
};

}  // namespace

TEST_CASE("arrivals are as many as the rate says, in order, within the run, and the seed's alone",
          "[bench][unit]") {
  const auto spacing = GENERATE(ArrivalSpacing::poisson, ArrivalSpacing::even);
  const ArrivalPlan plan{1000, seconds(2), spacing, 3, 7};
  std::vector<Duration> all;
  for (std::uint32_t caller = 0; caller < 3; ++caller) {
    const auto mine = arrivals_of(plan, caller);
    CHECK(std::is_sorted(mine.begin(), mine.end()));
    CHECK(mine == arrivals_of(plan, caller));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  REQUIRE(all.size() == 2000);
  std::sort(all.begin(), all.end());
  CHECK(all.front() >= Duration::zero());
  CHECK(all.back() < seconds(2));
  // Half of them in the first half, within four standard deviations (sqrt(2000)/2 = 22).
  const auto early =
      std::count_if(all.begin(), all.end(), [](Duration d) { return d < seconds(1); });
  CHECK(early > 1000 - 90);
  CHECK(early < 1000 + 90);
  std::set<Duration> gaps;
  for (std::size_t i = 1; i < all.size(); ++i) gaps.insert(all[i] - all[i - 1]);
  if (spacing == ArrivalSpacing::even) {
    CHECK(*gaps.rbegin() - *gaps.begin() < microseconds(1));
  } else {
    CHECK(*gaps.begin() <
          microseconds(50));  // of 1999 gaps of 1 ms in the mean the least and the most
    CHECK(*gaps.rbegin() > milliseconds(3));
    auto other = plan;
    other.seed = 8;
    CHECK(arrivals_of(plan, 0) != arrivals_of(other, 0));
    CHECK(arrivals_of(plan, 0) != arrivals_of(plan, 1));
  }
}

TEST_CASE("a rate below one arrival a run is one arrival, and callers without any have none",
          "[bench][unit]") {
  const ArrivalPlan plan{0.001, seconds(1), ArrivalSpacing::poisson, 2, 1};
  CHECK(arrivals_of(plan, 0).size() == 1);
  CHECK(arrivals_of(plan, 1).empty());
}

TEST_CASE("one slow answer is felt by all that arrive behind it, and its own time alone is service",
          "[bench][unit]") {
  Bench bench;
  const auto times = bench.serve([](int n) { return n == 10 ? 20'000 : 10; });
  CHECK(times.scheduled == 100);
  CHECK(times.not_begun == 0);
  CHECK(times.service.count() == 100);
  // 20 ms of one request; the others took 10 us however long they had waited.
  CHECK(times.service.max_us() == 20'000);
  CHECK(times.service.quantile_us(0.98) == Approx(10).epsilon(0.035));
  // The next one arrived 1 ms after the slow one and waited 19 ms, the one behind it 18.01 …
  CHECK(times.late == 20);
  CHECK(times.behind_max == milliseconds(19));
  CHECK(times.from_arrival.count() == 100);
  CHECK(times.from_arrival.quantile_us(0.75) == Approx(10).epsilon(0.035));
  CHECK(times.from_arrival.quantile_us(0.90) > 9'000);
}

TEST_CASE("what cannot be kept is late, and what never began is counted with its wait",
          "[bench][unit]") {
  Bench bench;  // 100 arrivals of 1 ms, each takes 4 ms: 25 begin
  const auto times = bench.serve([](int) { return 4'000; });
  CHECK(times.service.count() == 25);
  CHECK(times.scheduled == 100);
  CHECK(times.not_begun == 75);
  CHECK(times.late == 99);  // all but the first
  // The 26th arrived at 25.5 ms; at 100.5 ms the run was over.
  CHECK(times.behind_max == milliseconds(75));
  CHECK(times.from_arrival.max_us() == Approx(76'000).epsilon(0.01));
  CHECK(times.service.max_us() == 4'000);
}

TEST_CASE("a loop without arrivals for long sees that it is stopped", "[bench][unit]") {
  Bench bench(0.5, seconds(100));  // the first one after a second
  const auto begun = bench.now;
  const auto times =
      bench.serve([](int) { return 0; }, [&] { return bench.now > begun + milliseconds(200); });
  CHECK(times.service.count() == 0);
  CHECK(times.not_begun == 50);
  CHECK(bench.now < begun + milliseconds(300));
}

TEST_CASE("request times of several callers add up", "[bench][unit]") {
  Bench one, other;
  auto times = one.serve([](int) { return 4'000; });
  times.merge(other.serve([](int) { return 10; }));
  CHECK(times.scheduled == 200);
  CHECK(times.late == 99);
  CHECK(times.not_begun == 75);
  CHECK(times.behind_max == milliseconds(75));
  CHECK(times.service.count() == 125);
  CHECK(times.from_arrival.count() == 125);
}
