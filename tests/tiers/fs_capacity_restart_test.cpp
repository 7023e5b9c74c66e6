#include "kv_offload/tests/support/fs_capacity_fixture.hpp"
#include "kv_offload/tiers/fs/temp_files.hpp"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

namespace kv_offload {
namespace {

using test::FsCapacityFixture;
using test::tier_key;
using test::tier_keys;

/// What an engine leaves behind that is killed: its marker, and no newer record.
void leave_as_killed(const FsCapacityFixture& f) {
  std::string name = FileMapper::make(f.directory.path(), f.identity)->chunk_dir() + "/residency";
  const std::size_t start = name.size();
  TempNames().append_to(name, ".run");
  // A pid that no process has: pids end at 2^22.
  const std::size_t pid = name.find('-', start) + 1;
  name.replace(pid, name.find('-', pid) - pid, "4194304");
  test::write_file(name, "");
}

TEST_CASE("a restart knows every chunk and its order of use without looking at the files",
          "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  const auto policy = GENERATE(as<std::string>{}, "lru", "arc", "s3fifo");
  CAPTURE(policy);
  FsCapacityFixture f(8);
  f.config.eviction_policy = policy;
  f.start();
  REQUIRE(f.settle());
  f.store_in_order(0, 8);
  for (const std::uint64_t name : {3, 1, 6}) REQUIRE(f.has(name));  // in this order most recent
  f.stop();
  CHECK(std::filesystem::exists(f.record()));
  CHECK(f.directory.files(".run").empty());
  CHECK(f.directory.files(".tmp").empty());

  f.start();
  CHECK(f.sample("walk_progress") == 1);  // nothing is looked at
  CHECK(f.sample("resident_chunks") == 8);
  CHECK(f.sample("allocated_bytes") == static_cast<double>(f.on_disk()));
  CHECK(f.directory.files(".run").size() == 1);
  // Five go before the three that were used: those least recent, then these in their order.
  for (std::uint64_t i = 0; i < 7; ++i) f.store_one(100 + i);
  REQUIRE(f.settle());
  for (const std::uint64_t name : {0, 2, 4, 5, 7, 3, 1}) CHECK_FALSE(f.has_file(name));
  CHECK(f.has_file(6));
  CHECK(f.sample("adopted_chunks_total") == 0);
  CHECK(f.sample("vanished_chunks_total") == 0);
}

TEST_CASE("a use after the restart keeps a chunk from before it", "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  const auto policy = GENERATE(as<std::string>{}, "lru", "arc", "s3fifo");
  CAPTURE(policy);
  FsCapacityFixture f(8);
  f.config.eviction_policy = policy;
  f.start();
  REQUIRE(f.settle());
  f.store_in_order(0, 8);
  f.stop();
  f.start();
  REQUIRE(f.load(tier_keys(0, 1), 8).success);
  for (std::uint64_t i = 0; i < 7; ++i) f.store_one(100 + i);
  REQUIRE(f.settle());
  CHECK(f.has_file(0));
  for (std::uint64_t name = 1; name < 8; ++name) CHECK_FALSE(f.has_file(name));
}

TEST_CASE("after kill -9 the files are found, counted and evicted oldest first",
          "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture f(8);
  f.start();
  REQUIRE(f.settle());
  f.store_in_order(0, 4);
  f.stop();  // the record knows 0 to 3
  const std::string record = test::read_file(f.record());
  f.start();
  f.store_in_order(10, 4);  // and not these
  f.stop();
  test::write_file(f.record(), record);
  leave_as_killed(f);
  std::filesystem::remove(f.path_of(tier_key(2)));  // named in vain
  const std::time_t now = std::time(nullptr);
  for (std::uint64_t name = 10; name < 14; ++name)  // 10 and 11 are older than what is recorded
    f.set_time(name, name < 12 ? now - 1000 + static_cast<std::time_t>(name) : now + 1);

  f.start();
  CHECK(f.directory.files(".run").size() == 1);  // the dead engine's is gone
  REQUIRE(f.settle());
  REQUIRE(f.wait_for([&] { return f.sample("resident_chunks") == 7; }));
  CHECK(f.sample("adopted_chunks_total") == 4);
  CHECK(f.sample("vanished_chunks_total") == 1);
  CHECK(f.sample("allocated_bytes") == static_cast<double>(f.on_disk()));
  CHECK(f.log().find("every file was looked at, 8 chunks") != std::string::npos);
  for (std::uint64_t i = 0; i < 6; ++i) f.store_one(100 + i);
  REQUIRE(f.settle());
  CHECK(f.directory.files(".bin").size() == 8);
  for (const std::uint64_t name : {10, 11, 0, 1, 3}) CHECK_FALSE(f.has_file(name));
  for (const std::uint64_t name : {12, 13}) CHECK(f.has_file(name));
}

TEST_CASE("a process that is killed in the middle of stores leaves a directory that a start bounds",
          "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture f(16);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    FsCapacityFixture::Options options;
    options.num_chunks = 32;
    test::FsFixture killed(options);
    killed.config = f.config;
    killed.identity = f.identity;
    if (!killed.try_start()) ::_exit(1);
    for (std::uint64_t i = 0; i < 100; ++i)
      killed.submit(killed.job(false, tier_keys(i * 8, 8), static_cast<ChunkId>(8 * (i % 4))));
    for (int i = 0; i < 40; ++i) killed.probe(tier_keys(5'000'000, 1));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  f.start();
  REQUIRE(f.settle());
  CHECK(f.directory.files(".run").size() == 1);
  CHECK(f.directory.files(".tmp").empty());  // of the dead process
  f.store_in_order(1'000'000, 16);
  REQUIRE(f.settle());
  CHECK(f.directory.files(".bin").size() == 16);
}

TEST_CASE("a directory larger than the capacity is brought down to it, oldest files first",
          "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture::Options options;
  options.num_chunks = 40;
  FsCapacityFixture f(10, options);
  f.start_unbounded();
  f.store_in_order(0, 40);
  f.stop();
  const std::time_t now = std::time(nullptr);
  std::vector<std::uint64_t> order(40);
  for (std::uint64_t i = 0; i < 40; ++i) {
    order[i] = (i * 7) % 40;  // not the order in which a walk meets them
    f.set_time(order[i], now - 1000 + static_cast<std::time_t>(i));
  }
  f.start();
  REQUIRE(f.settle());
  CHECK(f.directory.files(".bin").size() == 10);
  for (std::uint64_t i = 0; i < 40; ++i) {
    CAPTURE(i);
    CHECK(f.has_file(order[i]) == (i >= 30));
  }
}

TEST_CASE("a smaller capacity than before evicts in the recorded order", "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture f(12);
  f.start();
  REQUIRE(f.settle());
  f.store_in_order(0, 12);
  REQUIRE(f.has(0));
  f.stop();
  f.config.capacity_bytes = 3 * f.bytes_per_chunk;
  f.start();
  REQUIRE(f.settle());
  CHECK(f.directory.files(".bin").size() == 3);
  for (const std::uint64_t name : {0, 10, 11}) CHECK(f.has(name));
}

TEST_CASE("a stop in the middle of a walk makes the next start walk again", "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture f(16);
  f.start_unbounded();
  f.store_in_order(0, 16);
  f.stop();
  f.start();
  f.stop();  // as soon as it is up
  f.start();
  REQUIRE(f.settle());
  CHECK(f.sample("resident_chunks") == 16);
}

TEST_CASE("chunks stored without a capacity in between are found", "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture f(16);
  f.start();
  REQUIRE(f.settle());
  f.store_in_order(0, 2);
  f.stop();
  f.start_unbounded();
  CHECK_FALSE(std::filesystem::exists(f.record()));
  f.store_in_order(10, 5);
  f.stop();
  f.start();
  REQUIRE(f.wait_for([&] { return f.sample("resident_chunks") == 7; }));
  REQUIRE(f.settle());
}

TEST_CASE("what an engine without a capacity stores beside one with one is found by the next start",
          "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture bounded(8), unbounded(8);
  unbounded.config.root_dir = bounded.config.root_dir;
  bounded.start();
  REQUIRE(bounded.settle());
  bounded.store_in_order(0, 2);
  unbounded.start_unbounded();
  unbounded.store_in_order(10, 3);
  SECTION("the one with a capacity ends first") {
    bounded.stop();
    unbounded.store_in_order(20, 6);
    SECTION("the other ends") { unbounded.stop(); }
    SECTION("the other still runs") {}
  }
  SECTION("the one without ends first") {
    unbounded.stop();
    bounded.stop();
  }
  bounded.start();
  REQUIRE(bounded.settle());  // every file was looked at, and the capacity holds
}

TEST_CASE("an engine without a capacity leaves neither record nor marker", "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture f(8);
  f.start_unbounded();
  f.store_in_order(0, 1);
  REQUIRE(f.tier->set_revision("two"));
  f.store_in_order(1, 1);
  f.stop();
  for (const char* ending : {".run", ".end", ".state"}) CHECK(f.directory.files(ending).empty());
  CHECK(f.directory.files(".bin").size() == 2);
}

TEST_CASE(
    "a record that is damaged, cut or somebody else's is said once, and the files are looked at",
    "[fs][io][capacity]") {
  KV_OFFLOAD_NEEDS_URING();
  FsCapacityFixture f(8);
  f.start();
  REQUIRE(f.settle());
  f.store_in_order(0, 5);
  f.stop();
  const std::string whole = test::read_file(f.record());
  const auto kind = GENERATE(range(0, 7));
  CAPTURE(kind);
  std::string text = whole;
  switch (kind) {
    case 0: text[100] = static_cast<char>(text[100] ^ 1); break;
    case 1: text.resize(2048); break;
    case 2: text.clear(); break;
    case 3: text = std::string(4096, 'x'); break;
    case 4: text.replace(16, 8, "another!"); break;  // fingerprint, so the check, too
    case 5: text += std::string(4096, '\0'); break;
    default: text[text.size() - 16] = '\x7f';  // more entries than there are
  }
  test::write_file(f.record(), text);
  f.start();
  REQUIRE(f.wait_for([&] { return f.sample("resident_chunks") == 5; }));
  REQUIRE(f.settle());
  const std::string log = f.log();
  const auto at = log.find("; the files themselves are looked at instead");
  REQUIRE(at != std::string::npos);
  CHECK(log.find("; the files themselves", at + 1) == std::string::npos);
  for (std::uint64_t name = 0; name < 5; ++name) CHECK(f.has(name));
  f.stop();
  f.start();  // written anew
  CHECK(f.sample("resident_chunks") == 5);
  CHECK(f.sample("walk_progress") == 1);
}

TEST_CASE("a record with any byte changed is never taken for a good one", "[fs][capacity]") {
  const test::TierDirectory directory;
  const std::string path = directory.path() + "/" + kResidencyFile;
  auto index = std::move(FsResidency::make({"lru", 64})).value();
  for (std::uint64_t i = 0; i < 40; ++i) index->insert_cold(tier_key(i), 65536, 1000 + i, false);
  ResidencyHeader header;
  header.is_clean = true;
  header.fingerprint = 7;
  header.row_bytes = 65536;
  header.revisions = {"", "v2"};
  ResidencyImage image(*index, header, {{tier_key(99), 4096, 0, true}});
  REQUIRE(write_residency(image, path) == 0);
  const auto read = [&](std::vector<ResidencyEntry>& entries) {
    entries.clear();
    auto opened = ResidencyReader::open(path);
    if (!opened || !*opened) return false;
    ResidencyEntry entry;
    while ((*opened)->next(entry)) entries.push_back(entry);
    return (*opened)->is_sound();
  };
  std::vector<ResidencyEntry> entries;
  REQUIRE(read(entries));
  REQUIRE(entries.size() == 41);
  CHECK(entries[0].is_quarantined);
  CHECK(entries[0].key == tier_key(99));
  for (std::uint64_t i = 0; i < 40; ++i) {
    CHECK(entries[i + 1].key == tier_key(i));
    CHECK(entries[i + 1].bytes == 65536);
    CHECK(entries[i + 1].last_use == 1000 + i);
  }
  const std::string whole = test::read_file(path);
  const char* text = std::getenv("KV_OFFLOAD_TEST_SEED");
  const std::uint64_t seed = text != nullptr ? std::stoull(text) : std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = whole;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int n = 0; n < changes; ++n)
      damaged[random() % damaged.size()] ^= static_cast<char>(1 + random() % 255);
    if (random() % 4 == 0) damaged.resize(random() % damaged.size());
    if (random() % 8 == 0) damaged.insert(random() % (damaged.size() + 1), std::string(4096, '\1'));
    if (damaged == whole) continue;
    test::write_file(path, damaged);
    CAPTURE(i);
    REQUIRE_FALSE(read(entries));
  }
}

