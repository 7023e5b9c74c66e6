#include "kv_offload/tests/support/gate.hpp"
#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tests/support/tier_memory.hpp"
#include "kv_offload/tiers/io/thread_backend.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <signal.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace kv_offload {
namespace {

using test::Gate;
using test::TierDirectory;
using test::TierMemory;

constexpr Duration kWait = std::chrono::seconds(5);

struct OpenFile {
  explicit OpenFile(const TierDirectory& directory)
      : fd(::open((directory.path() + "/file").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {}
  ~OpenFile() { ::close(fd); }
  int fd;
};

ThreadOptions options(std::uint32_t queue_depth, std::uint32_t threads = 8) {
  ThreadOptions options;
  options.name = "7:pool";
  options.queue_depth = queue_depth;
  options.threads = threads;
  return options;
}
IoRequest tagged(std::uint64_t tag) {
  IoRequest request;
  request.op = IoOp::sync_data;
  request.tag = tag;
  return request;
}
std::vector<IoCompletion> reap(ThreadBackend& pool, std::size_t count) {
  std::vector<IoCompletion> all;
  for (int i = 0; i < 100 && all.size() < count; ++i) REQUIRE(pool.reap(all, kWait) == 0);
  REQUIRE(all.size() == count);
  return all;
}
/// Directories in /proc of the threads that options() names.
std::vector<std::string> pool_threads(const std::string& index = "") {
  std::vector<std::string> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name.starts_with("kvo" + index) && name.ends_with("-7:pool"))
      found.push_back(task.path().native());
  }
  return found;
}

TEST_CASE("bytes written by the threads are read back, synced and their name removed", "[pool]") {
  const TierDirectory directory;
  const OpenFile file(directory);
  TierMemory memory(4, 65536);
  ThreadBackend pool(options(8));
  const auto opened = pool.open();
  REQUIRE(opened);
  CHECK(*opened == "8 I/O threads");
  CHECK(pool.buffer_index(memory.row(0).data(), 65536) == -1);
  memory.fill(0, 1);
  REQUIRE(pool.push({IoOp::write, file.fd, 65536, memory.row(0).data(), 65536, -1, 1}));
  CHECK(pool.in_flight() == 1);
  CHECK(reap(pool, 1)[0].result == 65536);
  CHECK(pool.in_flight() == 0);
  for (const IoOp sync : {IoOp::sync_data, IoOp::sync_file}) {
    REQUIRE(pool.push({sync, file.fd, 0, nullptr, 0, -1, 2}));
    CHECK(reap(pool, 1)[0].result == 0);
  }
  REQUIRE(pool.push({IoOp::read, file.fd, 65536, memory.row(2).data(), 65536, -1, 3}));
  CHECK(reap(pool, 1)[0].result == 65536);
  CHECK(memory.holds(2, 1));
  REQUIRE(pool.push({IoOp::read, file.fd, 3 * 65536, memory.row(2).data(), 65536, -1, 3}));
  CHECK(reap(pool, 1)[0].result == 0);  // beyond the end

  const std::string path = directory.path() + "/file";
  IoRequest unlink;
  unlink.op = IoOp::unlink;
  unlink.path = path.c_str();
  for (const int expected : {0, -ENOENT}) {
    REQUIRE(pool.push(unlink));
    CHECK(reap(pool, 1)[0].result == expected);
  }
}

TEST_CASE("full, the pool says no and takes the request after a reap", "[pool]") {
  Gate gate;
  ThreadOptions o = options(4, 2);
  o.perform = [&](const IoRequest& r) { return gate.pass(), static_cast<std::int32_t>(r.tag); };
  ThreadBackend pool(o);
  REQUIRE(pool.open());
  for (std::uint64_t tag = 0; tag < 4; ++tag) REQUIRE(pool.push(tagged(tag)));
  CHECK_FALSE(pool.push(tagged(4)));
  REQUIRE(pool.submit() == 0);
  CHECK_FALSE(pool.push(tagged(4)));  // submitted is not reaped
  CHECK(pool.in_flight() == 4);
  gate.open();
  std::set<std::uint64_t> tags;
  for (const auto& c : reap(pool, 4)) {
    CHECK(c.result == static_cast<std::int32_t>(c.tag));
    tags.insert(c.tag);
  }
  CHECK(tags == std::set<std::uint64_t>{0, 1, 2, 3});
  CHECK(pool.in_flight() == 0);
  CHECK(pool.push(tagged(4)));
  reap(pool, 1);
}

TEST_CASE("as many requests as threads are under way at once, first come first served", "[pool]") {
  Gate gate;
  std::mutex mutex;
  std::vector<std::uint64_t> order;
  ThreadOptions o = options(16, 3);
  o.perform = [&](const IoRequest& r) {
    {
      const std::lock_guard lock(mutex);
      order.push_back(r.tag);
    }
    gate.pass();
    return 0;
  };
  ThreadBackend pool(o);
  REQUIRE(pool.open());
  for (std::uint64_t tag = 0; tag < 16; ++tag) REQUIRE(pool.push(tagged(tag)));
  pool.submit();
  gate.wait_for_arrivals(3);
  {
    const std::lock_guard lock(mutex);
    CHECK(std::set(order.begin(), order.end()) == std::set<std::uint64_t>{0, 1, 2});
  }
  gate.open();
  reap(pool, 16);
  CHECK(gate.most() == 3);
}

TEST_CASE("while every thread is stuck nothing the lane does blocks", "[pool]") {
  Gate gate;
  ThreadOptions o = options(8, 2);
  o.perform = [&](const IoRequest&) { return gate.pass(), 0; };
  ThreadBackend pool(o);
  REQUIRE(pool.open());
  std::vector<IoCompletion> none;
  for (std::uint64_t tag = 0; tag < 8; ++tag) {
    REQUIRE(pool.push(tagged(tag)));
    REQUIRE(pool.submit() == 0);
    pool.wake();
    REQUIRE(pool.reap(none, Duration::zero()) == 0);
  }
  gate.wait_for_arrivals(2);
  REQUIRE(pool.reap(none, std::chrono::hours(1)) == 0);  // woken before
  CHECK(none.empty());
  CHECK(pool.in_flight() == 8);
  gate.open();
  reap(pool, 8);
}

TEST_CASE("every request comes back exactly once, in whatever order they end", "[pool]") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::minstd_rand dice(seed);
  ThreadOptions o = options(1 + dice() % 32, 1 + dice() % 16);
  o.perform = [](const IoRequest& r) {
    if (r.tag % 7 == 0) std::this_thread::yield();
    return static_cast<std::int32_t>(r.tag % 1000) - 500;
  };
  ThreadBackend pool(o);
  REQUIRE(pool.open());
  constexpr std::uint64_t kRequests = 20'000;
  std::vector<bool> seen(kRequests);
  std::vector<IoCompletion> completions;
  std::uint64_t pushed = 0;
  std::uint64_t reaped = 0;
  while (reaped < kRequests) {
    for (std::uint64_t i = dice() % 40; i > 0 && pushed < kRequests && pool.push(tagged(pushed));
         --i)
      ++pushed;
    if (dice() % 3 == 0) pool.submit();
    completions.clear();
    REQUIRE(pool.reap(completions,
                      dice() % 2 == 0 || pushed == reaped ? Duration::zero() : kWait) == 0);
    for (const auto& c : completions) {
      REQUIRE(c.tag < pushed);
      REQUIRE_FALSE(seen[c.tag]);
      seen[c.tag] = true;
      REQUIRE(c.result == static_cast<std::int32_t>(c.tag % 1000) - 500);
    }
    reaped += completions.size();
    REQUIRE(pool.in_flight() == pushed - reaped);
  }
}

