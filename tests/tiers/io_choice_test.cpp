#include "kv_offload/tests/support/gate.hpp"
#include "kv_offload/tests/support/tier_fs_fixture.hpp"
#include "kv_offload/tests/support/tier_lane_fixture.hpp"
#include "kv_offload/tiers/io/choose_backend.hpp"
#include "kv_offload/tiers/io/fallback_backend.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
using test::tier_keys;

/// Opens as it is told; counts calls.
class OpenedBackend final : public IoBackend {
 public:
  struct Calls {
    int opened = 0, pushed = 0, submitted = 0, reaped = 0, woken = 0, closed = 0;
    bool is_gone = false;
  };
  OpenedBackend(Calls& calls, Expected<std::string> answer)
      : calls_(calls), answer_(std::move(answer)) {}
  ~OpenedBackend() override { calls_.is_gone = true; }
  Expected<std::string> open() override { return ++calls_.opened, answer_; }
  bool push(const IoRequest&) override { return ++calls_.pushed, true; }
  int submit() override { return ++calls_.submitted, 5; }
  int reap(std::vector<IoCompletion>&, Duration) override { return ++calls_.reaped, 6; }
  void wake() override { ++calls_.woken; }
  void close() override { ++calls_.closed; }
  [[nodiscard]] std::size_t in_flight() const override { return 7; }
  [[nodiscard]] int buffer_index(const std::byte*, std::uint64_t) const override { return 8; }

 private:
  Calls& calls_;
  const Expected<std::string> answer_;
};

struct Fallback {
  OpenedBackend::Calls first, second;
  std::vector<std::string> said;
  std::unique_ptr<FallbackBackend> backend;

  void make(const Expected<std::string>& one, const Expected<std::string>& two) {
    backend = std::make_unique<FallbackBackend>(
        std::make_unique<OpenedBackend>(first, one), std::make_unique<OpenedBackend>(second, two),
        [this](const std::string& why, const std::string& used) {
          said.push_back(used + ": " + why);
        });
  }
};

const Expected<std::string> kRefused{OffloadErrc::unsupported, "not here"};

TEST_CASE("the first backend is used where it can be had, without a word", "[choice]") {
  Fallback f;
  f.make(std::string("first"), std::string("second"));
  CHECK(*f.backend->open() == "first");
  CHECK(f.said.empty());
  CHECK(f.second.opened == 0);
  f.backend->push({});
  CHECK(f.first.pushed == 1);
}

TEST_CASE("the second backend is used where the first is not supported, and says why once",
          "[choice]") {
  Fallback f;
  f.make(kRefused, std::string("second"));
  CHECK(*f.backend->open() == "second");
  CHECK(f.said == std::vector<std::string>{"second: not here"});
  CHECK(f.first.is_gone);
  CHECK(f.backend->push({}));
  CHECK(f.backend->submit() == 5);
  std::vector<IoCompletion> none;
  CHECK(f.backend->reap(none, 0s) == 6);
  f.backend->wake();
  CHECK(f.backend->in_flight() == 7);
  CHECK(f.backend->buffer_index(nullptr, 0) == 8);
  f.backend->close();
  const auto& to = f.second;
  CHECK(to.pushed + to.submitted + to.reaped + to.woken + to.closed == 5);
  CHECK(f.said.size() == 1);
}

TEST_CASE("an error that is no refusal is not covered up", "[choice]") {
  Fallback f;
  f.make({OffloadErrc::io_error, "eventfd: no"}, std::string("second"));
  CHECK(f.backend->open().error().detail == "eventfd: no");
  CHECK(f.second.opened == 0);
  CHECK(f.said.empty());
}

TEST_CASE("where neither can be had the error is the second's", "[choice]") {
  Fallback f;
  f.make(kRefused, {OffloadErrc::io_error, "no threads"});
  CHECK(f.backend->open().error().detail == "no threads");
  CHECK(f.said.empty());
}

TEST_CASE("each mode has its backend", "[choice]") {
  LaneOptions lane;
  lane.name = "1:fs";
  std::vector<std::string> log;
  const auto opened = [&](IoMode mode) {
    return choose_backend(mode, lane, 8, [&](std::string line) { log.push_back(std::move(line)); })
        ->open();
  };
  const std::string why = why_no_uring();
  CHECK(*opened(IoMode::threads) == "8 I/O threads");
  CHECK(log.empty());
  const auto automatic = opened(IoMode::automatic);
  REQUIRE(automatic);
  const auto ring = opened(IoMode::uring);
  if (why.empty()) {
    CHECK(automatic->find("io_uring (") == 0);
    CHECK(ring->find("io_uring (") == 0);
    CHECK(log.empty());
  } else {
    CHECK(*automatic == "8 I/O threads");
    CHECK(log == std::vector<std::string>{"1:fs: 8 I/O threads in place of io_uring: " + why});
    CHECK(ring.error().detail == why);
  }
}

