#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tests/workers/left_behind.hpp"
#include "kv_offload/tests/workers/raw_worker.hpp"
#include "kv_offload/tests/workers/scene.hpp"

#include <catch2/catch.hpp>

#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kv_offload::test {
namespace {

using namespace std::chrono_literals;

constexpr StageShape kFour{
    .world_size = 4, .blocks_per_chunk = 1, .page_bytes = 4096, .num_blocks = 8, .num_tensors = 2};

TEST_CASE("four worker processes store and load what their ranks hold", "[workers]") {
  Scene scene(kFour);
  REQUIRE(scene.region);
  REQUIRE(scene.start_hub() == "");
  Fleet fleet(scene.stage, scene.socket);
  fleet.spawn_all();
  const auto joined = scene.hub->wait_joined(40s);
  INFO((joined ? "" : joined.error().detail));
  REQUIRE(joined);
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    for (std::uint32_t t = 0; t < 2; ++t)
      std::memset(scene.stage.block(rank, t, 3), static_cast<int>(0x10 * rank + t + 1), 4096);
  REQUIRE(scene.hub->submit(Scene::order(1, false, 3, 5)));
  const auto stored = scene.log.outcome(1);
  REQUIRE(stored);
  INFO(stored->error);
  CHECK(stored->success);
  CHECK(stored->bytes == 4 * 2 * 4096);
  CHECK(scene.log.wait_quiesced(1));
  const auto row = scene.region->view().row(5);
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    for (std::uint32_t t = 0; t < 2; ++t)
      CHECK(row[(rank * 2 + t) * 4096 + 77] == static_cast<std::byte>(0x10 * rank + t + 1));
  REQUIRE(scene.hub->submit(Scene::order(2, true, 6, 5)));
  CHECK(scene.log.outcome(2)->success);
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    CHECK(scene.stage.block(rank, 1, 6)[4095] == static_cast<std::byte>(0x10 * rank + 2));
  CHECK(scene.log.wait_quiesced(2));
  CHECK(scene.log.in_order());
  CHECK(scene.hub->stop(30s));
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    CHECK(fleet.reap(rank) == 0);
    CHECK(fleet.board(rank).state == StageBoard::gone);
  }
}

/// Four processes that have joined.
struct Joined : Scene {
  Joined() : Scene(kFour) {
    REQUIRE(region);
    REQUIRE(start_hub() == "");
    fleet.spawn_all();
    const auto joined = hub->wait_joined(40s);
    INFO((joined ? "" : joined.error().detail));
    REQUIRE(joined);
    for (std::uint32_t rank = 0; rank < 4; ++rank)
      REQUIRE(comes_true([&] { return fleet.board(rank).state == StageBoard::ready; }));
  }
  Fleet fleet{stage, socket};
};

TEST_CASE("a worker killed while its copy stands still: outcome at once, rows free only now",
          "[workers]") {
  Joined scene;
  scene.fleet.board(2).hang = 1;
  auto by_deadline = Scene::order(1, false, 3, 5);
  by_deadline.deadline = std::chrono::steady_clock::now();
  REQUIRE(scene.hub->submit(by_deadline));
  REQUIRE(scene.hub->submit(Scene::order(2, false, 4, 6)));
  CHECK(scene.log.outcome(1)->errc == OffloadErrc::deadline);
  REQUIRE(comes_true([&] { return scene.fleet.board(2).hanging == 1; }));
  REQUIRE(comes_true([&] {  // the others have reported both
    const auto stats = scene.hub->stats();
    return stats.ranks[0].stored_bytes + stats.ranks[1].stored_bytes +
               stats.ranks[3].stored_bytes ==
           3 * 2 * 8192;
  }));
  CHECK_FALSE(scene.log.quiesced(1));
  CHECK_FALSE(scene.log.quiesced(2));
  const auto pid = std::to_string(scene.fleet.pid(2));
  scene.fleet.signal(2, SIGKILL);  // not reaped: a zombie is dead, too
  const auto outcome = scene.log.outcome(2);
  REQUIRE(outcome);
  CHECK(outcome->errc == OffloadErrc::io_error);
  CHECK(outcome->error == "rank 2 (pid " + pid + ") died");
  CHECK(scene.log.wait_quiesced(1));
  CHECK(scene.log.wait_quiesced(2));
  CHECK(scene.log.in_order());
  REQUIRE(comes_true([&] { return scene.hub->stats().ranks[2].deaths == 1; }));
  const auto refused = scene.hub->submit(Scene::order(3, false, 0, 0));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().detail == "order 3: rank 2 died (it was pid " + pid + ")");
}

