// A bucket with a bound: what is evicted, what waits, what is told.
#include "kv_offload/tests/support/tier_obj_fixture.hpp"

#include <algorithm>
#include <cerrno>
#include <set>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
using FaultKind = bench::ServerFaultKind;
using test::becomes_true;
using test::ObjFixture;
using test::tier_key;
using test::tier_keys;

constexpr std::uint64_t kRow = 4096;
constexpr auto kHit = LookupResult::hit;
constexpr auto kMiss = LookupResult::miss;

ObjFixture::Options small_rows() {
  ObjFixture::Options options;
  options.row_bytes = kRow;
  return options;
}
/// A fixture whose bucket takes so many rows.
struct Bounded : ObjFixture {
  explicit Bounded(std::uint64_t rows) : ObjFixture(small_rows()) {
    config.capacity_bytes = rows * kRow;
  }
  void store_named(std::uint64_t first, std::uint64_t count) { store_in_order(first, count); }
  void start_and_list() {
    const auto before = listings();
    start();
    REQUIRE(becomes_true([&] { return listings() > before; }));
  }
  /// How many times a line said that one is done.
  std::size_t listings() {
    const std::string text = log();
    std::size_t count = 0;
    for (auto at = text.find("are known"); at != std::string::npos;
         at = text.find("are known", at + 1))
      ++count;
    return count;
  }
  std::set<std::uint64_t> stored(std::uint64_t names) {
    std::set<std::uint64_t> found;
    const auto keys = server.keys();
    for (std::uint64_t name = 0; name < names; ++name)
      if (std::count(keys.begin(), keys.end(), object_of(tier_key(name))) > 0) found.insert(name);
    return found;
  }
  TransferJob job_until(bool is_load, KeyList keys, Duration from_now) {
    TransferJob made = job(is_load, std::move(keys));
    made.deadline = now() + from_now;
    return made;
  }
};

TEST_CASE("a bucket never holds more than its capacity while stores pour in", "[obj][io]") {
  Bounded f(8);
  f.config.max_inflight = 4;
  f.start_and_list();
  std::vector<JobId> jobs;
  std::size_t most = 0;
  for (std::uint64_t i = 0; i < 40; ++i) {
    jobs.push_back(f.submit(f.job(false, tier_keys(4 * i, 4))));
    if (i % 3 == 0) jobs.push_back(f.submit(f.job(true, tier_keys(4 * i, 2), 8)));
    most = std::max(most, f.server.objects());
  }
  for (const JobId& id : jobs) {
    while (!f.sink.has_ended(id)) most = std::max(most, f.server.objects());
    const JobResult result = f.end_of(id);
    if (result.fates.size() == 4) CHECK(result.success);
  }
  CHECK(most <= 8);
  CHECK(most >= 7);
  const auto left = static_cast<double>(f.server.objects());
  CHECK(f.metric("kv_offload_obj_known_objects") == left);
  CHECK(f.metric("kv_offload_obj_known_bytes") == left * kRow);
  CHECK(f.metric("kv_offload_obj_capacity_bytes") == 8 * kRow);
  CHECK(f.metric("kv_offload_obj_evicted_chunks_total") == 160 - left);
  CHECK(f.metric("kv_offload_obj_evicted_bytes_total") == (160 - left) * kRow);
}

TEST_CASE("what was used least lately goes first, and probes know at once", "[obj][io]") {
  Bounded f(4);
  f.start_and_list();
  f.store_named(1, 4);
  CHECK(f.load(tier_keys(1, 1), 8).success);
  for (ChunkId i = 0; i < 2; ++i) f.memory.fill(i, 5 + i);
  CHECK(f.store(tier_keys(5, 2)).success);
  CHECK(f.stored(10) == std::set<std::uint64_t>{1, 4, 5, 6});
  CHECK(f.probe(tier_keys(1, 6)) == std::vector{kHit, kMiss, kMiss, kHit, kHit, kHit});
  CHECK(f.load(tier_keys(2, 1), 8).failure == TransferFailure::not_found);
  CHECK(f.store(tier_keys(2, 1)).fates == std::vector{KeyFate::done});  // not "already present"
}

TEST_CASE("what is there already needs no room", "[obj][io]") {
  Bounded f(4);
  f.start_and_list();
  f.store_named(1, 4);
  CHECK(f.store(tier_keys(1, 4)).fates == std::vector(4, KeyFate::already_present));
  CHECK(f.server.objects() == 4);
  CHECK(f.metric("kv_offload_obj_evicted_chunks_total") == 0);
}

