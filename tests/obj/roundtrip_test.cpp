#include "kv_offload/tests/support/tier_obj_fixture.hpp"

using namespace kv_offload;
using namespace kv_offload::test;

TEST_CASE("what was stored in a bucket is loaded from it byte for byte", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 8);
  CHECK(f.server.objects() == 8);
  for (ChunkId i = 0; i < 16; ++i) f.memory.clear(i);
  const JobResult loaded = f.load(tier_keys(1, 8), 8);
  CHECK(loaded.success);
  CHECK(loaded.transfer_bytes == 8 * (64U << 10));
  for (ChunkId i = 0; i < 8; ++i) CHECK(f.memory.holds(8 + i, 1 + i));
  CHECK(f.memory.uses() == 0);
  CHECK(f.sink.violations().empty());
}

TEST_CASE("objects are named as other readers of the public scheme name them", "[obj][io]") {
  ObjFixture f;
  SECTION("without a prefix a name begins with a slash") { f.config.prefix = ""; }
  SECTION("with a prefix two slashes follow it") { f.config.prefix = "p"; }
  f.start();
  f.store_named(1, 1);
  const auto names = f.server.keys();
  REQUIRE(names.size() == 1);
  CHECK(names[0] == f.object_of(tier_key(1)));
  CHECK(names[0].starts_with(f.config.prefix.empty() ? "/model_" : "p//model_"));
  CHECK(names[0].ends_with(to_hex(tier_key(1).content_hash()) + ".bin"));
  const auto digest = f.server.header_of(names[0], "x-amz-meta-kv-offload-digest");
  REQUIRE(digest.has_value());
  CHECK(digest->starts_with("1:xxh3-128:"));
}

TEST_CASE("a probe tells what the bucket holds", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 2);
  f.start();  // a new tier, which has seen nothing
  const auto verdicts = f.probe({tier_key(1), tier_key(9), tier_key(2), tier_key(1)});
  CHECK(verdicts ==
        std::vector{LookupResult::hit, LookupResult::miss, LookupResult::hit, LookupResult::hit});
  CHECK(f.requests("head") == 3);  // one per key
}
