#include "kv_offload/bench/inspect.hpp"

#include "kv_offload/tests/support/tier_fs_fixture.hpp"
#include "kv_offload/tests/tiers/extent_fixture.hpp"
#include "kv_offload/tiers/fs/file_mapper.hpp"
#include "kv_offload/tiers/fs/temp_files.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <sys/xattr.h>

using namespace kv_offload;
using bench::InspectOptions;
using test::ExtentFixture;
using test::FsFixture;
using test::tier_key;
using test::tier_keys;

namespace {

namespace fs = std::filesystem;

struct Outcome {
  int status = -1;
  std::string out, err;
  nlohmann::json json;
};
/// @param scratch  where the document goes
Outcome inspect(const test::TierDirectory& scratch, InspectOptions options) {
  const std::string file = scratch.path() + "/inspect.json";
  fs::remove(file);
  options.output.json_file = file;
  std::ostringstream out, err;
  Outcome outcome;
  outcome.status = bench::run_inspect(options, out, err);
  outcome.out = out.str();
  outcome.err = err.str();
  if (outcome.status != bench::kUsageError)
    outcome.json = nlohmann::json::parse(test::read_file(file));
  return outcome;
}
InspectOptions of(const std::string& path, bool verify = false) {
  InspectOptions options;
  options.path = path;
  options.verify = verify;
  return options;
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
/// Exit status 2 and one line with `part`.
bool is_refused(const Outcome& outcome, const std::string& part) {
  INFO(outcome.err);
  CHECK(outcome.status == 2);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.find("kv-offload-bench: ") == 0);
  CHECK(outcome.err.find('\n') + 1 == outcome.err.size());
  return contains(outcome.err, part);
}
/// Names and contents of everything below it.
std::map<std::string, std::string> everything(const std::string& path) {
  std::map<std::string, std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    found[entry.path().native()] = entry.is_regular_file() ? test::read_file(entry.path()) : "";
  return found;
}

FsFixture::Options anywhere() {
  FsFixture::Options options;
  options.io = IoMode::automatic;
  return options;
}
ExtentFixture::Options small_extent() {
  ExtentFixture::Options options;
  options.io = IoMode::automatic;
  return options;
}

TEST_CASE("inspect counts every kind of file that a file tier leaves", "[inspect]") {
  const test::TierDirectory scratch;
  FsFixture f(anywhere());
  f.identity.tenant = "acme-secret";
  f.start();
  f.store_named(0, 6);
  const std::string foreign = f.path_of(tier_key(1));
  REQUIRE(::removexattr(foreign.c_str(), kDigestAttribute) == 0);
  const std::string aside = f.path_of(tier_key(2));
  fs::rename(aside, aside + ".quarantined");
  std::string alive = f.path_of(tier_key(50));
  fs::create_directories(fs::path(alive).parent_path());
  TempNames().append_to(alive);
  test::write_file(alive, "1234");
  // Of this host, and no process has that number.
  std::string dead = alive;
  const auto pid = "-" + std::to_string(::getpid()) + "-";
  dead.replace(dead.rfind(pid), pid.size(), "-999999999-");
  test::write_file(dead, "12");
  test::write_file(fs::path(foreign).parent_path() / "notes.txt", "x");

  const auto before = everything(f.directory.path());
  const bool engine_runs = GENERATE(true, false);
  if (!engine_runs) f.stop();
  const Outcome outcome = inspect(scratch, of(f.directory.path(), true));
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 0);
  CHECK(outcome.err.empty());
  REQUIRE(outcome.json["kind"] == "fs");
  REQUIRE(outcome.json["namespaces"].size() == 1);
  const auto& ns = outcome.json["namespaces"][0];
  CHECK(ns["row_bytes"] == 65536);
  CHECK(ns["chunks"]["files"] == 5);
  CHECK(ns["chunks"]["bytes"] == 5 * 65536);
  CHECK(ns["chunks"]["allocated_bytes"] >= 5 * 65536);
  CHECK(ns["foreign"]["files"] == 1);
  CHECK(ns["verified"] == 4);
  CHECK(ns["quarantined"]["files"] == 1);
  CHECK(ns["being_written"]["bytes"] == 4);
  CHECK(ns["left_over"]["bytes"] == 2);
  CHECK(ns["other"]["files"] == 1);
  CHECK(outcome.json["damaged"]["count"] == 0);
  CHECK(contains(ns["identity"], "model_name model"));
  CHECK(contains(ns["identity"], "tenant (set)"));
  CHECK_FALSE(contains(outcome.out + outcome.json.dump(), "acme-secret"));
  CHECK(contains(outcome.out, "quarantined"));
  if (engine_runs) CHECK(everything(f.directory.path()) == before);
}

