#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tests/workers/left_behind.hpp"
#include "kv_offload/tiers/primary/joined_region.hpp"
#include "kv_offload/tiers/primary/region.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace kv_offload::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

RegionOptions options_for(const std::string& file, std::uint32_t world_size = 2,
                          const std::string& engine = "engine-a") {
  RegionOptions options;
  options.num_chunks = 4;
  options.chunk_bytes = 8192;
  options.threads = 1;
  RegionSharing sharing;
  sharing.record.engine_id = engine;
  sharing.record.world_size = world_size;
  sharing.record.fingerprint = "f1";
  sharing.record.revision = "r1";
  sharing.file = file;
  options.shared = sharing;
  return options;
}
constexpr std::uint64_t kWhole = kRegionRowsOffset + 4 * 8192;

std::unique_ptr<Region> make(const RegionOptions& options) {
  auto made = Region::create(options);
  INFO((made ? "" : made.error().detail));
  REQUIRE(made.has_value());
  return std::move(*made);
}

Expected<std::unique_ptr<JoinedRegion>> find(const std::string& file, std::uint32_t rank,
                                             Duration patience = 0s,
                                             RegionExpectation expected = {}) {
  JoinedRegion::Named named;
  named.path = file;
  named.patience = patience;
  return JoinedRegion::find(named, {rank, std::move(expected)});
}

std::string error_of(const Expected<std::unique_ptr<JoinedRegion>>& joined) {
  return joined ? "" : joined.error().detail;
}