TEST_CASE("threads carry the lane's name, take no signals and are gone with the pool", "[pool]") {
  ThreadOptions o = options(128, 5);
  Gate gate;
  o.perform = [&](const IoRequest&) { return gate.pass(), 0; };
  {
    ThreadBackend pool(o);
    REQUIRE(pool.open());
    for (std::uint64_t tag = 0; tag < 5; ++tag) REQUIRE(pool.push(tagged(tag)));
    pool.submit();
    gate.wait_for_arrivals(5);  // each has its name by now
    std::size_t named = 0;
    for (int i = 0; i < 5; ++i) named += pool_threads(std::to_string(i)).size();
    CHECK(named == 5);
    for (const auto& thread : pool_threads()) {
      const std::string status = test::read_file(thread + "/status");
      const auto blocked = std::stoull(status.substr(status.find("SigBlk:") + 7), nullptr, 16);
      for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD})
        CHECK((blocked >> (signal - 1) & 1) == 1);
    }
    gate.open();
    reap(pool, 5);
  }
  CHECK(pool_threads().empty());
}

TEST_CASE("there are never more threads than requests", "[pool]") {
  ThreadBackend pool(options(1));
  CHECK(*pool.open() == "1 I/O thread");
  ThreadBackend large(options(4096, 100'000));
  CHECK(*large.open() == "64 I/O threads");
}

TEST_CASE("what no thread has begun is dropped with the pool", "[pool]") {
  Gate gate;
  ThreadOptions o = options(8, 1);
  o.perform = [&](const IoRequest&) { return gate.pass(), 0; };
  auto pool = std::make_unique<ThreadBackend>(o);
  REQUIRE(pool->open());
  for (std::uint64_t tag = 0; tag < 8; ++tag) REQUIRE(pool->push(tagged(tag)));
  pool->submit();
  gate.wait_for_arrivals(1);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the end has most likely begun
    gate.open();
  });
  pool.reset();
  opener.join();
  gate.wait_until_empty();
  CHECK(gate.arrived() <= 8);
  CHECK(pool_threads().empty());
}

TEST_CASE("a thread stuck in its call does not hold up the end, and begins nothing after it",
          "[pool]") {
  const auto gate = std::make_shared<Gate>();
  ThreadOptions o = options(8, 2);
  o.perform = [gate](const IoRequest&) { return gate->pass(), 0; };
  auto pool = std::make_unique<ThreadBackend>(o);
  REQUIRE(pool->open());
  for (std::uint64_t tag = 0; tag < 8; ++tag) REQUIRE(pool->push(tagged(tag)));
  pool->submit();
  gate->wait_for_arrivals(2);
  pool.reset();
  CHECK(gate->arrived() == 2);
  gate->open();
  gate->wait_until_empty();
  while (!pool_threads().empty()) std::this_thread::yield();
  CHECK(gate->arrived() == 2);
}

TEST_CASE("threads that cannot be had are an error with a remedy, and those that could are gone",
          "[pool]") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  SUCCEED("not under sanitizers: their own memory counts too");
#else
  rlimit old{};
  ::getrlimit(RLIMIT_AS, &old);
  ThreadBackend pool(options(128, 64));
  const rlimit none{std::uint64_t{1} << 20, old.rlim_max};
  const int limited = ::setrlimit(RLIMIT_AS, &none);
  const auto opened = pool.open();
  ::setrlimit(RLIMIT_AS, &old);
  REQUIRE(limited == 0);
  REQUIRE_FALSE(opened);
  CHECK(opened.error().detail.find("I/O thread ") == 0);
  CHECK(opened.error().detail.find("of 64: Resource temporarily unavailable") != std::string::npos);
  CHECK(opened.error().detail.find("ulimit -u") != std::string::npos);
#endif
}

}  // namespace
}  // namespace kv_offload
