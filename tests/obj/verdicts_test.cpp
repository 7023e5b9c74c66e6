// What the tier remembers of keys, for how long, and what corrects it.
#include "kv_offload/tests/support/tier_obj_fixture.hpp"

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
using FaultKind = bench::ServerFaultKind;
using test::becomes_true;
using test::ObjFixture;
using test::tier_key;
using test::tier_keys;
using Verdicts = std::vector<LookupResult>;
constexpr auto kHit = LookupResult::hit;
constexpr auto kMiss = LookupResult::miss;
constexpr auto kRetry = LookupResult::retry;

TEST_CASE("an empty bucket is a miss", "[obj][io]") {
  ObjFixture f;
  f.start();
  CHECK(f.probe(tier_keys(0, 40)) == Verdicts(40, kMiss));
  CHECK(f.requests("head") == 40);
  CHECK(f.tier->stats().probes == 40);
}

TEST_CASE("what was seen to be there is believed for its time", "[obj][io]") {
  ObjFixture f;
  f.config.positive_ttl = 60s;
  f.start();
  f.store_named(1, 1);
  f.start();
  CHECK(f.probe(tier_keys(1, 1)) == Verdicts{kHit});
  CHECK(f.requests("head") == 1);
  f.server.remove(f.object_of(tier_key(1)));
  f.ahead = 55s;
  CHECK(f.probe(tier_keys(1, 1)) == Verdicts{kHit});
  CHECK(f.requests("head") == 1);
  CHECK(f.metric("kv_offload_obj_cached_verdicts_total") == 1);
  f.ahead = 61s;
  CHECK(f.probe(tier_keys(1, 1)) == Verdicts{kMiss});
  CHECK(f.requests("head") == 2);
}

TEST_CASE("what was seen to be missing is believed for its time", "[obj][io]") {
  ObjFixture f;
  f.config.negative_ttl = 60s;
  f.start();
  CHECK(f.probe(tier_keys(1, 2)) == Verdicts(2, kMiss));
  // Another engine stores one of them.
  f.server.put(f.object_of(tier_key(1)), std::string(64 << 10, 'x'),
               {{kDigestHeader, "1:xxh3-128:" + std::string(32, 'a')}});
  CHECK(f.probe(tier_keys(1, 2)) == Verdicts(2, kMiss));
  CHECK(f.requests("head") == 2);
  f.ahead = 61s;
  CHECK(f.probe(tier_keys(1, 2)) == Verdicts{kHit, kMiss});
  CHECK(f.requests("head") == 4);
}

TEST_CASE("own stores and failed loads correct at once what was believed", "[obj][io]") {
  ObjFixture f;
  f.config.negative_ttl = 60s;
  f.start();
  CHECK(f.probe(tier_keys(1, 1)) == Verdicts{kMiss});
  f.store_named(1, 1);
  CHECK(f.probe(tier_keys(1, 1)) == Verdicts{kHit});
  f.server.remove(f.object_of(tier_key(1)));
  CHECK(f.probe(tier_keys(1, 1)) == Verdicts{kHit});
  const JobResult lost = f.load(tier_keys(1, 1), 8);
  CHECK(lost.failure == TransferFailure::not_found);
  CHECK(f.probe(tier_keys(1, 1)) == Verdicts{kMiss});
  CHECK(f.requests("head") == 1);  // the first one
  CHECK(f.store(tier_keys(1, 1)).fates == std::vector{KeyFate::done});
  CHECK(f.load(tier_keys(1, 1), 8).success);
}

TEST_CASE("a load that failed for whatever reason is no sighting any more", "[obj][io]") {
  ObjFixture f;
  f.config.retry.attempts = 1;
  f.start();
  f.store_named(1, 1);
  const auto rule = f.server.faults().add({.method = "GET", .kind = FaultKind::status, .argument = 500});
  CHECK_FALSE(f.load(tier_keys(1, 1)).success);
  f.server.faults().remove(rule);
  const double heads = f.requests("head");
  CHECK(f.probe(tier_keys(1, 1)) == Verdicts{kHit});
  CHECK(f.requests("head") == heads + 1);
}

TEST_CASE("a load that went well is a sighting", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 1);
  f.start();
  CHECK(f.load(tier_keys(1, 1), 8).success);
  CHECK(f.probe(tier_keys(1, 1)) == Verdicts{kHit});
  CHECK(f.requests("head") == 0);
}

TEST_CASE("a store that failed leaves nothing to believe", "[obj][io]") {
  ObjFixture f;
  f.config.retry.attempts = 1;
  f.config.negative_ttl = 60s;
  f.start();
  CHECK(f.probe(tier_keys(1, 1)) == Verdicts{kMiss});
  // It arrives, and the answer is lost.
  f.server.faults().add({.method = "PUT", .kind = FaultKind::garbage, .times = 1});
  CHECK_FALSE(f.store(tier_keys(1, 1)).success);
  f.probe(tier_keys(1, 1));
  CHECK(f.requests("head") == 2);
}

TEST_CASE("a key whose store is on its way has no answer yet", "[obj][io]") {
  ObjFixture f;
  f.start();
  const auto hang = f.server.faults().add({.method = "PUT", .kind = FaultKind::hang});
  const JobId store = f.submit(f.job(false, tier_keys(1, 1)));
  REQUIRE(becomes_true([&] { return f.server.faults().hits(hang) == 1; }));
  CHECK(f.probe(tier_keys(1, 2)) == Verdicts{kRetry, kMiss});
  f.server.faults().clear();
  CHECK(f.end_of(store).success);
  CHECK(f.probe(tier_keys(1, 2)) == Verdicts{kHit, kMiss});
}

TEST_CASE("many who ask for one key cause one request", "[obj][io]") {
  ObjFixture f;
  f.config.probe_timeout = 20s;
  f.start();
  f.store_named(1, 1);
  f.start();
  f.server.faults().add({.method = "HEAD", .kind = FaultKind::hang});
  std::vector<ProbeId> probes;
  for (int i = 0; i < 5; ++i)
    probes.push_back(f.begin_probe({tier_key(1), tier_key(2), tier_key(1)}));
  REQUIRE(becomes_true([&] { return f.tier->stats().probes == 15; }));
  f.server.faults().clear();
  for (const ProbeId id : probes) CHECK(f.end_of_probe(id) == Verdicts{kHit, kMiss, kHit});
  CHECK(f.requests("head") == 2);
}

TEST_CASE("what is remembered is bounded, the oldest goes first", "[obj][io]") {
  ObjFixture f;
  f.config.verdicts_max = 4;
  f.start();
  f.store_in_order(1, 8);
  CHECK(f.probe(tier_keys(5, 4)) == Verdicts(4, kHit));
  CHECK(f.requests("head") == 0);
  CHECK(f.probe(tier_keys(1, 2)) == Verdicts(2, kHit));
  CHECK(f.requests("head") == 2);
}

}  // namespace
}  // namespace kv_offload