TEST_CASE("a new process takes the rank of a dead one", "[workers]") {
  Joined scene;
  REQUIRE(scene.hub->submit(Scene::order(1, false, 3, 5)));
  CHECK(scene.log.wait_quiesced(1));
  scene.fleet.kill(1);
  REQUIRE(comes_true([&] { return !scene.hub->stats().ranks[1].joined; }));
  REQUIRE(scene.fleet.spawn(1));
  REQUIRE(scene.hub->wait_joined(40s));
  CHECK(scene.hub->stats().ranks[1].joins == 2);
  CHECK(scene.hub->stats().ranks[1].pid == scene.fleet.pid(1));
  std::memset(scene.stage.block(1, 0, 6), 0, 4096);
  std::memset(scene.region->view().row(5).data() + 2 * 4096, 0x99, 4096);
  REQUIRE(scene.hub->submit(Scene::order(2, true, 6, 5)));
  CHECK(scene.log.outcome(2)->success);
  CHECK(scene.stage.block(1, 0, 6)[100] == std::byte{0x99});
}

TEST_CASE("a second process with a rank is told which one has it", "[workers]") {
  Joined scene;
  Fleet second(scene.stage, scene.socket);
  const auto first = std::to_string(scene.fleet.pid(3));
  REQUIRE(second.spawn(3));
  CHECK(second.reap(3) == 4);
  CHECK(std::string(second.board(3).why) ==
        "refused by the engine: rank 3 is held by process " + first);
}

TEST_CASE("a process of another user is refused", "[workers]") {
  if (::geteuid() != 0) {
    WARN("only root can be another user");
    return;
  }
  Scene scene(kFour);
  REQUIRE(scene.start_hub() == "");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    RawWorker stranger(scene.socket);
    ::_exit(stranger.hear_text() == "refusal: user 65534; expected 0" ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("a stopped worker is alive: nothing is taken from it until it goes on", "[workers]") {
  Joined scene;
  REQUIRE(scene.fleet.stop_running(0));
  auto order = Scene::order(1, false, 3, 5);
  order.deadline = std::chrono::steady_clock::now();
  REQUIRE(scene.hub->submit(order));
  CHECK(scene.log.outcome(1)->errc == OffloadErrc::deadline);
  CHECK_FALSE(scene.hub->stop(50ms));
  CHECK_FALSE(scene.log.quiesced(1));
  scene.fleet.signal(0, SIGCONT);
  CHECK(scene.fleet.reap(0) == 0);  // it finds the connection closed, and ends
}

TEST_CASE("a worker told to stop says goodbye and is gone", "[workers]") {
  Joined scene;
  scene.fleet.board(1).command = StageBoard::stop;
  CHECK(scene.fleet.reap(1) == 0);
  CHECK(scene.fleet.board(1).state == StageBoard::stopped);
  CHECK(comes_true([&] { return !scene.hub->stats().ranks[1].joined; }));
  CHECK(scene.hub->stats().ranks[1].deaths == 0);
}

TEST_CASE(
    "an engine killed while copies run: workers end them, and themselves, and nothing is left",
    "[workers]") {
  Stage stage(kFour);
  const std::string socket = unique_socket();
  const auto before = Holdings::now("", socket.substr(1));
  Fleet fleet(stage, socket);
  int pipes[2];
  REQUIRE(::pipe2(pipes, O_CLOEXEC) == 0);
  const pid_t engine = ::fork();
  REQUIRE(engine >= 0);
  if (engine == 0) {
    RegionOptions options;
    options.num_chunks = 8;
    options.chunk_bytes = stage.slot_bytes() * 4;
    options.threads = 1;
    options.shared = RegionSharing{};
    options.shared->record.engine_id = "engine-k";
    options.shared->record.world_size = 4;
    auto region = Region::create(options);
    if (!region) ::_exit(2);
    WorkerHub::Options hub;
    hub.socket = socket;
    hub.record = *(*region)->record();
    hub.region_fd = (*region)->fd();
    auto started = WorkerHub::start(std::move(hub));
    if (!started || !(*started)->wait_joined(40s)) ::_exit(3);
    if (!(*started)->submit(Scene::order(1, false, 3, 5))) ::_exit(4);
    if (::write(pipes[1], "j", 1) != 1) ::_exit(5);
    for (;;) ::pause();
  }
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    REQUIRE(fleet.spawn(rank));
    fleet.board(rank).hang = 1;
  }
  char said = 0;
  REQUIRE(::read(pipes[0], &said, 1) == 1);
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    REQUIRE(comes_true([&] { return fleet.board(rank).hanging == 1; }));
  ::kill(engine, SIGKILL);
  ::waitpid(engine, nullptr, 0);
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    CHECK(fleet.board(rank).state != StageBoard::gone);  // a copy runs
  for (std::uint32_t rank = 0; rank < 4; ++rank) fleet.board(rank).hang = 0;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    CHECK(fleet.reap(rank) == 0);
    CHECK(fleet.board(rank).state == StageBoard::gone);
    CHECK(std::string(fleet.board(rank).why) ==
          "the engine (pid " + std::to_string(engine) + ") died");
  }
  ::close(pipes[0]);
  ::close(pipes[1]);
  CHECK(Holdings::now("", socket.substr(1)).beyond(before) == "");
}

