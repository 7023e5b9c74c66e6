// Forgets, revisions and the other parts of a name.
#include "kv_offload/tests/support/tier_obj_fixture.hpp"

#include <algorithm>

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

KeyList salted_keys(std::uint64_t first, std::size_t count, std::uint64_t salt) {
  KeyList keys;
  for (std::size_t i = 0; i < count; ++i) {
    std::array<std::byte, 24> hash{};
    for (std::size_t b = 0; b < hash.size(); ++b)
      hash[b] = static_cast<std::byte>(((first + i) * 131 + b * 7) >> (b % 2 * 4));
    hash[0] = static_cast<std::byte>((first + i) & 0xff);
    hash[1] = static_cast<std::byte>((first + i) >> 8);
    keys.push_back(OffloadKey::make(hash, 0)->salted(salt).value());
  }
  return keys;
}

TEST_CASE("forgotten keys are gone, and the answer says how many there were", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 5);
  CHECK(f.forget({tier_key(1), tier_key(77), tier_key(3), tier_key(78)}) == 2);
  CHECK(f.forget_error().empty());
  CHECK(f.server.objects() == 3);
  CHECK(f.probe(tier_keys(1, 3)) == Verdicts{kMiss, kHit, kMiss});
  CHECK(f.forget(tier_keys(1, 1)) == 0);
  CHECK(f.forget({}) == 0);
  CHECK(f.store(tier_keys(1, 1)).fates == std::vector{KeyFate::done});  // it can be stored again
}

TEST_CASE("a key named twice in one forget counts once", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 2);
  CHECK(f.forget({tier_key(1), tier_key(2), tier_key(1), tier_key(1)}) == 2);
  CHECK(f.server.objects() == 0);
}

TEST_CASE("more keys than one deletion may name are forgotten in several", "[obj][io]") {
  ObjFixture f;
  f.start();
  for (std::uint64_t name = 0; name < 1200; ++name) f.server.put(f.object_of(tier_key(name)), "x");
  CHECK(f.forget(tier_keys(0, 1210)) == 1200);
  CHECK(f.server.objects() == 0);
  CHECK(f.server.counts().multi_deletes >= 2);
}

TEST_CASE("a tenant is forgotten whole and alone", "[obj][io]") {
  ObjFixture f;
  f.start();
  const KeyList mine = salted_keys(0, 3, 7);
  const KeyList theirs = salted_keys(0, 3, 8);
  CHECK(f.store(mine).success);
  CHECK(f.store(theirs).success);
  f.store_named(1, 2);
  CHECK(f.forget_tenant(7) == 3);
  CHECK(f.forget_error().empty());
  CHECK(f.probe(mine) == Verdicts(3, kMiss));
  CHECK(f.probe(theirs) == Verdicts(3, kHit));
  CHECK(f.probe(tier_keys(1, 2)) == Verdicts(2, kHit));
  CHECK(f.forget_tenant(7) == 0);
}

TEST_CASE("a tenant of several pages is forgotten whole", "[obj][io]") {
  ObjFixture f;
  f.start();
  for (const OffloadKey& key : salted_keys(0, 1300, 7)) f.server.put(f.object_of(key), "x");
  for (const OffloadKey& key : salted_keys(0, 300, 8)) f.server.put(f.object_of(key), "x");
  CHECK(f.forget_tenant(7) == 1300);
  CHECK(f.server.objects() == 300);
}

