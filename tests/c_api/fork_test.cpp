// A process that forks while an engine runs, and several engines in one process.
#include "kv_offload/tests/c_api/c_api_fixture.hpp"

#include <arpa/inet.h>
#include <atomic>
#include <functional>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace kv_offload;
using namespace kv_offload::test;

namespace {

/// Runs `child` in a child; its answer is the exit status. A child that hangs is killed by its alarm (status -14).
int in_child(const std::function<int()>& child) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(30);
    _exit(child());
  }
  REQUIRE(pid > 0);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Every call of the ABI on the parent's engine; the number of the first that does not answer as it should.
int calls_of_a_child(kvo_engine* engine, kvo_request r, const CKeys& keys) {
  const auto unwanted = [](void*, int, const char*, const kvo_lookup_answer*, const std::uint8_t*, std::size_t) { _exit(99); };
  auto plan = sized<kvo_store_plan>();
  auto load = sized<kvo_load_plan>();
  auto options = sized<kvo_request_options>();
  options.req_id = "of the child";
  kvo_request made = 0;
  std::uint32_t ids[8];
  char* text = nullptr;
  int pending = 0;
  const int codes[] = {
      kvo_lookup(engine, r, keys.data(), keys.size(), nullptr, nullptr, nullptr),
      kvo_lookup_async(engine, r, keys.data(), keys.size(), nullptr, unwanted, nullptr),
      kvo_new_request(engine, &options, &made, nullptr),
      kvo_prepare_store(engine, r, keys.data(), keys.size(), nullptr, &plan, ids, ids),
      kvo_prepare_load(engine, r, keys.data(), keys.size(), &load, ids),
      kvo_complete_store(engine, 1, 0, nullptr),
      kvo_complete_load(engine, 1),
      kvo_touch(engine, r, keys.data(), keys.size()),
      kvo_allocated(engine, r, 0),
      kvo_abort(engine, r),
      kvo_request_finished(engine, r, nullptr),
      kvo_forget_tenant(engine, "t", nullptr),
      kvo_drain(engine),
      kvo_reset(engine),
      kvo_stats_json(engine, &text),
      kvo_step_begin(engine),
      kvo_has_pending_work(engine, &pending),
      kvo_failed_state(engine),
      kvo_shutdown(engine, 0),
  };
  int number = 1;
  for (const int code : codes) {
    if (code != KVO_FORKED) return number;
    ++number;
  }
  if (kvo_chunk(engine, 0) != nullptr || kvo_num_chunks(engine) != 0) return 50;
  if (std::strstr(kvo_error_text(), "forked") == nullptr) return 51;
  return kvo_destroy(engine) == KVO_FORKED ? 0 : 52;
}

std::string http_get(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  const auto request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  REQUIRE(send(fd, request.data(), request.size(), 0) == static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t n; (n = recv(fd, buffer, sizeof(buffer), 0)) > 0;) answer.append(buffer, static_cast<std::size_t>(n));
  close(fd);
  return answer;
}

}  // namespace

TEST_CASE("a child forked while the engine is busy gets an answer to every call at once, and the parent goes on", "[c_api]") {
  TempDir dir;
  CEngine engine(config_json(dir.path));
  const CKeys keys('a', 8);
  const auto r = engine.request("r");
  engine.store(r, keys, 1);
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0}, failed{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 2; ++t)
    callers.emplace_back([&] {
      while (!stop) {
        if (kvo_lookup(engine, r, keys.data(), keys.size(), nullptr, nullptr, nullptr) != KVO_OK) ++failed;
        ++answered;
      }
    });
  for (int i = 0; i < 5; ++i) CHECK(in_child([&] { return calls_of_a_child(engine, r, keys); }) == 0);
  const int before = answered;
  while (answered < before + 10) std::this_thread::yield();
  stop = true;
  for (auto& caller : callers) caller.join();
  CHECK(failed == 0);
  CHECK(engine.load(r, keys, 1) == keys.size());
  CHECK(kvo_shutdown(engine, 0) == KVO_OK);
}

TEST_CASE("a forked child's facade refuses, and its destructor leaves the engine to the parent", "[c_api]") {
  TempDir dir;
  auto config = small_config();
  config.secondary_tiers.push_back(fs_tier(dir.path));
  auto engine = start(config);
  const auto r = *engine->new_request({.req_id = "r"}).get();
  store(*engine, r, keys('a', 2), std::byte{1}, true);
  const int code = in_child([&] {
    const auto answer = engine->lookup(r, keys('a', 2)).get();
    if (answer || answer.error().code != OffloadErrc::engine_failed) return 1;
    if (engine->complete_load({}).get() || engine->stats().get()) return 2;
    if (!engine->chunk(0).empty() || engine->failed_state().find("forked") == std::string::npos) return 3;
    if (!engine->shutdown()) return 4;
    engine.reset();
    return 0;
  });
  CHECK(code == 0);
  const auto found = engine->lookup(r, keys('a', 2)).get();
  REQUIRE(found);
  CHECK(found->leading_hits == 2);
  CHECK(engine->failed_state().empty());
  CHECK(engine->shutdown());
}

TEST_CASE("a child that was forked before runs an engine of its own", "[c_api]") {
  CHECK(in_child([] {
          auto options = sized<kvo_start_options>();
          const auto json = config_json();
          options.config_json = json.c_str();
          kvo_engine* engine = nullptr;
          if (kvo_start(&options, &engine) != KVO_OK) return 1;
          if (kvo_drain(engine) != KVO_OK) return 2;
          return kvo_destroy(engine) == KVO_OK ? 0 : 3;
        }) == 0);
}

TEST_CASE("two engines of different shape live in one process, each with its own pages", "[c_api]") {
  TempDir one, two;
  CEngine small(config_json(one.path, R"("metrics": {"port": 0})"));
  auto large = std::make_unique<CEngine>(
      R"({"chunk_bytes": 65536, "cpu_bytes_to_use": 2097152, "log_level": "off", "eviction_policy": "arc",
          "metrics": {"port": 0}, "secondary_tiers": [{"type": "fs", "root_dir": ")" + two.path + "\"}]}");
  CHECK(kvo_chunk_bytes(small) == 16384);
  CHECK(kvo_chunk_bytes(*large) == 65536);
  const CKeys keys('a', 3);
  const auto r = small.request("r"), s = large->request("r");
  small.store(r, keys, 1);
  auto answer = sized<kvo_lookup_answer>();
  REQUIRE(kvo_lookup(*large, s, keys.data(), 3, nullptr, &answer, nullptr) == KVO_OK);
  CHECK(answer.leading_hits == 0);
  large->store(s, keys, 50);
  CHECK(small.load(r, keys, 1) == 3);
  CHECK(large->load(s, keys, 50) == 3);

  const int port = kvo_metrics_port(small), other_port = kvo_metrics_port(*large);
  REQUIRE(port > 0);
  REQUIRE(other_port > 0);
  CHECK(port != other_port);
  CHECK_THAT(http_get(port, "/healthz"), Catch::StartsWith("HTTP/1.1 200"));
  CHECK_THAT(http_get(other_port, "/healthz"), Catch::StartsWith("HTTP/1.1 200"));
  large.reset();
  CHECK_THAT(http_get(port, "/healthz"), Catch::StartsWith("HTTP/1.1 200"));
  CHECK(small.load(r, keys, 1) == 3);
}
