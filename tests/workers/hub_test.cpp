#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tests/workers/left_behind.hpp"
#include "kv_offload/tests/workers/raw_worker.hpp"
#include "kv_offload/tests/workers/scene.hpp"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/socket.h>
#include <sys/stat.h>

namespace kv_offload::test {
namespace {

using namespace std::chrono_literals;

constexpr StageShape kTwo{
    .world_size = 2, .blocks_per_chunk = 1, .page_bytes = 4096, .num_blocks = 4, .num_tensors = 1};

/// Two raw workers that are ready.
struct Pair : Scene {
  Pair() : Scene(kTwo) {
    REQUIRE(region);
    REQUIRE(start_hub() == "");
    for (std::uint32_t rank = 0; rank < 2; ++rank) join(rank);
    for (auto& worker : workers) REQUIRE(worker->hear_text() == "ready");
    REQUIRE(hub->wait_joined(40s));
  }
  void join(std::uint32_t rank) {
    workers[rank] = std::make_unique<RawWorker>(socket);
    workers[rank]->hello(rank);
    REQUIRE(workers[rank]->hear_text() == "welcome");
    workers[rank]->layout(rank, 2, 4096);
  }
  std::unique_ptr<RawWorker> workers[2];
};

TEST_CASE("orders go to all ranks in order, and each report counts once", "[workers]") {
  Pair pair;
  for (std::uint64_t id : {1, 2, 3}) REQUIRE(pair.hub->submit(Scene::order(id, false, 0, 1)));
  for (auto& worker : pair.workers)
    for (std::uint64_t id : {1, 2, 3}) CHECK(worker->hear_text() == "order " + std::to_string(id));
  pair.workers[0]->report(2);
  pair.workers[0]->report(2);
  pair.workers[0]->report(1);
  pair.workers[1]->report(1);
  CHECK(pair.log.outcome(1)->success);
  CHECK(pair.log.outcome(1)->bytes == 2);
  CHECK(pair.log.wait_quiesced(1));
  CHECK_FALSE(pair.log.quiesced(2));  // twice from one rank is not once from two
  pair.workers[1]->report(2, false);
  CHECK_FALSE(pair.log.outcome(2)->success);
  CHECK(pair.log.outcome(2)->error == "rank 1: no");
  CHECK(pair.log.wait_quiesced(2));
  pair.workers[0]->report(3);
  pair.workers[1]->report(3);
  CHECK(pair.log.wait_quiesced(3));
  CHECK(pair.log.in_order());
  const auto stats = pair.hub->stats();
  CHECK(stats.orders == 3);
  CHECK(stats.quiesced == 3);
  CHECK(stats.outcomes == 3);
  CHECK(stats.failed == 1);
  CHECK(stats.ranks[0].joins == 1);
  CHECK(stats.ranks[1].failed_jobs == 1);
  CHECK(stats.ranks[0].stored_bytes == 3);
}

TEST_CASE("whoever is told of an end finds it counted and the dead rank missing", "[workers]") {
  Pair pair;
  std::vector<std::string> found;  // written by the hub's thread, read after what it said
  pair.log.at_quiesced = [&] {
    const auto stats = pair.hub->stats();
    found.push_back(std::to_string(stats.outcomes) + " " + std::to_string(stats.quiesced) + " " +
                    std::to_string(stats.ranks[1].joined));
  };
  REQUIRE(pair.hub->submit(Scene::order(1, false, 0, 1)));
  for (auto& worker : pair.workers) {
    REQUIRE(worker->hear_text() == "order 1");
    worker->report(1);
  }
  REQUIRE(pair.log.wait_quiesced(1));
  CHECK(found == std::vector<std::string>{"1 1 1"});
  REQUIRE(pair.hub->submit(Scene::order(2, false, 0, 1)));
  pair.workers[0]->report(2);
  pair.workers[1].reset();  // its process lives: the end comes with the next one of the rank
  REQUIRE_FALSE(pair.log.outcome(2)->success);
  CHECK_FALSE(pair.hub->stats().ranks[1].joined);
  CHECK(pair.hub->stats().outcomes == 2);
}

TEST_CASE("a hub refuses what it cannot do, and counts no order of it", "[workers]") {
  Scene scene(kTwo);
  REQUIRE(scene.start_hub({.orders_max = 2}) == "");
  auto refused = scene.hub->submit(Scene::order(1, false, 0, 0));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().detail == "order 1: rank 0 has not joined; rank 1 has not joined");
  std::unique_ptr<RawWorker> workers[2];
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    workers[rank] = std::make_unique<RawWorker>(scene.socket);
    workers[rank]->hello(rank);
    CHECK(workers[rank]->hear_text() == "welcome");
    if (rank == 0) {
      workers[0]->layout(0, 2, 4096);
      const auto waits = scene.hub->wait_joined(10ms);
      REQUIRE_FALSE(waits);
      CHECK(waits.error().code == OffloadErrc::deadline);
    }
  }
  workers[1]->layout(1, 2, 4096);
  REQUIRE(scene.hub->wait_joined(40s));
  REQUIRE(scene.hub->submit(Scene::order(1, false, 0, 0)));
  CHECK(scene.hub->submit(Scene::order(1, false, 0, 0)).error().detail ==
        "order 1: is out already");
  REQUIRE(scene.hub->submit(Scene::order(2, false, 0, 0)));
  refused = scene.hub->submit(Scene::order(3, false, 0, 0));
  CHECK(refused.error().code == OffloadErrc::busy);
  CHECK(refused.error().detail == "order 3: 2 orders are out; expected at most 2");
  for (auto& worker : workers) {
    CHECK(worker->hear_text() == "ready");
    CHECK(worker->hear_text() == "order 1");
    worker->report(1);
  }
  REQUIRE(scene.log.wait_quiesced(1));
  auto huge = Scene::order(4, false, 0, 0);
  huge.blocks.block_ids.resize(3 << 20);
  refused = scene.hub->submit(std::move(huge));
  CHECK(refused.error().code == OffloadErrc::invalid_argument);
  CHECK(refused.error().detail.find("expected at most 8388608") != std::string::npos);
  REQUIRE(scene.hub->submit(Scene::order(1, false, 0, 0)));  // over, so its id is free
  CHECK(comes_true([&] { return scene.hub->stats().orders == 3; }));
}