TEST_CASE("the record is written while the lane works, and a crash loses little",
          "[fs][capacity]") {
  const test::TierDirectory directory;
  auto mapper = std::move(FileMapper::make(directory.path(), {})).value();
  std::filesystem::create_directories(mapper.chunk_dir());
  std::vector<std::string> revisions;
  std::string log;
  FsNamespaceWanted wanted;
  wanted.capacity_bytes = 4096 * 3000;
  wanted.row_bytes = 4096;
  wanted.now_us = 1'000'000;
  auto ns =
      std::move(open_fs_namespace(mapper, "", wanted, revisions, [&](const std::string& line) {
        log += line;
      })).value();
  for (std::uint64_t i = 0; i < 3000; ++i) ns->residency->insert_used(tier_key(i), 4096, i + 1);
  MonotonicTime now{};
  RecordSaver saver(now);
  OwnIo io;
  saver.changed();
  CHECK_FALSE(saver.next_io(*ns, {}, now, io));  // not so soon
  now += RecordSaver::kInterval;
  int pieces = 0;
  while (saver.next_io(*ns, {"old"}, now, io)) {
    CHECK_FALSE(saver.next_io(*ns, {"old"}, now, io));  // one at a time
    REQUIRE(io.op == IoOp::write);
    REQUIRE(::pwrite(io.fd, io.buffer, io.length, static_cast<off_t>(io.offset)) ==
            static_cast<ssize_t>(io.length));
    saver.io_over(0);
    // Chunks come and go between the pieces.
    if (ns->residency->is_present(static_cast<ChunkId>(pieces)))
      ns->residency->remove(static_cast<ChunkId>(pieces));
    ++pieces;
  }
  CHECK(pieces == 3);  // 3000 entries of 52 bytes in pieces of 64 KiB
  CHECK(saver.take_error() == 0);
  auto opened = ResidencyReader::open(ns->record_path());
  REQUIRE(opened);
  REQUIRE(opened->has_value());
  CHECK_FALSE((*opened)->header().is_clean);
  CHECK((*opened)->header().revisions == std::vector<std::string>{"old"});
  CHECK((*opened)->count() == 3000);
  saver.changed();
  CHECK_FALSE(saver.next_io(*ns, {}, now, io));  // seldom
  // A write that fails leaves nothing behind, and is said.
  now += RecordSaver::kInterval;
  REQUIRE(saver.next_io(*ns, {}, now, io));
  saver.io_over(ENOSPC);
  CHECK(saver.take_error() == ENOSPC);
  CHECK(directory.files(".tmp").empty());
  // Nor does one that cannot get its name.
  std::filesystem::remove(ns->record_path());
  std::filesystem::create_directory(ns->record_path());
  saver.changed();
  now += RecordSaver::kInterval;
  while (saver.next_io(*ns, {}, now, io)) saver.io_over(0);
  CHECK(saver.take_error() == EISDIR);
  CHECK(directory.files(".tmp").empty());
  ns->marker.remove();
}

}  // namespace
}  // namespace kv_offload