TEST_CASE("inspect --verify names exactly the chunks that are damaged", "[inspect]") {
  const test::TierDirectory scratch;
  FsFixture f(anywhere());
  f.start();
  f.store_named(0, 8);
  const auto path = [&](std::uint64_t name) { return f.path_of(tier_key(name)); };
  test::flip_byte(path(3), 1000);
  CHECK(inspect(scratch, of(f.directory.path())).status == 0);  // only bytes: nobody read them
  Outcome outcome = inspect(scratch, of(f.directory.path(), true));
  CHECK(outcome.status == 1);
  CHECK(contains(outcome.err, "1 damaged"));
  CHECK(contains(outcome.out, "damaged: " + path(3) + ": its bytes do not have its digest"));
  CHECK(outcome.json["damaged"]["named"].size() == 1);
  CHECK(outcome.json["damaged"]["named"][0]["where"] == path(3));
  CHECK(outcome.json["namespaces"][0]["verified"] == 7);

  // Two files that changed places, one that is short, one whose digest is no digest, one elsewhere.
  fs::rename(path(0), path(0) + ".moving");
  fs::rename(path(1), path(0));
  fs::rename(path(0) + ".moving", path(1));
  fs::resize_file(path(2), 4096);
  REQUIRE(::setxattr(path(4).c_str(), kDigestAttribute, "nonsense", 8, 0) == 0);
  const std::string elsewhere =
      (fs::path(path(5)).parent_path() / fs::path(path(6)).filename()).string();
  fs::rename(path(6), elsewhere);
  outcome = inspect(scratch, of(f.directory.path(), true));
  INFO(outcome.out);
  CHECK(outcome.status == 1);
  CHECK(outcome.json["damaged"]["count"] == 6);
  for (const auto name : {0, 1}) CHECK(contains(outcome.out, path(name) + ": its bytes"));
  CHECK(contains(outcome.out, path(2) + ": has 4096 bytes, a row 65536"));
  CHECK(contains(outcome.out, path(4) + ": its digest cannot be read"));
  CHECK(contains(outcome.out, elsewhere + ": lies where no load looks for it"));
  CHECK(outcome.json["namespaces"][0]["verified"] == 2);

  InspectOptions few = of(f.directory.path(), true);
  few.limit = 2;
  outcome = inspect(scratch, few);
  CHECK(outcome.json["damaged"]["count"] == 6);
  CHECK(outcome.json["damaged"]["named"].size() == 2);
  CHECK(contains(outcome.out, "damaged: 4 more"));
}

TEST_CASE("inspect --purge-quarantined removes those files and no other", "[inspect]") {
  const test::TierDirectory scratch;
  FsFixture f(anywhere());
  f.start();
  f.store_named(0, 4);
  for (const std::uint64_t name : {1, 3})
    fs::rename(f.path_of(tier_key(name)), f.path_of(tier_key(name)) + ".quarantined");
  InspectOptions options = of(f.directory.path());
  options.purge_quarantined = true;
  const Outcome outcome = inspect(scratch, options);
  CHECK(outcome.status == 0);
  CHECK(outcome.json["namespaces"][0]["purged"] == 2);
  CHECK(outcome.json["namespaces"][0]["quarantined"]["files"] == 0);
  CHECK(f.directory.files(".quarantined").empty());
  CHECK(f.directory.files(".bin").size() == 2);
  CHECK(f.load(tier_keys(0, 1), 8).success);
}