TEST_CASE("a rank that does not fit is refused by name of what does not fit", "[workers]") {
  Scene scene(kTwo);
  REQUIRE(scene.start_hub() == "");
  struct Case {
    std::uint32_t rank;
    RegionExpectation expected;
    std::string says;
  };
  const auto layout = ChunkLayout::sharded;
  const auto c = GENERATE_COPY(values<Case>({
      {2, {}, "rank: 2; expected 0 to 1"},
      {0,
       {"engine-b", 0, 0, 0, layout, "", {}},
       "region: engine_id: found \"engine-a\", expected \"engine-b\""},
      {0, {"", 0, 3, 0, layout, "", {}}, "region: world_size: found 2, expected 3"},
      {0, {"", 0, 0, 7, layout, "", {}}, "region: blocks_per_chunk: found 1, expected 7"},
      {0,
       {"", 0, 0, 0, ChunkLayout::canonical, "", {}},
       "region: layout: found \"sharded\", expected \"canonical\""},
      {0, {"", 0, 0, 0, layout, "f2", {}}, "region: fingerprint: found \"f1\", expected \"f2\""},
      {0, {"", 0, 0, 0, layout, "", "r9"}, "region: revision: found \"r1\", expected \"r9\""},
  }));
  RawWorker worker(scene.socket);
  worker.hello(c.rank, c.expected);
  CHECK(worker.hear_text() == "refusal: " + c.says);
  CHECK(worker.hear_text() == "ended");
  CHECK(worker.socket().descriptors().empty());
  const auto waited = scene.hub->wait_joined(0ms);
  REQUIRE_FALSE(waited);
  CHECK(waited.error().detail.find("last refusal: process") != std::string::npos);
  CHECK(waited.error().detail.find(c.says) != std::string::npos);
  CHECK(scene.hub->stats().strange_frames == 0);
}