/// A process that has one end of a pipe: tells, waits, is killed at the end.
class Child {
 public:
  template <class F>
  explicit Child(F what) {
    REQUIRE(::pipe2(to_.data(), O_CLOEXEC) == 0);
    REQUIRE(::pipe2(from_.data(), O_CLOEXEC) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ != 0) return;
    what(*this);
    ::_exit(0);
  }
  ~Child() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    reap();
    for (int* pipe : {to_.data(), from_.data()})
      for (int i = 0; i < 2; ++i) ::close(pipe[i]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  // In the child.
  void tell(char c) { or_die(::write(from_[1], &c, 1)); }
  char wait() {
    char c = 0;
    return ::read(to_[0], &c, 1) == 1 ? c : '\0';
  }
  // In the parent.
  char hear() {
    char c = 0;
    return ::read(from_[0], &c, 1) == 1 ? c : '\0';
  }
  void go(char c = 'g') { or_die(::write(to_[1], &c, 1)); }
  void kill() {
    ::kill(pid_, SIGKILL);
    reap();
  }
  int reap() {
    int status = 0;
    if (pid_ > 0) ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  static void or_die(ssize_t n) {
    if (n != 1) ::_exit(9);
  }
  std::array<int, 2> to_{-1, -1};
  std::array<int, 2> from_{-1, -1};
  pid_t pid_ = -1;
};

TEST_CASE("a region file has its size and mode, and goes with its owner", "[primary][io]") {
  TierDirectory dir;
  const std::string file = dir.path() + "/rows";
  const auto before = Holdings::now(dir.path(), "engine-a");
  {
    const auto region = make(options_for(file));
    struct stat at {};
    REQUIRE(::stat(file.c_str(), &at) == 0);
    CHECK(static_cast<std::uint64_t>(at.st_size) == kWhole);
    CHECK((at.st_mode & 07777) == 0600);
    CHECK(at.st_nlink == 1);
    CHECK(region->describe().find("shared, in the file " + file) != std::string::npos);
    std::memset(region->view().row(2).data(), 0x2b, 8192);
    std::ifstream in(file, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(kRegionRowsOffset + 2 * 8192));
    CHECK(in.get() == 0x2b);
  }
  CHECK_FALSE(fs::exists(file));
  CHECK(Holdings::now(dir.path(), "engine-a").beyond(before) == "");
}

TEST_CASE("the name goes when the last rank has mapped the file, and rows go on", "[primary][io]") {
  TierDirectory dir;
  const std::string file = dir.path() + "/rows";
  const auto region = make(options_for(file));
  auto first = find(file, 0);
  REQUIRE(first);
  REQUIRE((*first)->populate(0, 4096));
  CHECK(fs::exists(file));
  CHECK_FALSE(region->all_joined());
  auto last = find(file, 1);
  REQUIRE(last);
  CHECK(fs::exists(file));  // mapped, but not ready to be used
  REQUIRE((*last)->populate(4096, 4096));
  CHECK_FALSE(fs::exists(file));
  CHECK(region->all_joined());
  std::memset((*first)->view().row(0).data(), 5, 10);
  CHECK((*last)->view().row(0)[9] == std::byte{5});
  CHECK(region->view().row(0)[9] == std::byte{5});
  std::ofstream(file) << "another's";  // the owner's end does not take it
  region->remove_name();
  CHECK(fs::exists(file));
}

TEST_CASE("a joiner that leaves takes its mapping and its lock, not the file", "[primary][io]") {
  TierDirectory dir;
  const std::string file = dir.path() + "/rows";
  const auto region = make(options_for(file));
  const auto before = Holdings::now("", "engine-a");
  for (int i = 0; i < 3; ++i) {
    auto joined = find(file, 0);
    INFO(error_of(joined));
    REQUIRE(joined);
    CHECK(error_of(find(file, 0)) == "region file " + file + ": rank 0 is held by another process");
    REQUIRE((*joined)->populate(0, 4096));
  }
  CHECK(fs::exists(file));
  CHECK(Holdings::now("", "engine-a").beyond(before) == "");
}

TEST_CASE("of many processes that start at once exactly one becomes the owner", "[primary][io]") {
  TierDirectory dir;
  const std::string file = dir.path() + "/rows";
  constexpr int kProcesses = 8;
  std::vector<std::unique_ptr<Child>> all;
  for (int i = 0; i < kProcesses; ++i)
    all.push_back(std::make_unique<Child>([&, i](Child& me) {
      me.wait();
      auto made = Region::create(options_for(file, kProcesses));
      const bool lost = !made && made.error().detail.find("which lives") != std::string::npos;
      me.tell(made ? 'o' : lost ? 'l' : 'x');
      me.wait();
      // Everybody joins, the owner as well, and writes into the slot of its rank.
      auto joined = find(file, static_cast<std::uint32_t>(i), 30s);
      if (!joined || !(*joined)->populate(static_cast<std::uint64_t>(i) * 1024, 1024)) ::_exit(3);
      std::memset((*joined)->view().row(1).data() + i * 1024, 0x40 + i, 1024);
      me.tell('w');
      me.wait();
      const PrimaryView view = (*joined)->view();
      for (std::size_t at = 0; at < 8192; ++at)
        if (view.row(1)[at] != static_cast<std::byte>(0x40 + at / 1024)) ::_exit(4);
      me.tell('k');
      me.wait();  // owner to the last
    }));
  for (auto& one : all) one->go();
  int owners = 0;
  for (auto& one : all) {
    const char said = one->hear();
    CHECK((said == 'o' || said == 'l'));
    owners += said == 'o' ? 1 : 0;
  }
  CHECK(owners == 1);
  for (auto& one : all) one->go();
  for (auto& one : all) CHECK(one->hear() == 'w');
  CHECK_FALSE(fs::exists(file));  // all have mapped it
  for (auto& one : all) one->go();
  for (auto& one : all) CHECK(one->hear() == 'k');
  for (auto& one : all) one->go();
  for (auto& one : all) CHECK(one->reap() == 0);
  CHECK(dir.is_empty());
}

TEST_CASE("a joiner waits for a file that is not there, and for one that is being made",
          "[primary][io]") {
  TierDirectory dir;
  const std::string file = dir.path() + "/rows";
  JoinedRegion::Named named;
  named.path = file;
  named.patience = 60s;
  int looks = 0;
  std::unique_ptr<Region> region;
  std::unique_ptr<RegionFile> half;
  named.wait = [&](Duration) {
    ++looks;
    if (looks == 3) {  // its owner has begun
      RegionRecord record;
      record.engine_id = "engine-a";
      record.owner = mark_of_this_process();
      record.num_chunks = 4;
      record.chunk_bytes = record.row_bytes = 8192;
      auto made = RegionFile::create(file, kWhole, record);
      if (!made) return false;
      half = std::make_unique<RegionFile>(std::move(*made));
    }
    if (looks == 6) half.reset();
    if (looks == 8) region = make(options_for(file));
    return looks < 20;
  };
  auto joined = JoinedRegion::find(named, {});
  INFO(error_of(joined));
  REQUIRE(joined);
  CHECK(looks == 8);
  REQUIRE((*joined)->populate(0, 4096));
  looks = 0;
  CHECK(JoinedRegion::find(named, {1, {}}).has_value());  // there already: no wait
  CHECK(looks == 0);
}

TEST_CASE("a joiner's patience ends, with what is missing, and nothing is left of it",
          "[primary][io]") {
  TierDirectory dir;
  const std::string file = dir.path() + "/rows";
  const auto before = Holdings::now("", "engine-a");
  CHECK(error_of(find(file, 0, 20ms)) ==
        "region file " + file + ": no region of a living engine in time: it is not there");
  std::ofstream(file).flush();
  CHECK(error_of(find(file, 0, 20ms)).find("it is empty") != std::string::npos);
  JoinedRegion::Named named;
  named.path = file;
  named.wait = [](Duration) { return false; };
  const auto given_up = JoinedRegion::find(named, {});
  REQUIRE_FALSE(given_up);
  CHECK(given_up.error().code == OffloadErrc::aborted);
  CHECK(Holdings::now("", "engine-a").beyond(before) == "");
}

TEST_CASE("the region of a dead engine is joined by nobody and cleared away by the next",
          "[primary][io]") {
  TierDirectory dir;
  const std::string file = dir.path() + "/rows";
  Child owner([&](Child& me) {
    auto made = Region::create(options_for(file));
    me.tell(made ? 'o' : 'x');
    me.wait();
  });
  REQUIRE(owner.hear() == 'o');
  const auto refused = Region::create(options_for(file));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().detail == "region file " + file + ": belongs to engine engine-a (pid " +
                                      std::to_string(owner.pid()) + "), which lives");
  const auto pid = owner.pid();
  owner.kill();
  REQUIRE(fs::exists(file));
  CHECK(error_of(find(file, 0, 20ms)).find("its owner, pid " + std::to_string(pid) + ", is dead") !=
        std::string::npos);
  const auto region = make(options_for(file, 2, "engine-b"));
  CHECK(region->describe().find("removed what dead engine engine-a (pid " + std::to_string(pid) +
                                ") left") != std::string::npos);
  auto joined = find(file, 0);
  REQUIRE(joined);
  CHECK((*joined)->record().engine_id == "engine-b");
}

TEST_CASE("an owner that dies before its rows are ready leaves a file that is cleared away alike",
          "[primary][io]") {
  TierDirectory dir;
  const std::string file = dir.path() + "/rows";
  static Child* self = nullptr;
  Child owner([&](Child& me) {
    self = &me;
    auto options = options_for(file);
    options.advise = [](void*, std::size_t, int) {
      self->tell('m');
      self->wait();  // for ever
      return 0;
    };
    const auto made = Region::create(options);
  });
  REQUIRE(owner.hear() == 'm');
  CHECK(error_of(find(file, 0, 20ms)).find("its owner is still making it") != std::string::npos);
  RegionExpectation other;
  other.engine_id = "engine-b";
  CHECK(error_of(find(file, 0, 60s, other)).find("engine_id: found \"engine-a\"") !=
        std::string::npos);  // at once
  owner.kill();
  CHECK(make(options_for(file))->describe().find("removed what dead engine") != std::string::npos);
}

TEST_CASE("what is not proven to be a dead engine's region stays as it is", "[primary][io]") {
  TierDirectory dir;
  const std::string file = dir.path() + "/rows";
  const auto kind =
      GENERATE(values<std::string>({"text", "empty", "folder", "link", "short", "pipe"}));
  CAPTURE(kind);
  std::string content(8192, 'x');
  if (kind == "short") content = "KVOREGN";
  if (kind == "empty") content = "";
  if (kind == "folder")
    fs::create_directory(file);
  else if (kind == "pipe")
    REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  else if (kind == "link")
    fs::create_symlink(dir.path() + "/nowhere", file);
  else
    std::ofstream(file) << content;
  const auto before = Holdings::now(dir.path(), "engine-a");
  const auto made = Region::create(options_for(file));
  REQUIRE_FALSE(made);
  INFO(made.error().detail);
  CHECK(made.error().detail.find("stays untouched") != std::string::npos);
  CHECK(made.error().detail.find('\n') == std::string::npos);
  CHECK(Holdings::now(dir.path(), "engine-a").beyond(before) == "");
  if (kind == "text" || kind == "short" || kind == "empty") {
    std::ifstream in(file);
    CHECK(std::string((std::istreambuf_iterator<char>(in)), {}) == content);
  }
  const auto joined = find(file, 0, 20ms);
  REQUIRE_FALSE(joined);
}

TEST_CASE("a region file that was cut after it was made is not mapped", "[primary][io]") {
  TierDirectory dir;
  const std::string file = dir.path() + "/rows";
  const auto region = make(options_for(file));
  REQUIRE(::truncate(file.c_str(), static_cast<off_t>(kWhole - 4096)) == 0);
  CHECK(error_of(find(file, 0)).find("file size: found " + std::to_string(kWhole - 4096)) !=
        std::string::npos);
  REQUIRE(::truncate(file.c_str(), 100) == 0);
  CHECK(error_of(find(file, 0)).find("shorter than its first page") != std::string::npos);
  CHECK_FALSE(error_of(find(file, 0, 0s)).empty());
}

TEST_CASE("no space for a region file is said before anything is made", "[primary][io]") {
  TierDirectory dir;
  auto options = options_for(dir.path() + "/rows");
  options.num_chunks = 1 << 30;  // 8 TiB
  options.available_bytes = 1ULL << 50;
  const auto before = Holdings::now(dir.path(), "engine-a");
  const auto made = Region::create(options);
  REQUIRE_FALSE(made);
  CHECK(made.error().code == OffloadErrc::no_space);
  INFO(made.error().detail);
  CHECK(made.error().detail.find(": needs 8796") != std::string::npos);
  CHECK(made.error().detail.find("its file system has ") != std::string::npos);
  CHECK(Holdings::now(dir.path(), "engine-a").beyond(before) == "");
  const auto nowhere = Region::create(options_for(dir.path() + "/none/rows"));
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().detail.find("its folder: No such file") != std::string::npos);
}