TEST_CASE("what could not be forgotten is said, with what could", "[obj][io]") {
  ObjFixture f;
  f.config.retry.attempts = 1;
  f.config.breaker.failures = 0;
  f.start();
  f.store_named(1, 3);
  SECTION("one key cannot be looked for") {
    f.server.faults().add({.method = "HEAD",
                           .key_contains = f.object_of(tier_key(2)),
                           .kind = FaultKind::status,
                           .argument = 500});
    CHECK(f.forget(tier_keys(1, 3)) == 2);
    CHECK(f.forget_error().find("500") != std::string::npos);
    CHECK(f.server.objects() == 1);
  }
  SECTION("nothing may be deleted") {
    f.server.faults().add({.method = "POST", .kind = FaultKind::status, .argument = 403});
    CHECK(f.forget(tier_keys(1, 3)) == 0);
    CHECK(f.forget_error().find("AccessDenied") != std::string::npos);
  }
  SECTION("the store says 200, and means an error") {
    f.server.faults().add(
        {.method = "POST",
         .kind = FaultKind::text,
         .text = "<Error><Code>InternalError</Code><Message>sorry</Message></Error>"});
    CHECK(f.forget(tier_keys(1, 3)) == 0);
    CHECK(f.forget_error().find("InternalError") != std::string::npos);
  }
  SECTION("the answer breaks off") {
    f.server.faults().add({.method = "POST", .kind = FaultKind::xml_garbage});
    CHECK(f.forget(tier_keys(1, 3)) == 0);
    CHECK_FALSE(f.forget_error().empty());
  }
  SECTION("one object stays") {
    f.server.faults().add({.method = "POST",
                           .kind = FaultKind::text,
                           .text = "<DeleteResult><Error><Key>" + f.object_of(tier_key(2)) +
                                   "</Key><Code>AccessDenied</Code></Error></DeleteResult>"});
    CHECK(f.forget(tier_keys(1, 3)) == 2);
    CHECK(f.forget_error().find("AccessDenied") != std::string::npos);
    CHECK(f.probe(tier_keys(2, 1)) == Verdicts{kHit});
  }
  SECTION("a tenant cannot be listed") {
    f.server.faults().add(
        {.method = "GET", .key_contains = "list-type", .kind = FaultKind::xml_garbage});
    CHECK(f.forget_tenant(7) == 0);
    CHECK_FALSE(f.forget_error().empty());
  }
  // The next one is answered as if nothing had been.
  f.server.faults().clear();
  f.store_named(20, 1);
  CHECK(f.forget(tier_keys(20, 1)) == 1);
  CHECK(f.forget_error().empty());
}

TEST_CASE("forgets go on beside transfers that hang", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 4);
  const auto hang = f.server.faults().add({.method = "GET", .kind = FaultKind::hang});
  const JobId load = f.submit(f.job(true, tier_keys(1, 2), 8));
  REQUIRE(becomes_true([&] { return f.server.faults().hits(hang) == 2; }));
  CHECK(f.forget(tier_keys(3, 2)) == 2);
  CHECK_FALSE(f.sink.has_ended(load));
  f.server.faults().clear();
  CHECK(f.end_of(load).success);
}

TEST_CASE("every forget that a stop finds is answered once", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 1);
  const FaultKind kind = GENERATE(FaultKind::hang, FaultKind::trickle);
  const auto hang = f.server.faults().add(
      {.method = kind == FaultKind::hang ? "HEAD" : "POST", .kind = FaultKind::hang});
  std::vector<ForgetId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(f.begin_forget(tier_keys(1, 1)));
  REQUIRE(becomes_true([&] { return f.server.faults().hits(hang) >= 1; }));
  CHECK(f.stop(2s));
  for (const ForgetId id : ids) {
    CHECK(f.end_of_forget(id) == 0);
    CHECK_FALSE(f.tap.forget_error(id).empty());
  }
}

TEST_CASE(
    "another revision hides the chunks of the one before, and they are found when it comes back",
    "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 2);
  REQUIRE(f.tier->set_revision("v 2/ü"));
  f.identity.revision = "v 2/ü";
  CHECK(f.probe(tier_keys(1, 2)) == Verdicts(2, kMiss));
  CHECK(f.load(tier_keys(1, 1), 8).failure == TransferFailure::not_found);
  f.memory.fill(0, 50);
  CHECK(f.store(tier_keys(1, 1)).fates == std::vector{KeyFate::done});
  CHECK(f.server.objects() == 3);
  CHECK(f.load(tier_keys(1, 1), 8).success);
  CHECK(f.memory.holds(8, 50));
  const auto header = f.server.header_of(f.object_of(tier_key(1)), kRevisionHeader);
  REQUIRE(header);
  CHECK(*header == "v%202%2F%C3%BC");
  REQUIRE(f.tier->set_revision(""));
  f.identity.revision = "";
  CHECK(f.probe(tier_keys(1, 3)) == Verdicts{kHit, kHit, kMiss});
  CHECK(f.load(tier_keys(1, 1), 8).success);
  CHECK(f.memory.holds(8, 1));
  // A new start with the other revision finds the other chunk.
  f.identity.revision = "v 2/ü";
  f.start();
  CHECK(f.load(tier_keys(1, 1), 8).success);
  CHECK(f.memory.holds(8, 50));
}