TEST_CASE("the words of the configuration are the modes", "[choice]") {
  CHECK(io_mode_of("auto") == IoMode::automatic);
  CHECK(io_mode_of("uring") == IoMode::uring);
  CHECK(io_mode_of("threads") == IoMode::threads);
  CHECK_FALSE(io_mode_of("Threads").has_value());
  CHECK_FALSE(io_mode_of("").has_value());
}

TEST_CASE("a tier's own io wins over the engine's, and the start says what is used", "[choice]") {
  test::FsFixture::Options options;
  options.io = IoMode::uring;
  test::FsFixture f(options);
  f.config.io = IoMode::threads;
  f.start();
  CHECK(f.log().find("I/O, 16 I/O threads, ") != std::string::npos);
  CHECK(f.log().find("io_uring") == std::string::npos);
  f.store_named(0, 4);
  CHECK(f.load(tier_keys(0, 4), 8).success);
}

/// Says when it is freed.
class WatchedStorage final : public LaneStorage {
 public:
  explicit WatchedStorage(std::shared_ptr<std::atomic<bool>> freed) : freed_(std::move(freed)) {}
  ~WatchedStorage() override { *freed_ = true; }
  void reserve_slots(std::uint32_t) override {}
  LookupResult probe(const OffloadKey&) override { return LookupResult::miss; }
  StorageStep begin(const ChunkContext&) override { return StorageStep::io(IoOp::write, -1, 0); }
  void overlap(const ChunkContext&) override {}
  StorageStep proceed(const ChunkContext&, const IoEnd&) override {
    return StorageStep::over({KeyFate::done, TransferFailure::none, 0, false});
  }
  void job_ended(const TransferJob&, const JobResult&) override {}

 private:
  std::shared_ptr<std::atomic<bool>> freed_;
};

/// As the contract demands, memory and sink outlive a lane that did not stop: never destroyed.
struct StuckLane {
  test::TierMemory memory{4, 4096};
  test::TierTestSink sink;
  std::shared_ptr<test::Gate> gate = std::make_shared<test::Gate>();
  std::shared_ptr<std::atomic<bool>> freed = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<Lane> lane;

  explicit StuckLane(const std::string& name = "1:lane") {
    LaneOptions options;
    options.name = name;
    options.primary = memory.view();
    options.sink = &sink;
    options.now = [] { return std::chrono::steady_clock::now(); };
    ThreadOptions threads;
    threads.name = name;
    threads.threads = 1;
    threads.perform = [g = gate](const IoRequest& r) {
      g->pass();
      // Still the transfer's own: a freed buffer is a sanitizer's report.
      r.buffer[0] = std::byte{1};
      return static_cast<std::int32_t>(r.length);
    };
    lane = std::make_unique<Lane>(options, std::make_unique<ThreadBackend>(std::move(threads)),
                                  std::make_unique<WatchedStorage>(freed));
    REQUIRE(lane->start());
  }
  JobId store_one() {
    TransferJob job;
    job.job_id = {0, 1};
    job.keys = tier_keys(0, 1);
    job.chunk_ids = {0};
    job.chunk_bytes = 4096;
    lane->submit({job});
    gate->wait_for_arrivals(1);
    return {0, 1};
  }
};

TEST_CASE("a thread that comes back in time ends its job before the lane's stop",
          "[choice][lane]") {
  auto s = std::make_unique<StuckLane>("1:stopped");
  const JobId id = s->store_one();
  s->gate->open();
  CHECK(s->lane->stop(60s));
  CHECK(s->sink.wait(id)->success);
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    CHECK(test::read_file(task.path() / "comm") != "kvo0-1:stopped\n");
  s->lane.reset();
  CHECK(*s->freed);
  CHECK(s->memory.uses() == 0);
}

TEST_CASE("a lane with a thread stuck in a transfer is given up, and nothing is freed under it",
          "[choice][lane]") {
  auto* s = new StuckLane;  // never destroyed, on purpose
  static auto* kept = new std::vector<StuckLane*>;
  kept->push_back(s);
  const JobId id = s->store_one();
  CHECK_FALSE(s->lane->stop(1ms));
  CHECK_FALSE(s->lane->stop(1ms));
  s->lane.reset();
  CHECK_FALSE(s->sink.has_ended(id));
  CHECK(s->memory.uses(0) == 1);
  // Wait for the lane's thread to give up its drain, too.
  const auto lane_lives = [] {
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
      if (test::read_file(task.path() / "comm") == "kvo-1:lane\n") return true;
    return false;
  };
  while (lane_lives()) std::this_thread::sleep_for(5ms);
  CHECK_FALSE(*s->freed);
  s->gate->open();
  s->gate->wait_until_empty();
  CHECK_FALSE(*s->freed);
  CHECK_FALSE(s->sink.has_ended(id));
}

}  // namespace
}  // namespace kv_offload