TEST_CASE("a size that the system refuses leaves nothing behind", "[primary][io]") {
  TierDirectory dir;
  Child owner([&](Child& me) {
    const rlimit small{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &small);
    ::signal(SIGXFSZ, SIG_IGN);
    const auto before = Holdings::now(dir.path(), "engine-a");
    const auto made = Region::create(options_for(dir.path() + "/rows"));
    const bool named =
        !made && made.error().detail.find("ftruncate: File too large") != std::string::npos;
    me.tell(!named                                                         ? 'x'
            : Holdings::now(dir.path(), "engine-a").beyond(before).empty() ? 'k'
                                                                           : 'l');
  });
  CHECK(owner.hear() == 'k');
  CHECK(dir.is_empty());
}

TEST_CASE("a descriptor that was lent keeps nobody's lock", "[primary][io]") {
  TierDirectory dir;
  const std::string file = dir.path() + "/rows";
  const std::string other = dir.path() + "/by_another_name";
  UniqueFd lent;
  {
    const auto region = make(options_for(file));
    lent.reset(::fcntl(region->fd(), F_DUPFD_CLOEXEC, 0));
    REQUIRE(::link(file.c_str(), other.c_str()) == 0);
    CHECK(region_owner_lives(lent.get()));
  }
  const UniqueFd found(::open(other.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(found);
  CHECK_FALSE(region_owner_lives(found.get()));
  CHECK_FALSE(fs::exists(file));
}

TEST_CASE("a child of fork has neither the owner's rows nor a joiner's", "[primary][io]") {
  TierDirectory dir;
  const auto region = make(options_for(dir.path() + "/rows"));
  auto joined = find(dir.path() + "/rows", 0);
  REQUIRE(joined);
  const auto mapped = [&] { return Holdings::now(dir.path(), "engine-a").mappings.size(); };
  CHECK(mapped() >= 2);
  Child child([&](Child& me) { me.tell(mapped() == 0 ? 'n' : 'm'); });
  CHECK(child.hear() == 'n');
}

}  // namespace
}  // namespace kv_offload::test