TEST_CASE("an answer about the revision before says nothing about the present one", "[obj][io]") {
  ObjFixture f;
  f.config.probe_timeout = 20s;
  f.start();
  f.store_named(1, 1);
  f.start();
  const auto hang = f.server.faults().add({.method = "HEAD", .kind = FaultKind::hang});
  const ProbeId probe = f.begin_probe(tier_keys(1, 1));
  REQUIRE(becomes_true([&] { return f.server.faults().hits(hang) == 1; }));
  REQUIRE(f.tier->set_revision("next"));
  f.identity.revision = "next";
  f.memory.fill(3, 3);
  CHECK(f.load(tier_keys(9, 1), 8).failure ==
        TransferFailure::not_found);  // the change has arrived
  f.server.faults().clear();
  CHECK(f.end_of_probe(probe) == Verdicts{kRetry});
  CHECK(f.probe(tier_keys(1, 1)) == Verdicts{kMiss});
  CHECK(f.store(tier_keys(1, 1), 3).fates == std::vector{KeyFate::done});
  CHECK(f.load(tier_keys(1, 1), 8).success);
  CHECK(f.memory.holds(8, 3));
}

TEST_CASE("stores that follow a change of revision go into the new one", "[obj][io]") {
  ObjFixture f({.row_bytes = 4096});
  f.start();
  for (std::uint64_t i = 0; i < 200; ++i) {
    const std::string revision = "r" + std::to_string(i);
    REQUIRE(f.tier->set_revision(revision));
    f.identity.revision = revision;
    CHECK(f.store(tier_keys(1, 1)).fates == std::vector{KeyFate::done});
    REQUIRE(f.server.header_of(f.object_of(tier_key(1)), kRevisionHeader) == revision);
  }
}

TEST_CASE("a forget reaches the present revision alone", "[obj][io]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 2);
  REQUIRE(f.tier->set_revision("next"));
  CHECK(f.forget(tier_keys(1, 2)) == 0);
  CHECK(f.server.objects() == 2);
  f.store_named(1, 1);
  CHECK(f.forget(tier_keys(1, 2)) == 1);
  REQUIRE(f.tier->set_revision(""));
  CHECK(f.forget(tier_keys(1, 2)) == 2);
  CHECK(f.server.objects() == 0);
}

TEST_CASE("engines share what their parallel layout allows them to share", "[obj][io]") {
  ObjFixture f;
  f.identity.tp_size = 4;
  f.identity.rank = 3;
  SECTION("each rank has its own objects") {
    f.start();
    f.store_named(1, 1);
    CHECK(f.server.keys()[0].find("_r3/") != std::string::npos);
    f.identity.rank = 2;
    f.start();
    CHECK(f.probe(tier_keys(1, 1)) == Verdicts{kMiss});
  }
  SECTION("ranks with the same bytes have one object") {
    f.identity.replicated_layout = true;
    f.start();
    f.store_named(1, 1);
    CHECK(f.server.keys()[0].find("_r0/") != std::string::npos);
    f.identity.rank = 2;
    f.identity.tp_size = 8;
    f.start();
    CHECK(f.probe(tier_keys(1, 1)) == Verdicts{kHit});
    CHECK(f.load(tier_keys(1, 1), 8).success);
  }
  SECTION("the block size of files is none of an object's") {
    f.start();
    f.store_named(1, 1);
    f.identity.blocks_per_file = 8;
    f.start();
    CHECK(f.probe(tier_keys(1, 1)) == Verdicts{kHit});
  }
  SECTION("another model is another place") {
    f.start();
    f.store_named(1, 1);
    f.identity.model_name = "other";
    f.start();
    CHECK(f.probe(tier_keys(1, 1)) == Verdicts{kMiss});
  }
}

}  // namespace
}  // namespace kv_offload