TEST_CASE("inspect follows no link, and purges nothing where it does not know the namespace",
          "[inspect]") {
  const test::TierDirectory scratch, outside;
  FsFixture f(anywhere());
  f.start();
  f.store_named(0, 2);
  const std::string aside = f.path_of(tier_key(1)) + ".quarantined";
  fs::rename(f.path_of(tier_key(1)), aside);
  const std::string chunk_dir = fs::path(aside).parent_path().parent_path().parent_path();
  InspectOptions options = of(f.directory.path());
  options.purge_quarantined = true;
  SECTION("a link to a namespace") {
    fs::rename(chunk_dir, outside.path() + "/elsewhere");
    fs::create_symlink(outside.path() + "/elsewhere", chunk_dir);
    CHECK(is_refused(inspect(scratch, options), "holds no chunks"));
    CHECK(outside.files(".quarantined").size() == 1);
  }
  SECTION("a link within one") {
    const fs::path middle = fs::path(aside).parent_path();
    fs::rename(middle, outside.path() + "/elsewhere");
    fs::create_symlink(outside.path() + "/elsewhere", middle);
    CHECK(inspect(scratch, options).json["namespaces"][0]["purged"] == 0);
    CHECK(outside.files(".quarantined").size() == 1);
  }
  SECTION("no identity") {
    fs::remove(chunk_dir.substr(0, chunk_dir.rfind("_r")) + "/config.json");
    const Outcome outcome = inspect(scratch, options);
    CHECK(outcome.status == 1);
    CHECK(outcome.json["namespaces"][0]["purged"] == 0);
    CHECK(fs::exists(aside));
  }
}

TEST_CASE("inspect waits for no pipe and reads no device", "[inspect]") {
  const test::TierDirectory scratch;
  FsFixture f(anywhere());
  f.start();
  f.store_named(0, 2);
  const std::string path = f.path_of(tier_key(1));
  const std::string config = FileMapper::make(f.directory.path(), f.identity)->config_path();
  SECTION("in a chunk's place") {
    fs::remove(path);
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    const Outcome outcome = inspect(scratch, of(f.directory.path(), true));
    CHECK(outcome.status == 0);
    CHECK(outcome.json["namespaces"][0]["chunks"]["files"] == 1);
    CHECK(outcome.json["namespaces"][0]["other"]["files"] == 1);
  }
  SECTION("a pipe for the identity") {
    fs::remove(config);
    REQUIRE(::mkfifo(config.c_str(), 0600) == 0);
    const Outcome outcome = inspect(scratch, of(f.directory.path(), true));
    CHECK(outcome.status == 1);
    CHECK(contains(outcome.out, config + ": is not a regular file"));
  }
  SECTION("a device for the identity") {
    fs::remove(config);
    fs::create_symlink("/dev/zero", config);
    CHECK(
        contains(inspect(scratch, of(f.directory.path())).out, config + ": is not a regular file"));
  }
}

TEST_CASE("inspect shows each namespace of a root, and one without its identity is damage",
          "[inspect]") {
  const test::TierDirectory scratch;
  FsFixture f(anywhere());
  f.start();
  f.store_named(0, 2);
  f.identity.rank = 1;
  f.start();
  f.store_named(0, 1);
  f.identity.model_name = "other/model";
  f.start();
  f.store_named(0, 3);
  f.stop();
  Outcome outcome = inspect(scratch, of(f.directory.path() + "/", true));
  INFO(outcome.out);
  CHECK(outcome.status == 0);
  REQUIRE(outcome.json["namespaces"].size() == 3);
  std::uint64_t verified = 0;
  for (const auto& ns : outcome.json["namespaces"]) verified += ns["verified"].get<std::uint64_t>();
  CHECK(verified == 6);

  const auto mapper = FileMapper::make(f.directory.path(), f.identity);
  const std::string text = test::read_file(mapper->config_path());
  SECTION("cut short") {
    test::write_file(mapper->config_path(), text.substr(0, text.size() / 2));
    outcome = inspect(scratch, of(f.directory.path(), true));
    CHECK(contains(outcome.out, "config.json: damaged, not a JSON object"));
  }
  SECTION("of another namespace") {
    std::string other = text;
    other.replace(other.find("other/model"), 11, "third/model");
    test::write_file(mapper->config_path(), other);
    outcome = inspect(scratch, of(f.directory.path(), true));
    CHECK(contains(outcome.out, "describes another namespace than the directory's name"));
  }
  SECTION("gone") {
    fs::remove(mapper->config_path());
    outcome = inspect(scratch, of(f.directory.path(), true));
    CHECK(contains(outcome.out, "config.json: No such file or directory"));
  }
  CHECK(outcome.status == 1);
  CHECK(outcome.json["damaged"]["count"] == 1);
}