TEST_CASE("a later joiner finds the new revision", "[workers]") {
  Scene scene(kTwo);
  REQUIRE(scene.start_hub() == "");
  scene.hub->set_revision("r2");
  RawWorker old(scene.socket);
  old.hello(0, {"", 0, 0, 0, ChunkLayout::sharded, "", "r1"});
  CHECK(old.hear_text() == "refusal: region: revision: found \"r2\", expected \"r1\"");
  RawWorker fresh(scene.socket);
  fresh.hello(0, {"", 0, 0, 0, ChunkLayout::sharded, "", "r2"});
  const auto frame = fresh.hear();
  REQUIRE(frame);
  CHECK(parse_welcome(frame->payload)->record.revision == "r2");
}

TEST_CASE("a second process with a rank is refused while the first lives", "[workers]") {
  Pair pair;
  RawWorker second(pair.socket);
  second.hello(1);
  CHECK(second.hear_text() == "refusal: rank 1 is held by process " + std::to_string(::getpid()));
  CHECK(pair.hub->stats().ranks[1].joins == 1);
  REQUIRE(pair.hub->submit(Scene::order(1, false, 0, 0)));  // and the first one is as it was
  CHECK(pair.workers[1]->hear_text() == "order 1");
}

TEST_CASE("ranks that do not fit together are all refused with the reason", "[workers]") {
  Scene scene(kTwo);
  REQUIRE(scene.start_hub() == "");
  RawWorker one(scene.socket);
  RawWorker two(scene.socket);
  one.hello(0);
  CHECK(one.hear_text() == "welcome");
  one.layout(0, 2, 4096);
  two.hello(1);
  CHECK(two.hear_text() == "welcome");
  two.layout(1, 2, 2048);
  const auto why = one.hear_text();
  CHECK(why.find("refusal: ") == 0);
  CHECK(two.hear_text() == why);
  const auto joined = scene.hub->wait_joined(40s);
  REQUIRE_FALSE(joined);
  CHECK("refusal: " + joined.error().detail.substr(std::string("workers: ").size()) == why);
  // Those who fit may still come.
  RawWorker again[2] = {RawWorker(scene.socket), RawWorker(scene.socket)};
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    again[rank].hello(rank);
    CHECK(again[rank].hear_text() == "welcome");
    again[rank].layout(rank, 2, 4096);
  }
  for (auto& worker : again) CHECK(worker.hear_text() == "ready");
  CHECK(scene.hub->wait_joined(40s));
}

TEST_CASE("a worker that says goodbye has ended its copies: its orders are over", "[workers]") {
  Pair pair;
  REQUIRE(pair.hub->submit(Scene::order(1, false, 0, 0)));
  CHECK(pair.workers[0]->hear_text() == "order 1");
  pair.workers[0]->report(1);
  pair.workers[1]->send(encode(GoodbyeMessage{"time to go"}));
  const auto outcome = pair.log.outcome(1);
  REQUIRE(outcome);
  CHECK(outcome->errc == OffloadErrc::io_error);
  CHECK(outcome->error.find("has left: time to go") != std::string::npos);
  CHECK(pair.log.wait_quiesced(1));
  REQUIRE(comes_true([&] { return !pair.hub->stats().ranks[1].joined; }));
  const auto refused = pair.hub->submit(Scene::order(2, false, 0, 0));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().detail.find("order 2: rank 1 has left: time to go") == 0);
  pair.join(1);  // the rank is free
  CHECK(pair.workers[1]->hear_text() == "ready");
  CHECK(pair.hub->wait_joined(40s));
  CHECK(pair.hub->stats().ranks[1].deaths == 0);
}

