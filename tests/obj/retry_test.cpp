// How much a store that fails is asked: the budget of retries and the breaker.
#include "kv_offload/tests/support/tier_obj_fixture.hpp"

#include <cerrno>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
using FaultKind = bench::ServerFaultKind;
using test::becomes_true;
using test::ObjFixture;
using test::tier_keys;

TEST_CASE("retries stay within what was saved up and what went well", "[obj][io]") {
  ObjFixture f;
  f.config.breaker.failures = 0;
  f.config.retry.attempts = 100;
  f.config.retry.budget_burst = 10;
  f.config.retry.budget_share = 0.5;
  f.start();  // three calls that go well; the budget is full already
  const auto fault =
      f.server.faults().add({.method = "GET", .kind = FaultKind::status, .argument = 500});
  for (int i = 0; i < 20; ++i) CHECK_FALSE(f.load(tier_keys(1, 1)).success);
  CHECK(f.metric("kv_offload_obj_retries_total") == 10);
  CHECK(f.server.faults().hits(fault) == 30);  // 20 first attempts, 10 more
  CHECK(f.metric("kv_offload_obj_retries_denied_total") == 20);
  f.server.faults().clear();
  f.store_named(1, 8);  // fills it by 4
  f.server.faults().add({.method = "GET", .kind = FaultKind::status, .argument = 500});
  for (int i = 0; i < 20; ++i) CHECK_FALSE(f.load(tier_keys(1, 1)).success);
  CHECK(f.metric("kv_offload_obj_retries_total") == 14);
}

TEST_CASE("one call has at most its attempts", "[obj][io]") {
  ObjFixture f;
  f.config.breaker.failures = 0;
  f.config.retry.attempts = 3;
  f.start();
  const auto fault =
      f.server.faults().add({.method = "GET", .kind = FaultKind::status, .argument = 503});
  CHECK(f.load(tier_keys(1, 1)).error_number == EAGAIN);
  CHECK(f.server.faults().hits(fault) == 3);
  CHECK(f.metric("kv_offload_obj_retries_denied_total") == 0);
}

TEST_CASE("a store that fails in a row is asked no more, then once, then again as ever",
          "[obj][io]") {
  ObjFixture f;
  f.config.retry.attempts = 1;
  f.config.breaker = {.failures = 3, .open = 10min, .open_max = 1h};
  f.start();
  f.store_named(1, 1);
  const auto rule = f.server.faults().add({.kind = FaultKind::status, .argument = 500});
  for (int i = 0; i < 3; ++i) {
    CHECK(f.metric("kv_offload_obj_breaker_open") == 0);
    CHECK_FALSE(f.load(tier_keys(1, 1), 8).success);
  }
  CHECK(f.metric("kv_offload_obj_breaker_open") == 1);
  CHECK(f.metric("kv_offload_obj_breaker_opened_total") == 1);

  // Open: everybody is answered at once, and nothing is sent.
  auto seen = f.server.counts().requests();
  CHECK(f.load(tier_keys(1, 1), 8).error_number == EREMOTEIO);  // of what opened it
  CHECK(f.log().find("the store does not work: server_error, HTTP 500") != std::string::npos);
  CHECK(f.log().find("works again") == std::string::npos);
  CHECK_FALSE(f.store(tier_keys(2, 3)).success);
  CHECK(f.probe(tier_keys(20, 5)) == std::vector(5, LookupResult::retry));
  CHECK(f.server.counts().requests() == seen);
  CHECK(f.answers("breaker_open") == 1 + 3 + 5);

  // Half open: one request goes out, and while it is away nobody else does.
  f.server.faults().remove(rule);
  auto hang = f.server.faults().add({.method = "GET", .kind = FaultKind::hang});
  f.ahead = 11min;
  const JobId first = f.submit(f.job(true, tier_keys(1, 1), 8));
  REQUIRE(becomes_true([&] { return f.server.faults().hits(hang) == 1; }));
  CHECK_FALSE(f.load(tier_keys(1, 1), 9).success);
  CHECK(f.probe(tier_keys(20, 5)) == std::vector(5, LookupResult::retry));
  CHECK(f.server.counts().requests() == seen + 1);
  f.server.faults().clear();
  CHECK(f.end_of(first).success);
  CHECK(f.memory.holds(8, 1));

  // Closed.
  CHECK(f.metric("kv_offload_obj_breaker_open") == 0);
  CHECK(f.load(tier_keys(1, 1), 9).success);
  CHECK(f.probe(tier_keys(20, 1)) == std::vector{LookupResult::miss});
  CHECK(f.metric("kv_offload_obj_breaker_opened_total") == 1);
}

TEST_CASE("a store that fails the one request is left alone for twice as long", "[obj][io]") {
  ObjFixture f;
  f.config.retry.attempts = 1;
  f.config.breaker = {.failures = 2, .open = 10min, .open_max = 15min};
  f.start();
  const auto rule = f.server.faults().add({.kind = FaultKind::status, .argument = 500});
  const auto asked = [&] {
    const auto before = f.server.faults().hits(rule);
    CHECK_FALSE(f.load(tier_keys(1, 1)).success);
    return f.server.faults().hits(rule) - before;
  };
  CHECK(asked() == 1);
  CHECK(asked() == 1);
  CHECK(asked() == 0);
  f.ahead = 11min;
  CHECK(asked() == 1);  // half open, fails, open for 15 minutes: twice as long, but for the most
  CHECK(asked() == 0);
  f.ahead = 11min + 14min;
  CHECK(asked() == 0);
  f.ahead = 11min + 16min;
  CHECK(asked() == 1);
  CHECK(f.metric("kv_offload_obj_breaker_opened_total") == 3);
}

TEST_CASE("throttling, refusals and misses say that the store works", "[obj][io]") {
  ObjFixture f;
  f.config.retry.attempts = 1;
  f.config.breaker.failures = 2;
  f.start();
  const int status = GENERATE(429, 503, 403, 404);
  f.server.faults().add({.kind = FaultKind::status, .argument = status});
  for (std::uint64_t i = 0; i < 10; ++i) f.load(tier_keys(i, 1));
  CHECK(f.metric("kv_offload_obj_breaker_opened_total") == 0);
  CHECK(f.answers("breaker_open") == 0);
}

TEST_CASE("failures that are not in a row open nothing", "[obj][io]") {
  ObjFixture f;
  f.config.retry.attempts = 1;
  f.config.breaker.failures = 3;
  f.start();
  f.store_named(1, 1);
  for (int i = 0; i < 5; ++i) {
    f.server.faults().add(
        {.method = "GET", .kind = FaultKind::status, .argument = 500, .times = 2});
    CHECK_FALSE(f.load(tier_keys(1, 1), 8).success);
    CHECK_FALSE(f.load(tier_keys(1, 1), 8).success);
    CHECK(f.load(tier_keys(1, 1), 8).success);
  }
  CHECK(f.metric("kv_offload_obj_breaker_opened_total") == 0);
}

}  // namespace
}  // namespace kv_offload
