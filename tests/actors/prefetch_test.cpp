#include "kv_offload/tests/support/virtual_engine.hpp"

// Prefetch: a lookup that keeps nobody waiting for what it loads.
using namespace kv_offload;
using namespace kv_offload::test;
using namespace std::chrono_literals;

namespace {

struct Prefetching {
  Prefetching() : e({}), k(keys("k", 3)) {
    e.tier().present.insert(k.begin(), k.end());
    e.tier().automatic = false;
    r = e.request();
  }
  VirtualEngine::Call<LookupAnswer> prefetch(PrefetchMode mode, Duration timeout = {}) {
    return e.lookup(r, k, lookup_options({.mode = mode, .timeout = timeout}));
  }
  void land() {
    e.tier().finish(0);
    e.run();
  }
  VirtualEngine e;
  KeyList k;
  RequestHandle r;
};

}  // namespace

TEST_CASE("best effort answers when the loads are submitted, and what lands is held until it is read", "[actor][prefetch]") {
  Prefetching f;
  const auto call = f.prefetch(PrefetchMode::best_effort);
  REQUIRE(call.answered());
  const auto answer = call.get();
  REQUIRE(answer);
  CHECK(answer->promoted == 3);
  CHECK(answer->results == std::vector(3, LookupResult::hit_pending));
  REQUIRE(f.e.tier().jobs.size() == 1);
  f.land();
  CHECK(f.e.stats().primary.held == 3);
  SECTION("read") {
    const auto plan = f.e.prepare_load(f.r, f.k);
    REQUIRE(plan);
    CHECK(plan->chunk_ids.size() == 3);
    CHECK(f.e.stats().primary.held == 0);
    REQUIRE(f.e.complete_load(plan->lease));
  }
  SECTION("never read") {
    f.e.advance(121s);
    CHECK(f.e.stats().primary.held == 0);
    CHECK(f.e.stats().primary.pins_expired_unread == 3);
  }
  REQUIRE(f.e.finish(f.r));
  f.e.require_promises();
}

TEST_CASE("best effort takes the slots there are and stands in no line", "[actor][prefetch]") {
  Prefetching f;  // sixteen slots, four of them for promotions not read yet
  const auto list = keys("m", 6);
  f.e.tier().present.insert(list.begin(), list.end());
  const auto call = f.e.lookup(f.r, list, lookup_options({}));
  REQUIRE(call.answered());
  CHECK(call.get()->promoted == 4);
  CHECK(call.get()->truncated == 2);
  f.land();
  REQUIRE(f.e.finish(f.r));
  f.e.require_promises();
}

TEST_CASE("a complete prefetch answers when all has landed or failed", "[actor][prefetch]") {
  Prefetching f;
  const bool fails = GENERATE(false, true);
  if (fails) f.e.tier().unreadable.insert(f.k[1]);
  const auto call = f.prefetch(PrefetchMode::complete);
  f.e.advance(2s);
  CHECK_FALSE(call.answered());
  f.land();
  REQUIRE(call.answered());
  CHECK(call.get()->leading_hits == (fails ? 1 : 3));
  REQUIRE(f.e.finish(f.r));
  f.e.require_promises();
}

TEST_CASE("a prefetch with a timeout answers with what has landed, and the rest goes on", "[actor][prefetch]") {
  Prefetching f;
  const auto call = f.prefetch(PrefetchMode::timeout, 2s);
  f.e.advance(1900ms);
  CHECK_FALSE(call.answered());
  SECTION("all of it") {
    f.land();
    REQUIRE(call.answered());
    CHECK(call.get()->leading_hits == 3);
  }
  SECTION("none of it") {
    f.e.advance(200ms);
    REQUIRE(call.answered());
    CHECK(call.get()->leading_hits == 0);
    CHECK(call.get()->gave_up == 3);
    f.land();
    CHECK(f.e.stats().primary.held == 3);
    CHECK(f.e.lookup(f.r, f.k).get()->leading_hits == 3);
  }
  REQUIRE(f.e.finish(f.r));
  f.e.require_promises();
}

TEST_CASE("a prefetch and the lookup after it are one load, counted once in the query metrics", "[actor][prefetch]") {
  Prefetching f;
  REQUIRE(f.prefetch(PrefetchMode::best_effort).answered());
  const auto call = f.e.lookup(f.r, f.k);
  CHECK_FALSE(call.answered());
  f.land();
  REQUIRE(call.answered());
  CHECK(call.get()->leading_hits == 3);
  const auto s = f.e.stats();
  CHECK(s.tracker.jobs_registered == 1);
  CHECK(s.scheduler.lookups[1].chunk_queries == 3);
  CHECK(s.scheduler.lookups[1].chunk_hits == 3);
  REQUIRE(f.e.finish(f.r));
  f.e.require_promises();
}

TEST_CASE("the end of its request leaves nothing of a prefetch behind", "[actor][prefetch]") {
  Prefetching f;
  REQUIRE(f.prefetch(PrefetchMode::best_effort).answered());
  REQUIRE(f.e.finish(f.r));
  f.land();
  CHECK(f.e.stats().primary.held == 0);
  CHECK(f.e.stats().primary.resident == 3);  // there for whoever comes
  f.e.require_promises();
}