TEST_CASE("a worker that closes without goodbye but lives fails its orders and frees nothing",
          "[workers]") {
  Pair pair;
  REQUIRE(pair.hub->submit(Scene::order(1, false, 0, 0)));
  for (auto& worker : pair.workers) CHECK(worker->hear_text() == "order 1");  // they may be at it
  pair.workers[0]->report(1);
  pair.workers[1]->socket().close();
  const auto outcome = pair.log.outcome(1);
  REQUIRE(outcome);
  CHECK(outcome->error ==
        "rank 1 (pid " + std::to_string(::getpid()) + ") closed its connection without a goodbye");
  RawWorker second(pair.socket);
  second.hello(1);
  CHECK(second.hear_text().find(", which closed its connection without a goodbye but lives") !=
        std::string::npos);
  CHECK_FALSE(pair.log.quiesced(1));
  CHECK_FALSE(pair.hub->submit(Scene::order(2, false, 0, 0)));
  pair.workers[0]->send(encode(GoodbyeMessage{""}));
  CHECK_FALSE(pair.hub->stop(50ms));  // it has neither ended nor died
  CHECK_FALSE(pair.log.quiesced(1));
  CHECK(pair.logged("rank 1 (pid " + std::to_string(::getpid()) + ") has neither ended nor died"));
}

TEST_CASE("a strange frame ends that connection alone, and is counted", "[workers]") {
  Pair pair;
  REQUIRE(pair.hub->submit(Scene::order(1, false, 0, 0)));
  CHECK(pair.workers[0]->hear_text() == "order 1");
  CHECK(pair.workers[1]->hear_text() == "order 1");
  const auto kind = GENERATE(0, 1, 2, 3, 4, 5, 6);
  CAPTURE(kind);
  auto frame = encode(ReportMessage{1, false, true, 1, Duration(1), ""});
  switch (kind) {
    case 0: frame[0] = std::byte{'X'}; break;                         // no frame at all
    case 1: frame[30] ^= std::byte{1}; break;                         // garbled
    case 2: frame = encode(HelloMessage{0, {}, 1}); break;            // again
    case 3: frame = encode(ReadyMessage{}); break;                    // what only the hub says
    case 4: frame = encode(RawWorker::layout_of(1, 2, 4096)); break;  // out of turn
    case 5:
      frame = encode_frame(FrameType::report, std::vector<std::byte>(3));
      break;  // cut, with a right checksum
    case 6: break;
  }
  // 6: with a descriptor that nobody asked for.
  pair.workers[1]->socket().send(std::make_shared<const std::vector<std::byte>>(frame),
                                 kind == 6 ? STDIN_FILENO : -1);
  REQUIRE(pair.workers[1]->socket().flush());
  CHECK(pair.workers[1]->hear_text() == "ended");
  if (kind != 6) {
    const auto outcome = pair.log.outcome(1);
    REQUIRE(outcome);
    CHECK(outcome->error.find("was cut off for ") != std::string::npos);
  }
  CHECK(comes_true([&] { return pair.hub->stats().strange_frames == 1; }));
  CHECK_FALSE(pair.log.quiesced(1));
  CHECK(pair.hub->stats().ranks[0].joined);
}

TEST_CASE("before they are ready workers that vanish free their ranks", "[workers]") {
  Scene scene(kTwo);
  REQUIRE(scene.start_hub() == "");
  for (int how = 0; how < 3; ++how) {
    RawWorker worker(scene.socket);
    if (how > 0) worker.hello(0);
    if (how > 0) CHECK(worker.hear_text() == "welcome");
    if (how > 1) worker.layout(0, 2, 4096);
    worker.socket().close();
  }
  std::string heard;
  CHECK(comes_true([&] {
    RawWorker worker(scene.socket);
    worker.hello(0);
    heard = worker.hear_text();
    return heard == "welcome";
  }));
  CHECK(scene.hub->stop(40s));
}

