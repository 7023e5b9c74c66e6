#include "kv_offload/tiers/obj/s3_retry.hpp"

#include <catch2/catch.hpp>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;

TEST_CASE("the wait before an attempt is drawn below base times a power of two", "[obj]") {
  S3RetryOptions options;
  options.base = 50ms;
  options.max = 2s;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    S3Retry retry(options, seed);
    for (std::uint32_t made = 1; made <= 40; ++made) {
      const Duration most = std::min<Duration>(2s, made > 6 ? 2s : 50ms * (1 << (made - 1)));
      for (int i = 0; i < 20; ++i) {
        const Duration wait = retry.wait_after(made);
        CHECK(wait > Duration::zero());
        CHECK(wait <= most);
      }
    }
  }
}

TEST_CASE("waits use the whole of their range", "[obj]") {
  S3RetryOptions options;
  options.base = 100ms;
  S3Retry retry(options, 7);
  Duration least = 1h;
  Duration most{};
  Duration sum{};
  constexpr int kDraws = 2000;
  for (int i = 0; i < kDraws; ++i) {
    const Duration wait = retry.wait_after(1);
    least = std::min(least, wait);
    most = std::max(most, wait);
    sum += wait;
  }
  // Of 2000 draws from (0, 100 ms] with a fixed seed: ends within 1 ms, mean within 2 ms.
  CHECK(least < 1ms);
  CHECK(most > 99ms);
  CHECK(sum / kDraws > 48ms);
  CHECK(sum / kDraws < 52ms);
}

TEST_CASE("engines with other seeds wait otherwise, with the same seed alike", "[obj]") {
  S3Retry one({}, 1);
  S3Retry same({}, 1);
  S3Retry other({}, 2);
  int equal = 0;
  for (std::uint32_t i = 0; i < 50; ++i) {
    const Duration wait = one.wait_after(3);
    CHECK(same.wait_after(3) == wait);
    equal += other.wait_after(3) == wait ? 1 : 0;
  }
  CHECK(equal == 0);
}

TEST_CASE("attempts are counted with the first", "[obj]") {
  S3RetryOptions options;
  options.attempts = 3;
  S3Retry retry(options, 1);
  CHECK(retry.has_attempt(1));
  CHECK(retry.has_attempt(2));
  CHECK_FALSE(retry.has_attempt(3));
  options.attempts = 1;
  CHECK_FALSE(S3Retry(options, 1).has_attempt(1));
}

TEST_CASE("the budget is what was saved up, filled by successes up to it", "[obj]") {
  S3RetryOptions options;
  options.budget_burst = 4;
  options.budget_share = 0.25;
  S3Retry retry(options, 1);
  const auto taken = [&] {
    int count = 0;
    while (retry.take()) ++count;
    return count;
  };
  CHECK(taken() == 4);
  for (int i = 0; i < 3; ++i) retry.succeeded();
  CHECK(taken() == 0);
  retry.succeeded();
  CHECK(taken() == 1);
  for (int i = 0; i < 1000; ++i) retry.succeeded();
  CHECK(taken() == 4);
  S3RetryOptions none;
  none.budget_burst = 0;
  S3Retry never(none, 1);
  for (int i = 0; i < 1000; ++i) never.succeeded();
  CHECK_FALSE(never.take());
}

TEST_CASE("a breaker opens after failures in a row, and one call decides", "[obj]") {
  S3Breaker breaker({.failures = 3, .open = 10s, .open_max = 25s});
  MonotonicTime now{};
  CHECK_FALSE(breaker.failed(now));
  CHECK_FALSE(breaker.failed(now));
  breaker.answered();
  CHECK_FALSE(breaker.failed(now));
  CHECK_FALSE(breaker.failed(now));
  CHECK(breaker.may_call(now));
  CHECK(breaker.failed(now));
  CHECK(breaker.is_open());
  CHECK_FALSE(breaker.failed(now));  // of a call that was on its way: opens nothing anew
  CHECK_FALSE(breaker.may_call(now + 9999ms));
  CHECK(breaker.may_call(now + 10s));
  CHECK_FALSE(breaker.may_call(now + 10s));
  // It fails: twice as long, up to the most.
  now += 10s;
  CHECK(breaker.failed(now));
  CHECK_FALSE(breaker.may_call(now + 19s));
  CHECK(breaker.may_call(now + 20s));
  now += 20s;
  CHECK(breaker.failed(now));
  CHECK_FALSE(breaker.may_call(now + 24s));
  CHECK(breaker.may_call(now + 25s));
  // It is given up without an answer: the next one may decide.
  breaker.abandoned();
  CHECK(breaker.may_call(now + 25s));
  breaker.answered();
  CHECK_FALSE(breaker.is_open());
  CHECK(breaker.may_call(now + 25s));
  // From the beginning again.
  for (int i = 0; i < 3; ++i) breaker.failed(now);
  CHECK_FALSE(breaker.may_call(now + 9s));
  CHECK(breaker.may_call(now + 10s));
}

TEST_CASE("a breaker of no failures never opens", "[obj]") {
  S3Breaker breaker({.failures = 0, .open = 1s, .open_max = 1s});
  for (int i = 0; i < 100; ++i) CHECK_FALSE(breaker.failed({}));
  CHECK(breaker.may_call({}));
}

}  // namespace
}  // namespace kv_offload