TEST_CASE("inspect counts what an extent file holds and verifies its rows, also in use",
          "[inspect]") {
  const test::TierDirectory scratch;
  ExtentFixture f(small_extent());
  f.start();
  f.store_named(0, 20);
  const bool engine_runs = GENERATE(true, false);
  if (!engine_runs) f.stop();
  const std::string before = test::read_file(f.config.path);
  const Outcome outcome = inspect(scratch, of(f.config.path, true));
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 0);
  REQUIRE(outcome.json["kind"] == "extent");
  const auto& e = outcome.json["extent"];
  CHECK(e["in_use"] == engine_runs);
  CHECK(contains(outcome.out, "in use: ") == engine_runs);
  CHECK(e["clean_stop"] == !engine_runs);
  CHECK(e["chunks"] == 20);
  CHECK(e["verified"] == 20);
  CHECK(e["row_bytes"] == 4096);
  CHECK(e["segments"] == 6);
  CHECK(e["slots_per_segment"] == 8);
  CHECK(e["free_segments"] == 3);
  CHECK(e["dead_slots"] == 0);
  CHECK(e["model"] == "model");
  CHECK(e["fingerprint"].get<std::string>().size() == 32);
  CHECK(test::read_file(f.config.path) == before);
  if (engine_runs) f.store_named(100, 2);  // it was not disturbed
  if (engine_runs) CHECK(f.loads_named(100));
}

TEST_CASE("rows stored without a digest are counted, not damaged", "[inspect]") {
  const test::TierDirectory scratch;
  ExtentFixture f(small_extent());
  f.config.checksum = false;
  f.start();
  f.store_named(0, 3);
  f.config.checksum = true;
  f.start();
  f.store_named(3, 2);
  f.stop();
  const Outcome outcome = inspect(scratch, of(f.config.path, true));
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 0);
  CHECK(outcome.json["extent"]["verified"] == 2);
  CHECK(outcome.json["extent"]["without_digest"] == 3);
  CHECK(contains(outcome.out, "3 were stored without one"));
}

TEST_CASE("inspect names the rows of an extent file that are damaged", "[inspect]") {
  const test::TierDirectory scratch;
  ExtentFixture f(small_extent());
  f.start();
  f.store_named(0, 10);
  const bool engine_runs = GENERATE(true, false);
  if (!engine_runs) f.stop();
  test::flip_byte(f.config.path, static_cast<std::streamoff>(f.geometry().row_at(3) + 17));
  CHECK(inspect(scratch, of(f.config.path)).status == 0);
  const Outcome outcome = inspect(scratch, of(f.config.path, true));
  INFO(outcome.out);
  CHECK(outcome.status == 1);
  CHECK(outcome.json["damaged"]["count"] == 1);
  CHECK(contains(outcome.out, "damaged: segment 0 row 3 key "));
  CHECK(outcome.json["extent"]["verified"] == 9);
}

TEST_CASE("inspect tells dead rows and those of other revisions", "[inspect]") {
  const test::TierDirectory scratch;
  ExtentFixture f(small_extent());
  f.start();
  f.store_named(0, 8);
  REQUIRE(f.tier->forget(1, tier_keys(0, 2)));
  REQUIRE(f.sink.wait_forgot(1));
  REQUIRE(f.tier->set_revision("v2"));
  f.store_named(50, 4);
  f.stop();
  const Outcome outcome = inspect(scratch, of(f.config.path, true));
  INFO(outcome.out);
  CHECK(outcome.status == 0);
  const auto& e = outcome.json["extent"];
  CHECK(e["chunks"] == 10);
  CHECK(e["dead_slots"] == 2);
  CHECK(e["dead_share"].get<double>() == Approx(2.0 / 12));
  CHECK(e["verified"] == 6);
  CHECK(e["other_revisions"] == 4);
}