TEST_CASE("strangers at the socket take nothing", "[workers]") {
  Scene scene(kTwo);
  REQUIRE(scene.start_hub() == "");
  std::vector<std::unique_ptr<RawWorker>> silent;
  for (int i = 0; i < 64 + 2; ++i)  // as many as its ranks beyond 64
    silent.push_back(std::make_unique<RawWorker>(scene.socket));
  RawWorker one_more(scene.socket);
  CHECK(one_more.hear_text() == "refusal: too many processes are joining");
  RawWorker report(scene.socket);
  silent.clear();
  std::string heard;
  CHECK(comes_true([&] {
    RawWorker worker(scene.socket);
    worker.report(1);  // without a hello
    heard = worker.hear_text();
    return heard == "ended";
  }));
}

TEST_CASE("who says hello for another process is refused", "[workers]") {
  Scene scene(kTwo);
  REQUIRE(scene.start_hub() == "");
  RawWorker worker(scene.socket);
  worker.send(encode(HelloMessage{0, {"", 0, 0, 0, ChunkLayout::sharded, "", {}}, 12345}));
  CHECK(worker.hear_text().find("is not the one that says hello") != std::string::npos);
}

TEST_CASE("an order that the embedder told itself takes reports that came before it", "[workers]") {
  Pair pair;
  pair.workers[0]->report(9);
  pair.workers[1]->report(9);
  REQUIRE(comes_true([&] {
    return pair.hub->stats().ranks[1].stored_bytes == 1 &&
           pair.hub->stats().ranks[0].stored_bytes == 1;
  }));
  auto order = Scene::order(9, false, 0, 0);
  order.told_by_embedder = true;
  REQUIRE(pair.hub->submit(order));
  CHECK(pair.log.outcome(9)->success);
  CHECK(pair.log.wait_quiesced(9));
  order.id = 10;
  REQUIRE(pair.hub->submit(order));
  pair.workers[0]->report(10);
  pair.workers[1]->report(10);
  CHECK(pair.log.wait_quiesced(10));
  REQUIRE(pair.hub->submit(Scene::order(11, false, 0, 0)));
  CHECK(pair.workers[0]->hear_text() == "order 11");  // of 9 and 10 nobody was told
}

TEST_CASE("a deadline is the outcome, a late report the end", "[workers]") {
  Pair pair;
  auto order = Scene::order(1, false, 0, 0);
  order.deadline = std::chrono::steady_clock::now();
  REQUIRE(pair.hub->submit(order));
  const auto outcome = pair.log.outcome(1);
  REQUIRE(outcome);
  CHECK(outcome->errc == OffloadErrc::deadline);
  CHECK(outcome->error == "no report in time from rank 0, 1");
  pair.workers[0]->report(1);
  CHECK_FALSE(pair.log.quiesced(1));
  pair.workers[1]->report(1);
  CHECK(pair.log.wait_quiesced(1));
  CHECK(pair.log.in_order());
  CHECK(comes_true([&] { return pair.hub->stats().deadlines == 1; }));
}

TEST_CASE("a hub that stops tells its workers and waits for their goodbyes", "[workers]") {
  Pair pair;
  REQUIRE(pair.hub->submit(Scene::order(1, false, 0, 0)));
  REQUIRE(pair.hub->submit(Scene::order(2, false, 0, 0)));
  bool clean = false;
  std::thread stopper([&] { clean = pair.hub->stop(60s); });
  for (auto& worker : pair.workers) {
    CHECK(worker->hear_text() == "order 1");
    CHECK(worker->hear_text() == "order 2");
    CHECK(worker->hear_text() == "end");
  }
  CHECK(pair.hub->submit(Scene::order(3, false, 0, 0)).error().code == OffloadErrc::shutting_down);
  CHECK(pair.hub->wait_joined(0s).error().code == OffloadErrc::shutting_down);
  for (auto& worker : pair.workers) {
    worker->report(1);
    worker->send(encode(GoodbyeMessage{"the engine ends"}));
  }
  stopper.join();
  CHECK(clean);
  CHECK(pair.log.outcome(1)->success);  // ended in time
  CHECK(pair.log.outcome(2)->errc == OffloadErrc::shutting_down);
  CHECK(pair.log.quiesced(1));
  CHECK(pair.log.quiesced(2));
  CHECK(pair.log.in_order());
  CHECK(pair.hub->stop(0s));  // again
}