TEST_CASE("evictions go in batches", "[obj][io]") {
  Bounded f(640);
  f.start_and_list();
  for (std::uint64_t i = 0; i < 640; i += 16) f.ObjFixture::store_named(i, 16);
  CHECK(f.server.counts().multi_deletes == 0);
  f.ObjFixture::store_named(1000, 16);
  CHECK(f.server.counts().multi_deletes <= 2);  // 10 rows each: a 64th of the capacity
  CHECK(f.metric("kv_offload_obj_evicted_chunks_total") == 20);
  CHECK(f.server.objects() == 640 + 16 - 20);
}

TEST_CASE("stores wait for room, loads do not", "[obj][io]") {
  Bounded f(2);
  f.start_and_list();
  f.store_named(1, 2);
  const auto hang = f.server.faults().add({.method = "POST", .kind = FaultKind::hang});
  const JobId store = f.submit(f.job(false, tier_keys(3, 1), 3));
  REQUIRE(becomes_true([&] { return f.server.faults().hits(hang) == 1; }));
  CHECK(f.load(tier_keys(2, 1), 8).success);
  CHECK(f.load(tier_keys(1, 1), 8).failure == TransferFailure::not_found);  // on its way out
  CHECK(f.probe(tier_keys(1, 2)) == std::vector{kMiss, kHit});
  CHECK_FALSE(f.sink.has_ended(store));
  CHECK(f.metric("kv_offload_obj_waited_stores_total") == 1);
  f.server.faults().clear();
  CHECK(f.end_of(store).success);
  CHECK(f.stored(10) == std::set<std::uint64_t>{2, 3});
}

TEST_CASE("a store of a key that is on its way out waits and is not lost", "[obj][io]") {
  Bounded f(1);
  f.start_and_list();
  f.store_named(1, 1);
  const auto hang = f.server.faults().add({.method = "POST", .kind = FaultKind::hang});
  const JobId other = f.submit(f.job_until(false, tier_keys(2, 1), 20s));
  REQUIRE(becomes_true([&] { return f.server.faults().hits(hang) == 1; }));
  const JobId again = f.submit(f.job(false, tier_keys(1, 1), 0));
  f.probe(tier_keys(9, 1));
  CHECK_FALSE(f.sink.has_ended(again));
  f.server.faults().clear();
  CHECK(f.end_of(other).success);
  CHECK(f.end_of(again).fates == std::vector{KeyFate::done});
  CHECK(f.stored(10) == std::set<std::uint64_t>{1});
}

TEST_CASE("where nothing can make room there is no space", "[obj][io]") {
  Bounded f(1);
  f.config.capacity_bytes = 100;
  f.start_and_list();
  const JobResult result = f.store(tier_keys(1, 2));
  CHECK(result.failure == TransferFailure::no_space);
  CHECK(result.error_number == ENOSPC);
  CHECK(f.server.objects() == 0);
}

TEST_CASE("a chunk that is being loaded is not evicted, and stores wait for the end of the load",
          "[obj][io]") {
  Bounded f(2);
  f.start_and_list();
  f.store_named(1, 2);
  const auto hang = f.server.faults().add({.method = "GET", .kind = FaultKind::hang});
  SECTION("another goes in its place") {
    const JobId load = f.submit(f.job(true, tier_keys(1, 1), 8));  // 1 would be the next to go
    REQUIRE(becomes_true([&] { return f.server.faults().hits(hang) == 1; }));
    CHECK(f.store(tier_keys(3, 1), 3).success);
    CHECK(f.stored(10) == std::set<std::uint64_t>{1, 3});
    f.server.faults().clear();
    CHECK(f.end_of(load).success);
    CHECK(f.memory.holds(8, 1));
  }
  SECTION("none goes") {
    const JobId load = f.submit(f.job(true, tier_keys(1, 2), 8));
    REQUIRE(becomes_true([&] { return f.server.faults().hits(hang) == 2; }));
    const JobId store = f.submit(f.job(false, tier_keys(3, 1), 3));
    const JobId late = f.submit(f.job_until(false, tier_keys(4, 1), 30ms));
    REQUIRE(becomes_true([&] { return f.metric("kv_offload_obj_waited_stores_total") >= 1; }));
    CHECK(f.server.counts().multi_deletes == 0);
    CHECK_FALSE(f.sink.has_ended(store));
    f.ahead = 1s;
    f.server.faults().clear();
    CHECK(f.end_of(load).success);
    CHECK(f.end_of(store).success);
    CHECK_FALSE(f.end_of(late).success);
  }
}

