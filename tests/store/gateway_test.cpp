#include "kv_offload/tests/store/gateway_fixture.hpp"

using namespace kv_offload;
using namespace kv_offload::test;

TEST_CASE("chunks go to a real store and come back", "[store]") {
  GatewayFixture f({.num_chunks = 32, .row_bytes = 1 << 20});
  f.start();
  f.store_named(1, 16);
  CHECK(f.answers("none") >= 16);
  f.start();  // knows nothing
  auto keys = tier_keys(1, 17);
  auto expected = std::vector<LookupResult>(16, LookupResult::hit);
  expected.push_back(LookupResult::miss);
  CHECK(f.probe(keys) == expected);
  keys.pop_back();
  for (ChunkId i = 16; i < 32; ++i) f.memory.clear(i);
  CHECK(f.load(keys, 16).success);
  for (ChunkId i = 0; i < 16; ++i) CHECK(f.memory.holds(16 + i, 1 + i));
  CHECK(f.memory.uses() == 0);
  CHECK(f.forget(keys) == 16);
  CHECK(f.probe(keys) == std::vector<LookupResult>(16, LookupResult::miss));
}

TEST_CASE("a key that is not there is a miss and a failed load, nothing else", "[store]") {
  GatewayFixture f;
  f.start();
  const JobResult result = f.load({tier_key(1)});
  CHECK_FALSE(result.success);
  CHECK(result.failure == TransferFailure::not_found);
  CHECK(f.answers("not_found") >= 1);
}

TEST_CASE("a listing of many pages finds everything again", "[store]") {
  GatewayFixture f({.num_chunks = 64, .row_bytes = 4096});
  f.start();
  const std::uint64_t count = 1100;  // a page has 1000
  for (std::uint64_t first = 0; first < count; first += 60)
    f.store_named(first, static_cast<ChunkId>(std::min<std::uint64_t>(60, count - first)));
  f.config.existence = ObjExistence::manifest;
  f.start();
  // The listing runs beside everything else.
  for (int i = 0; i < 500 && f.metric("kv_offload_obj_known_objects") < static_cast<double>(count); ++i)
    ::usleep(20'000);
  CHECK(f.metric("kv_offload_obj_known_objects") == static_cast<double>(count));
  const double heads = f.requests("head");
  CHECK(f.probe(tier_keys(0, 60)) == std::vector<LookupResult>(60, LookupResult::hit));
  CHECK(f.probe(tier_keys(count, 60)) == std::vector<LookupResult>(60, LookupResult::miss));
  CHECK(f.requests("head") == heads);
  KeyList all = tier_keys(0, count);
  CHECK(f.forget(std::move(all)) == count);
}

TEST_CASE("a capacity is kept with multi-object deletes", "[store]") {
  GatewayFixture f({.num_chunks = 64, .row_bytes = 4096});
  f.config.capacity_bytes = 100 * 4096;
  f.start();
  for (std::uint64_t first = 0; first < 300; first += 50) {
    f.store_named(first, 50);
    CHECK(f.metric("kv_offload_obj_known_bytes") <= 100 * 4096);
  }
  CHECK(f.metric("kv_offload_obj_evicted_chunks_total") >= 200);
  CHECK(f.requests("multi_delete") >= 2);
  // The youngest are there, the oldest are not: asked of the store, not of what the tier remembers.
  f.config.capacity_bytes.reset();
  f.start();
  CHECK(f.probe({tier_key(299), tier_key(0)}) == std::vector{LookupResult::hit, LookupResult::miss});
}

TEST_CASE("a store that knows If-None-Match refuses what is there already", "[store]") {
  GatewayFixture f;
  f.config.if_none_match = true;
  f.start();
  f.memory.fill(0, 1);
  CHECK(f.store({tier_key(1)}).fates == std::vector{KeyFate::done});
  f.start();
  CHECK(f.store({tier_key(1)}).fates == std::vector{KeyFate::already_present});
  CHECK(f.answers("exists") == 1);
}

TEST_CASE("a start tells what is wrong with a real store's place, bucket and credentials", "[store]") {
  GatewayFixture f;
  std::string expected;
  SECTION("an unknown access key") {
    f.config.credentials.access_key = "NOSUCHKEY";
    expected = "does not accept the credentials";
  }
  SECTION("a wrong secret") {
    f.config.credentials.secret_key = "wrong-secret";
    expected = "does not accept the credentials";
  }
  SECTION("a user without rights") {
    if (GatewayFixture::variable("OTHER_ACCESS_KEY").empty()) return;  // this store has no second user
    f.config.credentials.access_key = GatewayFixture::variable("OTHER_ACCESS_KEY");
    f.config.credentials.secret_key = GatewayFixture::variable("OTHER_SECRET_KEY");
    expected = "may not read objects";
  }
  SECTION("no such bucket") {
    f.config.place.bucket = "no-such-bucket";
    expected = "there is no bucket \"no-such-bucket\"";
  }
  SECTION("nobody at that port") {
    f.config.place.host = "127.0.0.1:1";
    f.config.retry.attempts = 1;
    expected = "not reachable";
  }
  SECTION("a clock that is an hour off") {
    f.surroundings.wall_clock = [] {
      return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()) + std::chrono::hours(1);
    };
    expected = "this machine's clock is 36";
  }
  const auto started = f.try_start();
  REQUIRE_FALSE(started);
  INFO(started.error().detail);
  CHECK(started.error().detail.find(expected) != std::string::npos);
  for (const std::string& secret : {f.config.credentials.secret_key, GatewayFixture::variable("SECRET_KEY")})
    CHECK(started.error().detail.find(secret) == std::string::npos);
}

TEST_CASE("TLS is verified, by the bundle that is given", "[store]") {
  if (GatewayFixture::variable("ENDPOINT_TLS").empty()) {
    WARN("this store has no TLS");
    return;
  }
  GatewayFixture f;
  f.place("ENDPOINT_TLS");
  f.config.retry.attempts = 1;
  SECTION("with the bundle") {
    f.config.ca_bundle = GatewayFixture::variable("CA_FILE");
    f.start();
    f.store_named(1, 4);
    CHECK(f.load(tier_keys(1, 4), 4).success);
  }
  SECTION("without it") {
    const auto started = f.try_start();
    REQUIRE_FALSE(started);
    INFO(started.error().detail);
    CHECK(started.error().detail.find("no secure connection") != std::string::npos);
    CHECK(started.error().detail.find("ca_bundle") != std::string::npos);
  }
  SECTION("without it, said aloud") {
    f.config.insecure_skip_verify = true;
    f.start();
    CHECK(f.log().find("insecure_skip_verify") != std::string::npos);
    f.store_named(1, 1);
  }
  SECTION("HTTP where TLS is spoken") {
    f.config.place.scheme = "http";
    const auto started = f.try_start();
    REQUIRE_FALSE(started);
    INFO(started.error().detail);
    CHECK(started.error().detail.find("store_config.scheme") != std::string::npos);
  }
  SECTION("TLS where HTTP is spoken") {
    f.place("ENDPOINT");
    f.config.place.scheme = "https";
    const auto started = f.try_start();
    REQUIRE_FALSE(started);
    INFO(started.error().detail);
    CHECK(started.error().detail.find("store_config.scheme") != std::string::npos);
  }
}