TEST_CASE("orders that still run when patience ends are ended as shutting down, and not quiesced",
          "[workers]") {
  Pair pair;
  REQUIRE(pair.hub->submit(Scene::order(1, false, 0, 0)));
  CHECK_FALSE(pair.hub->stop(20ms));
  CHECK(pair.log.outcome(1)->errc == OffloadErrc::shutting_down);
  CHECK_FALSE(pair.log.quiesced(1));
}

TEST_CASE("a hub that cannot start says why and leaves nothing", "[workers]") {
  TierDirectory dir;
  Scene scene(kTwo);
  const auto before = Holdings::now(dir.path(), "kvo-test");
  CHECK(scene.start_hub({.socket = std::string(300, 's')})
            .find("expected @name or a path of at most 107") != std::string::npos);
  CHECK(scene.start_hub({.socket = dir.path() + "/none/s"}).find("its folder: No such file") !=
        std::string::npos);
  CHECK(scene.start_hub({.orders_max = 0}).find("orders_max: 0") != std::string::npos);
  WorkerHub::Options wrong;
  wrong.socket = scene.socket;
  wrong.record = *scene.region->record();
  CHECK(WorkerHub::start(wrong).error().detail == "workers: region_fd is no region");
  wrong.region_fd = scene.region->fd();
  wrong.record.engine_id = "engine-b";
  CHECK(WorkerHub::start(wrong).error().detail ==
        "workers: region_fd is not the region of the record");
  CHECK(Holdings::now(dir.path(), "kvo-test").beyond(before) == "");
  REQUIRE(scene.start_hub() == "");
  Scene other(kTwo);
  CHECK(other.start_hub({.socket = scene.socket}).find("another engine listens there") !=
        std::string::npos);
}

TEST_CASE("a socket's path is there until all have joined, and again when one is missing",
          "[workers]") {
  TierDirectory dir;
  const std::string path = dir.path() + "/engine.sock";
  Scene scene(kTwo);
  REQUIRE(scene.start_hub({.socket = path}) == "");
  struct stat at {};
  REQUIRE(::stat(path.c_str(), &at) == 0);
  CHECK((at.st_mode & 0777) == 0600);
  Scene other(kTwo);
  CHECK(other.start_hub({.socket = path}).find("another engine listens there") !=
        std::string::npos);
  RawWorker workers[2] = {RawWorker(path), RawWorker(path)};
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    workers[rank].hello(rank);
    CHECK(workers[rank].hear_text() == "welcome");
    workers[rank].layout(rank, 2, 4096);
  }
  REQUIRE(scene.hub->wait_joined(40s));
  CHECK(comes_true([&] { return !std::filesystem::exists(path); }));
  workers[1].send(encode(GoodbyeMessage{}));
  CHECK(comes_true([&] { return std::filesystem::exists(path); }));
  scene.hub.reset();
  CHECK(dir.is_empty());
}

TEST_CASE("what a dead engine left at the path goes, what is something else stays", "[workers]") {
  TierDirectory dir;
  const std::string path = dir.path() + "/engine.sock";
  {
    const auto address = SocketAddress::parse(path);
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address->address),
                   address->bytes) == 0);
    REQUIRE(::listen(fd.get(), 1) == 0);
  }
  REQUIRE(std::filesystem::exists(path));
  Scene scene(kTwo);
  REQUIRE(scene.start_hub({.socket = path}) == "");
  scene.hub.reset();
  CHECK_FALSE(std::filesystem::exists(path));
  std::ofstream(path) << "mine";
  CHECK(scene.start_hub({.socket = path})
            .find("something else is there already; it stays untouched") != std::string::npos);
  CHECK(std::filesystem::file_size(path) == 4);
}

}  // namespace
}  // namespace kv_offload::test
