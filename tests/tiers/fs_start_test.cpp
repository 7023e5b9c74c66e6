#include "kv_offload/tests/support/tier_fs_fixture.hpp"
#include "kv_offload/tiers/fs/temp_files.hpp"
#include "kv_offload/tiers/io/scripted_backend.hpp"

#include <catch2/catch.hpp>

#include <cerrno>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kv_offload {
namespace {

using test::FsFixture;
using test::tier_key;
using test::tier_keys;

std::string start_error(FsFixture& f) {
  const auto started = f.try_start();
  REQUIRE_FALSE(started);
  CHECK(started.error().detail.find("1:fs: ") == 0);
  CHECK(started.error().detail.find('\n') == std::string::npos);
  return started.error().detail;
}

/// A file system of its own below the fixture's directory, gone with this process at the latest.
class Mount {
 public:
  Mount(const std::string& path, const char* type, const char* options) : path_(path) {
    static const bool is_private =
        ::unshare(CLONE_NEWNS) == 0 &&
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    is_mounted_ = is_private && ::mount(type, path.c_str(), type, 0, options) == 0;
  }
  ~Mount() {
    if (is_mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  [[nodiscard]] bool is_mounted() const { return is_mounted_; }

 private:
  std::string path_;
  bool is_mounted_ = false;
};

#define KV_OFFLOAD_NEEDS_MOUNT(mount)                              \
  if (!(mount).is_mounted()) {                                     \
    WARN("skipped: mounting a file system is not permitted here"); \
    return;                                                        \
  }

TEST_CASE("a root that is missing or no directory is one clear line", "[fs]") {
  FsFixture f;
  f.config.root_dir = f.directory.path() + "/missing";
  CHECK(start_error(f) == "1:fs: root_dir " + f.config.root_dir + ": No such file or directory");
  CHECK_FALSE(std::filesystem::exists(f.config.root_dir));
  f.config.root_dir = f.directory.path() + "/file";
  test::write_file(f.config.root_dir, "x");
  CHECK(start_error(f) == "1:fs: root_dir " + f.config.root_dir + ": Not a directory");
}

TEST_CASE("where io_uring is forbidden the start says so and creates nothing", "[fs]") {
  FsFixture::Options options;
  options.make_backend = [](const LaneOptions&) {
    ScriptedBackend::Options device;
    device.open_error = "io_uring is not available (io_uring_setup: Operation not permitted)";
    return std::make_unique<ScriptedBackend>(ScriptedBackend::Script{}, device);
  };
  FsFixture f(options);
  CHECK(start_error(f).find("io_uring is not available") != std::string::npos);
  CHECK(f.directory.is_empty());
}

TEST_CASE("a row that direct I/O cannot move is refused", "[fs]") {
  FsFixture::Options options;
  options.row_bytes = 5000;
  options.num_chunks = 4096;
  FsFixture f(options);
  const auto made = f.try_start();
  REQUIRE_FALSE(made);
  CHECK(made.error().detail.find("row_bytes 5000") != std::string::npos);
}

TEST_CASE("config.json holds the identity and is written once", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  const auto mapper = FileMapper::make(f.directory.path(), f.identity);
  CHECK(test::read_file(mapper->config_path()) == mapper->config_text());
  // Other white space is the same identity; the file stays as it is.
  test::write_file(mapper->config_path(), mapper->identity_json());
  f.start();
  CHECK(test::read_file(mapper->config_path()) == mapper->identity_json());
  // Half a file is repaired.
  test::write_file(mapper->config_path(), "{\"model_na");
  f.start();
  CHECK(test::read_file(mapper->config_path()) == mapper->config_text());
}

TEST_CASE("a directory that describes another namespace is an error", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  const auto mapper = FileMapper::make(f.directory.path(), f.identity);
  test::write_file(mapper->config_path(), R"({"model_name": "other"})");
  CHECK(start_error(f).find("describes another namespace") != std::string::npos);
}

TEST_CASE("a start waits for no pipe, and nothing that is no file describes a namespace",
          "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  f.stop();
  const std::string config = FileMapper::make(f.directory.path(), f.identity)->config_path();
  std::filesystem::remove(config);
  SECTION("a pipe") { REQUIRE(::mkfifo(config.c_str(), 0600) == 0); }
  SECTION("a device") { std::filesystem::create_symlink("/dev/zero", config); }
  SECTION("a directory") { std::filesystem::create_directory(config); }
  CHECK(start_error(f) == "1:fs: " + config + ": is not a regular file");
}

TEST_CASE("the start says what it got", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.config.without_effect = {"n_read_threads"};
  f.start();
  const bool has_ring = test::test_io() == IoMode::uring;
  CHECK(f.log().find(has_ring ? "direct I/O, io_uring" : "direct I/O, 16 I/O threads") !=
        std::string::npos);
  CHECK(f.log().find("n_read_threads") != std::string::npos);
}

TEST_CASE("a second start after a failed one works", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  const std::string root = f.config.root_dir;
  const std::size_t before = test::open_descriptors();
  f.config.root_dir = root + "/missing";
  start_error(f);
  f.tier.reset();
  CHECK(test::open_descriptors() == before);
  f.config.root_dir = root;
  f.start();
  f.store_named(0, 1);
}

TEST_CASE("temporary files of dead writers are removed, those of living ones kept", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.start();
  f.store_named(0, 1);
  const std::string path = f.path_of(tier_key(0));
  // What a killed process leaves: a name with its pid.
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::string name = path;
    TempNames().append_to(name);
    test::write_file(name, "half");
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  std::string ours = path;
  TempNames().append_to(ours);
  test::write_file(ours, "being written by this process");
  const std::string parent = std::to_string(::getppid());
  std::string living = ours;  // the same host, another pid
  living.replace(living.rfind(std::to_string(::getpid())), std::to_string(::getpid()).size(),
                 parent);
  test::write_file(living, "being written");
  const std::string fresh = path + "_123456789.tmp";  // of another program
  const std::string stale = path + "_987654321.tmp";
  test::write_file(fresh, "x");
  test::write_file(stale, "x");
  const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::hours(2);
  std::filesystem::last_write_time(stale, old);
  std::string reborn = path;
  TempNames().append_to(reborn);
  test::write_file(reborn, "x");
  std::filesystem::last_write_time(reborn, old);
  REQUIRE(f.directory.files(".tmp").size() == 6);

  f.start();
  auto left = f.directory.files(".tmp");
  std::sort(left.begin(), left.end());
  std::vector<std::string> expected{ours, living, fresh};
  std::sort(expected.begin(), expected.end());
  CHECK(left == expected);
  CHECK(f.log().find("3 removed, 3 kept") != std::string::npos);
  CHECK(f.probe(tier_keys(0, 1)) == std::vector{LookupResult::hit});
}

TEST_CASE("a sweep without time says that it is not complete", "[fs]") {
  test::TierDirectory directory;
  test::write_file(directory.path() + "/a_123.tmp", "x");
  CHECK_FALSE(sweep_temp_files(directory.path(), -std::chrono::seconds(1)).is_complete);
  CHECK(sweep_temp_files(directory.path(), std::chrono::seconds(10)).is_complete);
  CHECK_FALSE(sweep_temp_files(directory.path() + "/none", std::chrono::seconds(10)).is_complete);
}

TEST_CASE("no two temporary names are the same", "[fs]") {
  TempNames a;
  TempNames b;
  std::string first;
  std::string second;
  std::string third;
  a.append_to(first);
  a.append_to(second);
  b.append_to(third);
  CHECK(first != second);
  CHECK(first != third);
  CHECK(first.ends_with(".tmp"));
}

TEST_CASE("without user attributes the start names checksum: off, which then works", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  const Mount mount(f.directory.path(), "ramfs", "");
  KV_OFFLOAD_NEEDS_MOUNT(mount);
  CHECK(start_error(f).find("checksum: off") != std::string::npos);
  f.config.checksum = false;
  f.start();
  // ramfs has no direct I/O either.
  CHECK(f.log().find("buffered I/O: O_DIRECT does not work") != std::string::npos);
  f.store_named(0, 3);
  REQUIRE(f.load(tier_keys(0, 3), 8).success);
  for (ChunkId i = 0; i < 3; ++i) CHECK(f.memory.holds(8 + i, i));
  f.stop();
}

TEST_CASE("a full disk fails the stores it cannot take and nothing else", "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.config.checksum = false;  // older kernels have no user attributes on tmpfs
  const Mount mount(f.directory.path(), "tmpfs", "size=400k");
  KV_OFFLOAD_NEEDS_MOUNT(mount);
  f.start();
  const JobResult result = f.store(tier_keys(0, 12));
  CHECK_FALSE(result.success);
  CHECK(result.failure == TransferFailure::no_space);
  CHECK(result.error_number == ENOSPC);
  const auto stored =
      static_cast<std::size_t>(std::count(result.fates.begin(), result.fates.end(), KeyFate::done));
  CHECK(stored >= 1);
  CHECK(stored < 12);
  CHECK(f.directory.files(".bin").size() == stored);
  CHECK(f.directory.files(".tmp").empty());
  // Room again, stores again.
  for (const auto& file : f.directory.files(".bin")) std::filesystem::remove(file);
  CHECK(f.store(tier_keys(0, 1)).success);
  f.stop();
}

TEST_CASE("a read-only file system is one clear line at start, and failed stores later",
          "[fs][io]") {
  KV_OFFLOAD_NEEDS_URING();
  FsFixture f;
  f.config.checksum = false;
  const Mount mount(f.directory.path(), "tmpfs", "size=4m");
  KV_OFFLOAD_NEEDS_MOUNT(mount);
  f.start();
  f.store_named(0, 1);
  REQUIRE(::mount("tmpfs", f.directory.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) ==
          0);
  const JobResult result = f.store(tier_keys(5, 1));
  CHECK(result.failure == TransferFailure::io_error);
  CHECK(result.error_number == EROFS);
  CHECK(f.load(tier_keys(0, 1), 8).success);
  CHECK(start_error(f).find("Read-only file system") != std::string::npos);
}

}  // namespace
}  // namespace kv_offload