TEST_CASE("a store that nothing makes room for ends at its deadline", "[obj][io]") {
  Bounded f(2);
  f.config.retry.attempts = 1;
  f.start_and_list();
  f.store_named(1, 2);
  SECTION("the store refuses to delete") {
    f.server.faults().add({.method = "POST", .kind = FaultKind::status, .argument = 403});
  }
  SECTION("the store fails to delete") {
    f.server.faults().add({.method = "POST", .kind = FaultKind::status, .argument = 500});
  }
  SECTION("the store's answer breaks off") {
    f.server.faults().add({.method = "POST", .kind = FaultKind::xml_garbage});
  }
  SECTION("the store says 200, and means an error") {
    f.server.faults().add(
        {.method = "POST",
         .kind = FaultKind::text,
         .text = "<Error><Code>InternalError</Code><Message>m</Message></Error>"});
  }
  SECTION("each object stays") {
    std::string text = "<DeleteResult>";
    for (std::uint64_t name = 1; name <= 2; ++name)
      text +=
          "<Error><Key>" + f.object_of(tier_key(name)) + "</Key><Code>AccessDenied</Code></Error>";
    f.server.faults().add(
        {.method = "POST", .kind = FaultKind::text, .text = text + "</DeleteResult>"});
  }
  const JobResult result = f.end_of(f.submit(f.job_until(false, tier_keys(3, 1), 500ms)));
  CHECK(result.failure == TransferFailure::deadline);
  CHECK(result.error_number == ENOSPC);
  CHECK(f.metric("kv_offload_obj_delete_failures_total") >= 1);
  CHECK(f.metric("kv_offload_obj_evicted_chunks_total") == 0);
  // Tried again, and room is made.
  f.server.faults().clear();
  f.ahead = 2s;
  CHECK(f.end_of(f.submit(f.job_until(false, tier_keys(3, 1), 20s))).success);
  CHECK(f.server.objects() == 2);
}

TEST_CASE("an object that cannot be deleted is counted and others go in its place", "[obj][io]") {
  Bounded f(2);
  f.start_and_list();
  f.store_named(1, 2);
  f.server.faults().add({.method = "POST",
                         .kind = FaultKind::text,
                         .text = "<DeleteResult><Error><Key>" + f.object_of(tier_key(1)) +
                                 "</Key><Code>AccessDenied</Code></Error></DeleteResult>",
                         .times = 1});
  const JobId store = f.submit(f.job_until(false, tier_keys(3, 1), 20s));
  REQUIRE(becomes_true([&] { return f.metric("kv_offload_obj_delete_failures_total") == 1; }));
  f.ahead = 2s;
  CHECK(f.end_of(store).success);
  CHECK(f.stored(10) == std::set<std::uint64_t>{1, 3});
  CHECK(f.metric("kv_offload_obj_evicted_chunks_total") == 1);
  CHECK(f.load(tier_keys(1, 1), 8).success);
}

std::string listing(ObjFixture& f, const std::vector<std::uint64_t>& oldest_first) {
  std::string text = "<ListBucketResult><IsTruncated>false</IsTruncated>";
  int minute = 10;
  std::vector<std::string> entries;
  for (const std::uint64_t name : oldest_first)
    entries.push_back("<Contents><Key>" + f.object_of(tier_key(name)) +
                      "</Key><LastModified>2026-01-31T12:" + std::to_string(minute++) +
                      ":00.000Z</LastModified><Size>" + std::to_string(kRow) +
                      "</Size></Contents>");
  std::sort(entries.begin(), entries.end());  // as stores do: by name
  for (const std::string& entry : entries) text += entry;
  return text + "</ListBucketResult>";
}

TEST_CASE("a restart finds what is there and evicts the oldest first", "[obj][io]") {
  Bounded f(4);
  f.start_and_list();
  f.store_named(1, 4);
  f.server.faults().add({.method = "GET",
                         .key_contains = "list-type",
                         .kind = FaultKind::text,
                         .text = listing(f, {3, 1, 4, 2})});
  f.start_and_list();
  CHECK(f.metric("kv_offload_obj_known_objects") == 4);
  f.memory.fill(0, 5);
  CHECK(f.store(tier_keys(5, 2)).success);
  CHECK(f.stored(10) == std::set<std::uint64_t>{2, 4, 5, 6});
}

