#include "kv_offload/tests/tiers/extent_fixture.hpp"
#include "kv_offload/tiers/io/scripted_backend.hpp"

#include <catch2/catch.hpp>

#include <cerrno>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kv_offload {
namespace {

using test::ExtentFixture;
using test::tier_keys;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A file system of its own on the fixture's directory.
class ExtentMount {
 public:
  ExtentMount(const std::string& path, const char* type, const char* options) : path_(path) {
    static const bool is_private =
        ::unshare(CLONE_NEWNS) == 0 &&
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    is_mounted_ = is_private && ::mount(type, path.c_str(), type, 0, options) == 0;
  }
  ~ExtentMount() {
    if (is_mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  ExtentMount(const ExtentMount&) = delete;
  ExtentMount& operator=(const ExtentMount&) = delete;
  [[nodiscard]] bool is_mounted() const { return is_mounted_; }

 private:
  std::string path_;
  bool is_mounted_ = false;
};

#define KV_OFFLOAD_NEEDS_EXTENT_MOUNT(mount)                       \
  if (!(mount).is_mounted()) {                                     \
    WARN("skipped: mounting a file system is not permitted here"); \
    return;                                                        \
  }

ExtentFixture::Options scripted() {
  ExtentFixture::Options options;
  options.make_backend = [](const LaneOptions&) { return std::make_unique<ScriptedBackend>(); };
  return options;
}

TEST_CASE("a path that cannot be a file of chunks is one clear line, and nothing is created",
          "[extent]") {
  ExtentFixture f(scripted());
  f.config.path = f.directory.path() + "/no/such/directory";
  CHECK(f.start_error() == "1:extent: path " + f.config.path + ": No such file or directory");
  f.config.path = f.directory.path();
  CHECK(contains(f.start_error(), "is not a regular file"));
  f.config.path = "/dev/null";
  CHECK(contains(f.start_error(), "is not a regular file"));
  CHECK(f.directory.is_empty());
}

TEST_CASE("where io_uring is forbidden an extent tier says so and creates nothing", "[extent]") {
  ExtentFixture::Options options;
  options.make_backend = [](const LaneOptions&) {
    ScriptedBackend::Options device;
    device.open_error = "io_uring is not available (io_uring_setup: Operation not permitted)";
    return std::make_unique<ScriptedBackend>(ScriptedBackend::Script{}, device);
  };
  ExtentFixture f(options);
  CHECK(contains(f.start_error(), "io_uring is not available"));
  CHECK(f.directory.is_empty());
}

TEST_CASE("a file that is not ours is refused and left as it is", "[extent]") {
  ExtentFixture f(scripted());
  const std::string text(100'000, 'x');
  test::write_file(f.config.path, text);
  CHECK(contains(f.start_error(), "is not an extent file"));
  CHECK(test::read_file(f.config.path) == text);
  test::write_file(f.config.path, "short");
  CHECK(contains(f.start_error(), "is not an extent file"));
  CHECK(test::read_file(f.config.path) == "short");
}

TEST_CASE("an empty file and one of zeros are formatted", "[extent]") {
  ExtentFixture f(scripted());
  test::write_file(f.config.path, std::string(GENERATE(0U, 100'000U), '\0'));
  f.start();
  f.store_named(0, 4);
  f.start();
  CHECK(f.present(0, 4).size() == 4);
  CHECK(std::filesystem::file_size(f.config.path) == f.config.capacity_bytes);
}

TEST_CASE("a new file is its owner's alone", "[extent]") {
  ExtentFixture f(scripted());
  f.start();
  CHECK(std::filesystem::status(f.config.path).permissions() ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
}

TEST_CASE("what does not fit the file is refused and both sides are named", "[extent]") {
  ExtentFixture f(scripted());
  f.identity.model_name = "mine";
  f.start();
  f.store_named(0, 4);
  f.stop();
  const auto capacity = f.config.capacity_bytes;
  f.identity.model_name = "other";
  CHECK(contains(f.start_error(),
                 "holds chunks of another namespace (model \"mine\", here \"other\")"));
  f.identity.model_name = "mine";
  f.identity.rank = 1;
  CHECK(contains(f.start_error(), "another namespace"));
  f.identity.rank = 0;
  f.config.capacity_bytes += 1U << 20;
  CHECK(contains(f.start_error(), "was made with capacity_bytes"));
  f.config.capacity_bytes = capacity;
  f.config.segment_bytes /= 2;
  CHECK(contains(f.start_error(), "segment_bytes"));
  f.config.segment_bytes *= 2;
  f.start();
  CHECK(f.present(0, 4).size() == 4);
  f.stop();

  ExtentFixture::Options larger = scripted();
  larger.row_bytes = 8192;
  ExtentFixture g(larger);
  g.identity.model_name = "mine";
  g.config.path = f.config.path;
  CHECK(contains(g.start_error(), "holds chunks of 4096 bytes, but a row here has 8192"));
}

TEST_CASE("another version of the format is refused by its number", "[extent]") {
  ExtentFixture f(scripted());
  f.start();
  f.stop();
  {
    std::fstream file(f.config.path, std::ios::binary | std::ios::in | std::ios::out);
    for (const int at : {8, 4096 + 8}) {
      file.seekp(at);
      file.put(7);
    }
  }
  CHECK(contains(f.start_error(), "has format version 7, this build reads version 1"));
}

TEST_CASE("one damaged superblock is repaired from the other, two are refused", "[extent]") {
  ExtentFixture f(scripted());
  f.start();
  f.store_named(0, 4);
  f.stop();
  const std::streamoff at = GENERATE(0, 20, 4096, 4096 + 60);
  test::flip_byte(f.config.path, at);
  f.start();
  CHECK(contains(f.log(), "one of two superblocks was damaged"));
  CHECK(f.present(0, 4).size() == 4);
  f.stop();
  test::flip_byte(f.config.path, 100);
  f.start();  // the repaired one serves
  CHECK(f.present(0, 4).size() == 4);
  f.stop();
  test::flip_byte(f.config.path, 100);
  test::flip_byte(f.config.path, 4096 + 100);
  CHECK(contains(f.start_error(), "both superblocks are damaged"));
}

TEST_CASE("chunks of another revision are not found, and found again when it comes back",
          "[extent]") {
  ExtentFixture f(scripted());
  f.start();
  f.store_named(0, 4);
  REQUIRE(f.tier->set_revision("two"));
  CHECK(f.present(0, 4).empty());
  CHECK(f.tier->lookup(test::tier_key(0)) == LookupResult::miss);
  for (ChunkId i = 0; i < 4; ++i) f.memory.fill(i, 100 + i);
  REQUIRE(f.store(tier_keys(0, 4)).success);  // the same keys, other bytes
  CHECK(f.load(tier_keys(0, 1), 8).success);
  CHECK(f.memory.holds(8, 100));
  f.start();  // the fixture's identity has no revision
  CHECK(f.present(0, 4).size() == 4);
  CHECK(f.loads_named(0));
  f.identity.revision = "two";
  f.start();
  CHECK(f.load(tier_keys(0, 1), 8).success);
  CHECK(f.memory.holds(8, 100));
}

TEST_CASE("a file has one engine at a time, in this process and in others", "[extent]") {
  ExtentFixture f(scripted());
  f.start();
  f.store_named(0, 4);
  ExtentFixture g(scripted());
  g.config.path = f.config.path;
  CHECK(contains(g.start_error(), "is in use by another engine"));
  f.stop();
  g.start();
  CHECK(g.present(0, 4).size() == 4);
}

TEST_CASE("a file that was cut is extended again, what was cut off is gone", "[extent]") {
  ExtentFixture f(scripted());
  f.start();
  f.store_named(0, 40);
  f.stop();
  const auto g = f.geometry();
  std::filesystem::resize_file(f.config.path, g.segment_at(2) + 100);
  f.start();
  CHECK(contains(f.log(), "what was cut off is lost"));
  CHECK(f.present(0, 40).size() == 16);
  for (std::uint64_t name = 0; name < 16; ++name) CHECK(f.loads_named(name));
  f.store_named(100, 24);
  CHECK(f.present(100, 24).size() == 24);
  CHECK(std::filesystem::file_size(f.config.path) == f.config.capacity_bytes);
}

TEST_CASE("no space for the file is one clear line and leaves nothing", "[extent]") {
  ExtentFixture f(scripted());
  const ExtentMount mount(f.directory.path(), "tmpfs", "size=128k");
  KV_OFFLOAD_NEEDS_EXTENT_MOUNT(mount);
  CHECK(contains(f.start_error(), "No space left on device"));
  CHECK(f.directory.is_empty());
}

TEST_CASE("a read-only file system is one clear line", "[extent]") {
  ExtentFixture f(scripted());
  const ExtentMount mount(f.directory.path(), "tmpfs", "size=4m");
  KV_OFFLOAD_NEEDS_EXTENT_MOUNT(mount);
  f.start();
  f.stop();
  REQUIRE(::mount("tmpfs", f.directory.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) ==
          0);
  CHECK(contains(f.start_error(), "Read-only file system"));
}

TEST_CASE("without direct I/O the file is buffered, which is said", "[extent]") {
  ExtentFixture f(scripted());
  const ExtentMount mount(f.directory.path(), "ramfs", "");
  KV_OFFLOAD_NEEDS_EXTENT_MOUNT(mount);
  f.start();
  CHECK(contains(f.log(), "buffered I/O: O_DIRECT does not work"));
  f.store_named(0, 12);
  f.start();
  for (std::uint64_t name = 0; name < 12; ++name) CHECK(f.loads_named(name));
  f.stop();
}

TEST_CASE("too many open files is one clear line", "[extent]") {
  ExtentFixture f(scripted());
  const pid_t child = ::fork();  // the limit is the process', the lane's threads are not
  REQUIRE(child >= 0);
  if (child == 0) {
    rlimit none{};
    none.rlim_cur = none.rlim_max = 3;
    ::setrlimit(RLIMIT_NOFILE, &none);
    ExtentFile::Wanted wanted;
    wanted.path = f.config.path;
    wanted.capacity_bytes = f.config.capacity_bytes;
    wanted.segment_bytes = f.config.segment_bytes;
    wanted.row_bytes = 4096;
    const auto file = ExtentFile::open(wanted);
    ::_exit(!file && contains(file.error().detail, "Too many open files") ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("a start that failed leaves no descriptor and the next one works", "[extent][io]") {
  KV_OFFLOAD_NEEDS_URING();
  ExtentFixture f;
  const std::size_t before = test::open_descriptors();
  const std::string path = f.config.path;
  f.config.path = f.directory.path();
  f.start_error();
  f.tier.reset();
  CHECK(test::open_descriptors() == before);
  f.config.path = path;
  f.start();
  f.store_named(0, 2);
  f.stop();
  f.tier.reset();
  CHECK(test::open_descriptors() == before);
}

}  // namespace
}  // namespace kv_offload