TEST_CASE("an engine that stops while workers join refuses those that wait for the others",
          "[workers]") {
  Stage stage(kFour);
  auto scene = std::make_unique<Scene>(kFour);
  REQUIRE(scene->start_hub() == "");
  const std::string socket = scene->socket;
  Fleet fleet(stage, socket);
  for (std::uint32_t rank = 0; rank < 3; ++rank) REQUIRE(fleet.spawn(rank));  // one is missing
  REQUIRE(comes_true([&] {
    const auto waits = scene->hub->wait_joined(0s);
    return !waits && waits.error().detail.find("rank 3 has not joined") != std::string::npos &&
           waits.error().detail.find("has not joined") ==
               waits.error().detail.rfind("has not joined") &&
           waits.error().detail.find("is joining") == std::string::npos;
  }));
  CHECK(scene->hub->stop(40s));  // its workers are refused: they were not ready
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    CHECK(fleet.reap(rank) == 4);
    CHECK(std::string(fleet.board(rank).why).starts_with("refused by the engine: the engine ends"));
  }
}

TEST_CASE("an engine killed while workers join: they join the next one", "[workers]") {
  Stage stage(kFour);
  auto next = std::make_unique<Scene>(kFour);
  Fleet fleet(stage, next->socket);
  int pipes[2];
  REQUIRE(::pipe2(pipes, O_CLOEXEC) == 0);
  const pid_t engine = ::fork();
  REQUIRE(engine >= 0);
  if (engine == 0) {
    Scene first(kFour);
    const bool started = first.start_hub({.socket = next->socket}).empty();
    const auto others_wait = [&] {
      const auto waits = first.hub->wait_joined(0s);
      return !waits && waits.error().detail.find("waits for the others") != std::string::npos;
    };
    if (!started || !comes_true(others_wait) || ::write(pipes[1], "w", 1) != 1) ::_exit(3);
    for (;;) ::pause();
  }
  for (std::uint32_t rank = 0; rank < 3; ++rank) REQUIRE(fleet.spawn(rank));
  char said = 0;
  REQUIRE(::read(pipes[0], &said, 1) == 1);
  ::kill(engine, SIGKILL);
  ::waitpid(engine, nullptr, 0);
  REQUIRE(next->start_hub() == "");
  REQUIRE(fleet.spawn(3));
  const auto joined = next->hub->wait_joined(40s);
  INFO((joined ? "" : joined.error().detail));
  CHECK(joined);
  ::close(pipes[0]);
  ::close(pipes[1]);
}

TEST_CASE("workers of a region file end with its owner", "[workers]") {
  TierDirectory dir;
  Stage stage(kFour);
  const std::string file = dir.path() + "/rows.region";
  Fleet fleet(stage, file);
  fleet.spawn_all();
  int pipes[2];
  REQUIRE(::pipe2(pipes, O_CLOEXEC) == 0);
  const pid_t engine = ::fork();
  REQUIRE(engine >= 0);
  if (engine == 0) {
    RegionOptions options;
    options.num_chunks = 8;
    options.chunk_bytes = stage.slot_bytes() * 4;
    options.threads = 1;
    options.shared = RegionSharing{};
    options.shared->record.engine_id = "engine-k";
    options.shared->record.world_size = 4;
    options.shared->file = file;
    auto region = Region::create(options);
    if (!region || ::write(pipes[1], "j", 1) != 1) ::_exit(2);
    for (;;) ::pause();
  }
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    REQUIRE(comes_true([&] { return fleet.board(rank).state == StageBoard::ready; }));
  CHECK(comes_true([&] { return dir.is_empty(); }));  // all have mapped it
  fleet.board(2).own_id = 1;
  fleet.board(2).command = StageBoard::submit;
  CHECK(comes_true([&] { return fleet.board(2).own_done == 1; }));
  ::kill(engine, SIGKILL);
  ::waitpid(engine, nullptr, 0);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    CHECK(fleet.reap(rank) == 0);
    CHECK(fleet.board(rank).state == StageBoard::gone);
  }
  ::close(pipes[0]);
  ::close(pipes[1]);
}

}  // namespace
}  // namespace kv_offload::test