TEST_CASE("a bucket with more than the capacity is brought down to it", "[obj][io]") {
  Bounded f(1500);
  for (std::uint64_t name = 0; name < 3000; ++name)
    f.server.put(f.object_of(tier_key(name)), std::string(kRow, 'x'));
  f.server.put("another/prefix", "not ours");
  f.start_and_list();
  CHECK(becomes_true([&] { return f.server.objects() <= 1501; }));
  CHECK(becomes_true([&] { return f.metric("kv_offload_obj_known_objects") <= 1500; }));
  CHECK(f.server.objects() > 1400);
  CHECK(f.server.body_of("another/prefix").has_value());
}

TEST_CASE("what others removed leaves the count when a load does not find it", "[obj][io]") {
  Bounded f(4);
  f.start_and_list();
  f.store_named(1, 4);
  f.server.remove(f.object_of(tier_key(2)));
  CHECK(f.load(tier_keys(2, 1), 8).failure == TransferFailure::not_found);
  CHECK(f.metric("kv_offload_obj_known_objects") == 3);
  CHECK(f.store(tier_keys(5, 1)).success);
  CHECK(f.metric("kv_offload_obj_evicted_chunks_total") == 0);
}

TEST_CASE("forgotten chunks and tenants make room", "[obj][io]") {
  Bounded f(4);
  f.start_and_list();
  f.store_named(1, 3);
  const OffloadKey salted = tier_key(50).salted(7).value();
  CHECK(f.store({salted}).success);
  CHECK(f.forget(tier_keys(1, 2)) == 2);
  CHECK(f.forget_tenant(7) == 1);
  CHECK(f.metric("kv_offload_obj_known_objects") == 1);
  CHECK(f.store(tier_keys(10, 3)).success);
  CHECK(f.metric("kv_offload_obj_evicted_chunks_total") == 0);
}

TEST_CASE("a bucket that cannot be listed takes stores, and is listed later", "[obj][io]") {
  Bounded f(4);
  f.config.retry.attempts = 1;
  const std::string other = f.object_of(tier_key(90));
  f.server.put(other, std::string(kRow, 'x'));
  f.server.faults().add(
      {.method = "GET", .key_contains = "list-type", .kind = FaultKind::xml_garbage, .times = 1});
  f.start();
  f.store_named(1, 2);
  REQUIRE(becomes_true([&] { return f.log().find("could not be listed") != std::string::npos; }));
  CHECK(f.metric("kv_offload_obj_known_objects") == 2);
  CHECK(becomes_true([&] { return f.metric("kv_offload_obj_known_objects") == 3; }));  // after 5 s
}

TEST_CASE("each evicted chunk is told as removed once, before it is told as stored again",
          "[obj][io]") {
  Bounded f(1);
  f.config.locality = Locality::remote;
  f.start_and_list();
  f.store_named(1, 1);
  f.store_named(2, 1);
  f.store_named(1, 1);
  const auto events = f.tier->take_events();
  REQUIRE(events.size() == 5);
  const std::vector<std::pair<bool, std::uint64_t>> expected = {
      {false, 1}, {true, 1}, {false, 2}, {true, 2}, {false, 1}};
  for (std::size_t i = 0; i < events.size(); ++i) {
    CHECK(events[i].removed == expected[i].first);
    CHECK(events[i].keys == tier_keys(expected[i].second, 1));
    CHECK(events[i].medium == Medium::storage);
    CHECK(events[i].locality == Locality::remote);
  }
}

TEST_CASE("a stop while a store waits for room ends it", "[obj][io]") {
  Bounded f(1);
  f.start_and_list();
  f.store_named(1, 1);
  const auto hang = f.server.faults().add({.method = "POST", .kind = FaultKind::hang});
  const JobId store = f.submit(f.job(false, tier_keys(2, 3)));
  REQUIRE(becomes_true([&] { return f.server.faults().hits(hang) == 1; }));
  CHECK(f.stop(300ms));
  CHECK_FALSE(f.end_of(store).success);
}

TEST_CASE("another revision counts its own chunks", "[obj][io]") {
  Bounded f(3);
  f.start_and_list();
  f.store_named(1, 3);
  REQUIRE(f.tier->set_revision("next"));
  f.store_named(1, 3);
  CHECK(f.metric("kv_offload_obj_evicted_chunks_total") == 0);
  CHECK(f.server.objects() == 6);
  CHECK(f.metric("kv_offload_obj_known_objects") == 3);
}

}  // namespace
}  // namespace kv_offload
