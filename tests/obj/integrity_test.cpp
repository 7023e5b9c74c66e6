// What is served is what was stored: corrupt, foreign and damaged objects.
#include "kv_offload/tests/support/tier_obj_fixture.hpp"

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
using FaultKind = bench::ServerFaultKind;
using test::ObjFixture;
using test::tier_key;
using test::tier_keys;

/// Puts the object of key `name` there once more, with other headers.
void rewrite(ObjFixture& f, std::uint64_t name, const bench::ObjectHeaders& headers) {
  const std::string object = f.object_of(tier_key(name));
  f.server.put(object, f.server.body_of(object).value(), headers);
}
std::string digest_of(ObjFixture& f, std::uint64_t name) {
  return f.server.header_of(f.object_of(tier_key(name)), kDigestHeader).value();
}

TEST_CASE("a corrupt object fails its load, is a miss, and is replaced by the next store",
          "[obj][io]") {
  ObjFixture f;
  f.config.if_none_match = GENERATE(false, true);
  f.start();
  f.store_named(1, 2);
  REQUIRE(f.server.corrupt(f.object_of(tier_key(1)), GENERATE(0, 40'000, (64 << 10) - 1)));
  const JobResult loaded = f.load(tier_keys(1, 2), 8);
  CHECK(loaded.fates == std::vector{KeyFate::failed, KeyFate::done});
  CHECK(loaded.failure == TransferFailure::corrupt);
  CHECK(f.tier->stats().corrupt_chunks == 1);
  CHECK(f.probe(tier_keys(1, 2)) == std::vector{LookupResult::miss, LookupResult::hit});
  CHECK(f.requests("head") == 0);
  // Stored before, and all the same not "already present".
  f.memory.fill(0, 1);
  CHECK(f.store(tier_keys(1, 1)).fates == std::vector{KeyFate::done});
  CHECK(f.probe(tier_keys(1, 1)) == std::vector{LookupResult::hit});
  CHECK(f.load(tier_keys(1, 1), 9).success);
  CHECK(f.memory.holds(9, 1));
}

TEST_CASE("a byte that flips on the way fails the load of a good object", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 1);
  f.server.faults().add(
      {.method = "GET", .kind = FaultKind::wrong_bytes, .argument = 5, .times = 1});
  CHECK(f.load(tier_keys(1, 1), 8).failure == TransferFailure::corrupt);
  CHECK(f.tier->stats().corrupt_chunks == 1);
  CHECK(f.store(tier_keys(1, 1)).fates == std::vector{KeyFate::done});
  CHECK(f.load(tier_keys(1, 1), 8).success);
}

TEST_CASE("an object under the name of another is corrupt", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 2);
  const std::string one = f.object_of(tier_key(1));
  const std::string two = f.object_of(tier_key(2));
  f.server.put(one, f.server.body_of(two).value(), {{kDigestHeader, digest_of(f, 2)}});
  CHECK(f.load(tier_keys(1, 1), 8).failure == TransferFailure::corrupt);
  CHECK(f.load(tier_keys(2, 1), 8).success);
}

struct Origin {
  std::string name;
  bench::ObjectHeaders headers;
  bool is_foreign;  // else damaged
};

TEST_CASE("objects without our digest are refused, or accepted and counted", "[obj][io]") {
  ObjFixture f;
  const bool accepts = GENERATE(false, true);
  f.config.refuse_foreign = !accepts;
  f.start();
  f.store_named(1, 1);
  const std::string good = digest_of(f, 1);
  std::string other_version = good;
  other_version[0] = '2';
  std::string other_algorithm = good;
  other_algorithm.replace(2, 4, "xyz9");
  const std::vector<Origin> origins = {
      {"no digest", {}, true},
      {"a later version", {{kDigestHeader, other_version}}, true},
      {"another algorithm", {{kDigestHeader, other_algorithm}}, true},
      {"another revision", {{kDigestHeader, good}, {kRevisionHeader, "other"}}, true},
      {"a digest cut short", {{kDigestHeader, good.substr(0, good.size() - 1)}}, false},
      {"a digest in capitals", {{kDigestHeader, good.substr(0, 11) + std::string(32, 'A')}}, false},
      {"an empty digest", {{kDigestHeader, ""}}, false},
      {"noise", {{kDigestHeader, "a%20b"}}, false},
  };
  for (const Origin& origin : origins) {
    INFO(origin.name);
    rewrite(f, 1, origin.headers);
    f.start();
    const bool serves = origin.is_foreign && accepts;
    CHECK(f.probe(tier_keys(1, 1)) == std::vector{serves ? LookupResult::hit : LookupResult::miss});
    CHECK(f.tier->stats().foreign_refused == (origin.is_foreign && !accepts ? 1 : 0));
    const JobResult loaded = f.load(tier_keys(1, 1), 8);
    CHECK(loaded.success == serves);
    if (serves) {
      CHECK(loaded.unverified == 1);
      CHECK(f.tier->stats().unverified_chunks == 1);
      CHECK(f.memory.holds(8, 1));
      continue;
    }
    CHECK(loaded.failure ==
          (origin.is_foreign ? TransferFailure::foreign : TransferFailure::corrupt));
    CHECK(f.tier->stats().foreign_refused == (origin.is_foreign ? 2 : 0));
    CHECK(f.tier->stats().corrupt_chunks == (origin.is_foreign ? 0 : 1));
    CHECK(f.probe(tier_keys(1, 1)) == std::vector{LookupResult::miss});
    f.memory.fill(0, 1);
    CHECK(f.store(tier_keys(1, 1)).fates == std::vector{KeyFate::done});
    CHECK(f.load(tier_keys(1, 1), 8).success);
  }
}

TEST_CASE(
    "what a probe sees to be of no use is replaced, also where nothing may be put over good "
    "objects",
    "[obj][io]") {
  const bool loads_first = GENERATE(false, true);
  ObjFixture f;
  f.config.if_none_match = true;
  f.start();
  f.store_named(1, 1);
  const std::string object = f.object_of(tier_key(1));
  SECTION("foreign") { rewrite(f, 1, {}); }
  SECTION("damaged") { rewrite(f, 1, {{kDigestHeader, "1:xxh3-128:"}}); }
  SECTION("of another length") {
    f.server.put(object, "short", {{kDigestHeader, digest_of(f, 1)}});
  }
  f.start();  // a new tier, which has seen nothing
  if (loads_first)
    CHECK_FALSE(f.load(tier_keys(1, 1), 8).success);
  else
    CHECK(f.probe(tier_keys(1, 1)) == std::vector{LookupResult::miss});
  f.memory.fill(0, 1);
  CHECK(f.store(tier_keys(1, 1)).fates == std::vector{KeyFate::done});
  CHECK(f.load(tier_keys(1, 1), 8).success);
  CHECK(f.memory.holds(8, 1));
}

TEST_CASE("an object that another engine replaced by a good one is found again", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 1);
  const std::string digest = digest_of(f, 1);
  rewrite(f, 1, {});
  f.start();
  CHECK(f.probe(tier_keys(1, 1)) == std::vector{LookupResult::miss});
  rewrite(f, 1, {{kDigestHeader, digest}});
  CHECK(f.probe(tier_keys(1, 1)) == std::vector{LookupResult::hit});
  CHECK(f.load(tier_keys(1, 1), 8).success);
}

TEST_CASE("a store that forgets metadata makes objects of nobody", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.server.faults().add({.method = "PUT", .kind = FaultKind::drop_metadata});
  f.store_named(1, 1);
  CHECK(f.load(tier_keys(1, 1), 8).failure == TransferFailure::foreign);
  CHECK(f.tier->stats().foreign_refused == 1);
}

TEST_CASE("without checksums nothing is digested, and every load is unverified", "[obj][io]") {
  ObjFixture f;
  f.config.checksum = false;
  f.start();
  f.store_named(1, 2);
  CHECK_FALSE(f.server.header_of(f.object_of(tier_key(1)), kDigestHeader).has_value());
  const JobResult loaded = f.load(tier_keys(1, 2), 8);
  CHECK(loaded.success);
  CHECK(loaded.unverified == 2);
  CHECK(f.tier->stats().unverified_chunks == 2);
  CHECK(f.memory.holds(9, 2));
  // A wrong length is found all the same.
  f.server.put(f.object_of(tier_key(1)), "short");
  CHECK(f.load(tier_keys(1, 1), 8).failure == TransferFailure::corrupt);
}

}  // namespace
}  // namespace kv_offload
