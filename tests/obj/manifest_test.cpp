// Probes answered from a listing of the bucket.
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

/// A tier with a manifest on what is in the bucket, listed once.
void start_with_manifest(ObjFixture& f, Duration refresh = 1h) {
  f.config.existence = ObjExistence::manifest;
  f.config.manifest_refresh = refresh;
  f.start();
  REQUIRE(becomes_true([&] { return f.log().find("are known") != std::string::npos; }));
}
/// As another engine would: an object that probes find.
void put_by_another(ObjFixture& f, std::uint64_t name) {
  f.server.put(f.object_of(tier_key(name)), std::string(64 << 10, 'x'),
               {{kDigestHeader, "1:xxh3-128:" + std::string(32, 'a')}});
}

TEST_CASE("a manifest answers yes and no without a request", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 3);
  start_with_manifest(f);
  CHECK(f.probe(tier_keys(1, 5)) == Verdicts{kHit, kHit, kHit, kMiss, kMiss});
  CHECK(f.requests("head") == 0);
  CHECK(f.metric("kv_offload_obj_known_objects") == 3);
  CHECK(f.metric("kv_offload_obj_known_bytes") == 3 * (64 << 10));
  CHECK(f.metric("kv_offload_obj_listed_objects_total") == 3);
  // Own stores are in it at once.
  f.memory.fill(0, 4);
  CHECK(f.store(tier_keys(4, 1)).success);
  CHECK(f.probe(tier_keys(1, 5)) == Verdicts{kHit, kHit, kHit, kHit, kMiss});
  CHECK(f.requests("head") == 0);
}

TEST_CASE("a manifest is renewed, and sees what other engines store and remove", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 1);
  start_with_manifest(f, 100ms);
  put_by_another(f, 2);
  CHECK(becomes_true([&] { return f.probe(tier_keys(1, 2)) == Verdicts{kHit, kHit}; }));
  f.server.remove(f.object_of(tier_key(1)));
  CHECK(becomes_true([&] { return f.probe(tier_keys(1, 2)) == Verdicts{kMiss, kHit}; }));
  CHECK(f.requests("head") == 0);
}

TEST_CASE("a load that finds nothing corrects the manifest", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 2);
  start_with_manifest(f);
  f.server.remove(f.object_of(tier_key(1)));
  CHECK(f.load(tier_keys(1, 1), 8).failure == TransferFailure::not_found);
  CHECK(f.probe(tier_keys(1, 2)) == Verdicts{kMiss, kHit});
  CHECK(f.requests("head") == 0);
}

TEST_CASE("beyond its bound a manifest knows nothing: others are asked for", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 5);
  f.config.manifest_keys_max = 2;
  start_with_manifest(f);
  CHECK(f.metric("kv_offload_obj_known_objects") == 2);
  CHECK(f.probe(tier_keys(1, 5)) == Verdicts(5, kHit));
  CHECK(f.requests("head") == 3);
  CHECK(f.probe(tier_keys(50, 1)) == Verdicts{kMiss});
  CHECK(f.requests("head") == 4);
  CHECK(f.log().find("more than manifest_keys_max") != std::string::npos);
}

TEST_CASE("a manifest of several pages is whole", "[obj][io]") {
  ObjFixture f;
  for (std::uint64_t name = 0; name < 1500; ++name)
    f.server.put(f.object_of(tier_key(name)), std::string(64 << 10, 'x'));
  f.server.put(f.config.prefix + "/something/else", "not ours");
  start_with_manifest(f);
  CHECK(f.server.counts().lists == 2);
  CHECK(f.metric("kv_offload_obj_known_objects") == 1500);
  CHECK(f.probe(tier_keys(0, 1501)) == [] {
    Verdicts all(1501, kHit);
    all.back() = kMiss;
    return all;
  }());
  CHECK(f.requests("head") == 0);
}

TEST_CASE("a manifest that could not be renewed is believed no longer than twice its time",
          "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 1);
  start_with_manifest(f, 10min);
  CHECK(f.probe(tier_keys(1, 2)) == Verdicts{kHit, kMiss});
  CHECK(f.requests("head") == 0);
  f.ahead = 21min;
  CHECK(f.probe(tier_keys(1, 2)) == Verdicts{kHit, kMiss});
  CHECK(f.requests("head") == 2);
}

TEST_CASE("an object of another length is none, whatever a listing says", "[obj][io]") {
  ObjFixture f;
  f.server.put(f.object_of(tier_key(1)), "short");
  start_with_manifest(f);
  CHECK(f.probe(tier_keys(1, 1)) == Verdicts{kMiss});
}

TEST_CASE("without a listing every key is asked for, and the next listing is taken", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 1);
  f.config.existence = ObjExistence::manifest;
  f.config.manifest_refresh = 100ms;
  const std::string what = GENERATE(as<std::string>{}, "garbage", "denied");
  const auto rule =
      f.server.faults().add({.method = "GET",
                             .key_contains = "list-type",
                             .kind = what == "garbage" ? FaultKind::xml_garbage : FaultKind::status,
                             .argument = what == "garbage" ? 200 : 403,
                             .times = 1});
  f.start();
  CHECK(f.probe(tier_keys(1, 2)) == Verdicts{kHit, kMiss});
  CHECK(f.requests("head") == 2);
  CHECK(f.server.faults().hits(rule) == 1);
  REQUIRE(becomes_true([&] { return f.log().find("could not be listed") != std::string::npos; }));
  REQUIRE(
      becomes_true([&] { return f.log().find("are known") != std::string::npos; }));  // after 5 s
  CHECK(f.probe(tier_keys(9, 1)) == Verdicts{kMiss});
  CHECK(f.requests("head") == 2);
}

}  // namespace
}  // namespace kv_offload