TEST_CASE(
    "the namespace of an extent file comes from the configuration where it is not the default",
    "[inspect]") {
  const test::TierDirectory scratch;
  ExtentFixture f(small_extent());
  f.identity.dtype = "fp8";
  f.identity.revision = "r7";
  f.start();
  f.store_named(0, 5);
  f.stop();
  CHECK(inspect(scratch, of(f.config.path)).status == 0);
  InspectOptions options = of(f.config.path, true);
  CHECK(is_refused(inspect(scratch, options), "give the engine's document with --config"));
  const auto config = [&](const std::string& dtype) {
    const std::string file = scratch.path() + "/" + dtype + ".json";
    test::write_file(file, R"({"chunk_bytes": 4096, "cpu_bytes_to_use": 1048576, "revision": "r7",
                               "identity": {"dtype": ")" +
                               dtype + "\"}}");
    return file;
  };
  options.config_file = config("fp16");
  CHECK(is_refused(inspect(scratch, options), "another namespace than the configuration's"));
  options.config_file = config("fp8");
  const Outcome outcome = inspect(scratch, options);
  CHECK(outcome.status == 0);
  CHECK(outcome.json["extent"]["verified"] == 5);
  options.config_file = scratch.path() + "/missing.json";
  CHECK(is_refused(inspect(scratch, options), "missing.json"));
}

TEST_CASE("inspect refuses what is neither kind in one line", "[inspect]") {
  const test::TierDirectory scratch;
  const test::TierDirectory other;
  CHECK(is_refused(inspect(scratch, of(other.path() + "/none")), "No such file or directory"));
  CHECK(is_refused(inspect(scratch, of(other.path())), "holds no chunks of a file tier"));
  test::write_file(other.path() + "/text", std::string(10'000, 'x'));
  CHECK(is_refused(inspect(scratch, of(other.path() + "/text")), "is not an extent file"));
  test::write_file(other.path() + "/empty", "");
  CHECK(is_refused(inspect(scratch, of(other.path() + "/empty")), "holds nothing"));
  CHECK(is_refused(inspect(scratch, of("/dev/null")), "is not a regular file"));

  InspectOptions options = of(other.path());
  options.config_file = "x.json";
  CHECK(is_refused(inspect(scratch, options), "--config is for an extent file"));
  options = of(other.path() + "/text");
  options.purge_quarantined = true;
  CHECK(
      is_refused(inspect(scratch, options), "--purge-quarantined is for a file tier's directory"));
  options = of(other.path());
  options.output.json_file = other.path() + "/no/such/place.json";
  std::ostringstream out, err;
  CHECK(bench::run_inspect(options, out, err) == 2);
}

TEST_CASE("inspect refuses an extent file that was cut off or overwritten", "[inspect]") {
  const test::TierDirectory scratch;
  ExtentFixture f(small_extent());
  f.start();
  f.store_named(0, 5);
  f.stop();
  const auto size = fs::file_size(f.config.path);
  SECTION("cut off") {
    const auto length = GENERATE_COPY(size - 1, size / 2, std::uintmax_t{8192});
    fs::resize_file(f.config.path, length);
    CHECK(is_refused(inspect(scratch, of(f.config.path, true)), "is truncated, "));
  }
  SECTION("in its first block") {
    fs::resize_file(f.config.path, 4000);
    CHECK(is_refused(inspect(scratch, of(f.config.path)), "is truncated, "));
  }
  SECTION("both superblocks damaged") {
    test::flip_byte(f.config.path, 20);
    test::flip_byte(f.config.path, 4096 + 20);
    CHECK(is_refused(inspect(scratch, of(f.config.path)), "both superblocks are damaged"));
  }
  SECTION("one superblock damaged") {
    test::flip_byte(f.config.path, 20);
    const Outcome outcome = inspect(scratch, of(f.config.path, true));
    CHECK(outcome.status == 1);
    CHECK(contains(outcome.out, "one of two superblocks"));
    CHECK(outcome.json["extent"]["verified"] == 5);
  }
}

}  // namespace
