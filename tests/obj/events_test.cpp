#include "kv_offload/tests/support/tier_obj_fixture.hpp"

namespace kv_offload {
namespace {

using FaultKind = bench::ServerFaultKind;
using test::becomes_true;
using test::ObjFixture;
using test::tier_key;
using test::tier_keys;

TEST_CASE("one stored event names all keys of a store to a bucket that fully succeeded",
          "[obj][io][events]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 2);
  CHECK(f.store(tier_keys(1, 3)).success);  // two of them present already: named all the same
  const auto events = f.tier->take_events();
  REQUIRE(events.size() == 2);
  CHECK(events[0].keys == tier_keys(1, 2));
  CHECK(events[1].keys == tier_keys(1, 3));
  for (const OffloadingEvent& e : events) {
    CHECK_FALSE(e.removed);
    CHECK(e.medium == Medium::storage);
    CHECK(e.chunk_ids.empty());
  }
  CHECK(f.tier->take_events().empty());
}

TEST_CASE("an event of a bucket carries the configured locality, or none", "[obj][io][events]") {
  using MaybeLocality = std::optional<Locality>;
  ObjFixture f;
  f.config.locality =
      GENERATE(MaybeLocality(), MaybeLocality(Locality::local), MaybeLocality(Locality::remote));
  f.start();
  f.store_named(1, 1);
  const auto events = f.tier->take_events();
  REQUIRE(events.size() == 1);
  CHECK(events[0].locality == f.config.locality);
  CHECK(f.tier->traits().locality == f.config.locality);
  CHECK(f.tier->traits().type == "obj");
}

TEST_CASE("a load from a bucket makes no event, whether it succeeds or fails",
          "[obj][io][events]") {
  ObjFixture f;
  f.start();
  f.store_named(1, 2);
  f.tier->take_events();
  CHECK(f.load(tier_keys(1, 2), 8).success);
  CHECK_FALSE(f.load(tier_keys(7, 1), 8).success);
  f.server.corrupt(f.object_of(tier_key(1)), 5);
  CHECK_FALSE(f.load(tier_keys(1, 1), 8).success);
  CHECK(f.tier->take_events().empty());
}

TEST_CASE("of several stores to a bucket only whole successes make an event", "[obj][io][events]") {
  ObjFixture f;
  f.config.retry.attempts = 1;
  f.start();
  f.server.faults().add({.method = "PUT",
                         .key_contains = f.object_of(tier_key(2)),
                         .kind = FaultKind::status,
                         .argument = 500});
  std::vector<TransferJob> jobs;
  jobs.push_back(f.job(false, tier_keys(1, 1), 0));
  jobs.push_back(f.job(false, {tier_key(2), tier_key(3)}, 1));
  jobs.push_back(f.job(false, tier_keys(2, 1), 3));
  jobs.push_back(f.job(false, tier_keys(4, 1), 4));
  const auto ids = f.submit(std::move(jobs));
  CHECK(f.end_of(ids[0]).success);
  CHECK(f.end_of(ids[1]).fates == std::vector{KeyFate::failed, KeyFate::done});
  CHECK_FALSE(f.end_of(ids[2]).success);
  CHECK(f.end_of(ids[3]).success);
  const auto events = f.tier->take_events();
  REQUIRE(events.size() == 2);
  for (const OffloadingEvent& e : events)
    CHECK((e.keys == tier_keys(1, 1) || e.keys == tier_keys(4, 1)));
}

TEST_CASE("a store to a bucket that never began makes no event", "[obj][io][events]") {
  ObjFixture f;
  f.start();
  SECTION("refused") { f.faults->store_error_every = 1; }
  SECTION("no space") { f.faults->full = true; }
  SECTION("no such slot") {
    TransferJob job = f.job(false, tier_keys(1, 1), 16);
    CHECK_FALSE(f.end_of(f.submit(std::move(job))).success);
    CHECK(f.tier->take_events().empty());
    return;
  }
  SECTION("stopped") { f.stop(); }
  CHECK_FALSE(f.store(tier_keys(1, 2)).success);
  CHECK(f.tier->take_events().empty());
}

TEST_CASE("no event of a bucket is made that nobody asked for", "[obj][io][events]") {
  ObjFixture f;
  SECTION("the default") { f.config.enable_kv_events = ObjConfig{}.enable_kv_events; }
  SECTION("the engine publishes none") { f.engine_publishes_events = false; }
  f.start();
  f.store_named(1, 2);
  CHECK(f.tier->take_events().empty());
}

TEST_CASE("events of a bucket that were dropped are said aloud once they are taken",
          "[obj][io][events]") {
  ObjFixture f({.row_bytes = 4096});
  f.start();
  f.store_named(1, 1);
  // A store of what is there makes an event and no request.
  for (std::size_t i = 0; i < EventQueue::kEventsMax + 10; i += 512) {
    std::vector<TransferJob> jobs;
    for (int n = 0; n < 512; ++n) jobs.push_back(f.job(false, tier_keys(1, 1)));
    for (const JobId& id : f.submit(std::move(jobs))) CHECK(f.end_of(id).success);
  }
  CHECK(f.tier->take_events().size() == EventQueue::kEventsMax);
  CHECK(f.log().find("events were dropped") != std::string::npos);
  f.store_named(5, 1);
  CHECK(f.tier->take_events().size() == 1);
}

}  // namespace
}  // namespace kv_offload
