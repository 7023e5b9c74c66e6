#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/actors/engine_metrics.hpp"
#include "kv_offload/tests/metrics/exposition.hpp"
#include "kv_offload/tests/metrics/known_stats.hpp"
#include "kv_offload/tests/metrics/socket_of_test.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <thread>

namespace kv_offload::test {
namespace {

using Server = std::unique_ptr<MetricsServer>;

const std::string kLoopback = MetricsConfig{}.address;

Expected<Server> start(const std::string& address, int port,
                       std::function<EngineStats()> stats = known_stats) {
  return MetricsServer::start(address, port, std::move(stats), metric_definitions(EngineConfig{}));
}

Server must_start(std::function<EngineStats()> stats = known_stats) {
  auto server = start(kLoopback, 0, std::move(stats));
  INFO((server ? "started" : server.error().detail));
  REQUIRE(server);
  return std::move(*server);
}

std::string refusal(const std::string& address, int port) {
  const auto server = start(address, port);
  if (server) return "started";
  CHECK(server.error().code == OffloadErrc::invalid_config);
  return server.error().detail;
}

struct Answer {
  std::string status, head, body;
};

Answer get(int port, const std::string& path) {
  const auto socket = TestSocket::connect(kLoopback, port);
  socket.send("GET " + path + " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
  const std::string all = socket.receive_all();
  const auto line = all.find("\r\n");
  const auto end = all.find("\r\n\r\n");
  if (end == std::string::npos) return {};
  return {all.substr(0, line), all.substr(line, end - line), all.substr(end + 4)};
}

/// The page without what the server counts of itself.
std::map<std::string, double> engine_values(const std::string& page) {
  auto values = Exposition::parse(page).values;
  std::erase_if(values, [](const auto& value) { return value.first.starts_with("exposer_"); });
  return values;
}

TEST_CASE("a scrape over HTTP reads what render_metrics writes", "[metrics][unit]") {
  const auto server = must_start();
  CHECK(server->port() > 0);
  const Answer answer = get(server->port(), "/metrics");
  CHECK(answer.status == "HTTP/1.1 200 OK");
  CHECK(answer.head.find("Content-Type: text/plain") != std::string::npos);
  const auto rendered = render_metrics(known_stats(), metric_definitions(EngineConfig{}));
  CHECK(engine_values(answer.body) == engine_values(rendered));
  CHECK(engine_values(answer.body).size() > 300);
}

TEST_CASE("only /metrics is served", "[metrics][unit]") {
  const auto server = must_start();
  for (const std::string path : {"/", "/metric", "/etc/passwd", "/../etc/passwd"})
    CHECK(get(server->port(), path).status == "HTTP/1.1 404 Not Found");
}

TEST_CASE("each scrape sees the numbers of its moment", "[metrics][unit]") {
  std::atomic<std::uint64_t> scrapes = 0;
  const auto server = must_start([&] {
    EngineStats stats = known_stats();
    stats.tracker.jobs_active = ++scrapes;
    return stats;
  });
  CHECK(scrapes == 0);
  for (const double scrape : {1, 2, 3}) {
    const auto values = engine_values(get(server->port(), "/metrics").body);
    CHECK(values.at("kv_offload_active_jobs") == scrape);
  }
  CHECK(scrapes == 3);
}

TEST_CASE("concurrent scrapes each get a whole page", "[metrics][unit]") {
  const auto server = must_start();
  const std::size_t num_values = engine_values(get(server->port(), "/metrics").body).size();
  std::atomic<int> num_whole = 0;
  std::vector<std::thread> scrapers;
  for (int i = 0; i < 4; ++i)
    scrapers.emplace_back([&] {
      for (int scrape = 0; scrape < 5; ++scrape) try {
          const Answer answer = get(server->port(), "/metrics");
          if (engine_values(answer.body).size() == num_values) ++num_whole;
        } catch (const std::runtime_error&) {
        }
    });
  for (auto& scraper : scrapers) scraper.join();
  CHECK(num_whole == 20);
}

TEST_CASE("a port in use is refused in one line", "[metrics][unit]") {
  const auto other = TestSocket::listen(kLoopback);
  const std::string port = std::to_string(other.port());
  CHECK(refusal(kLoopback, other.port()) ==
        "metrics.port: " + port +
            " is in use on 127.0.0.1; choose another port, 0 for any free "
            "one, or leave it out for no metrics page");
  const auto server = must_start();
  CHECK(refusal(kLoopback, server->port()).starts_with("metrics.port: "));
  CHECK(get(server->port(), "/metrics").status == "HTTP/1.1 200 OK");  // the first one goes on
}

TEST_CASE("an address that is not of this machine is refused in one line", "[metrics][unit]") {
  // 192.0.2.0/24 is reserved for documentation: no machine has it.
  CHECK(refusal("192.0.2.1", 0) ==
        "metrics.address: cannot listen at 192.0.2.1 port 0 (Cannot assign requested address); use "
        "127.0.0.1 or another address of this machine");
  CHECK(refusal("127.0.0.1:80", 0).starts_with("metrics.address: \"127.0.0.1:80\" is not allowed"));
}

TEST_CASE("what is no address or port is refused in one line", "[metrics][unit]") {
  const std::string after =
      " is not allowed; expected an IP address or a host name of this machine, such as 127.0.0.1";
  CHECK(refusal("", 0) == "metrics.address: \"\"" + after);
  CHECK(refusal("0,127.0.0.1", 0) == "metrics.address: \"0,127.0.0.1\"" + after);
  const std::string range = " is not allowed; expected an integer in [0, 65535]";
  CHECK(refusal(kLoopback, -1) == "metrics.port: -1" + range);
  CHECK(refusal(kLoopback, 65536) == "metrics.port: 65536" + range);
}

TEST_CASE("it listens at its address alone, by default the loopback", "[metrics][unit]") {
  CHECK(kLoopback == "127.0.0.1");
  const auto server = must_start();
  CHECK(TestSocket::can_connect("127.0.0.1", server->port()));
  CHECK_FALSE(TestSocket::can_connect("127.0.0.2", server->port()));
}

TEST_CASE("an address can be a name", "[metrics][unit]") {
  const auto server = start("localhost", 0);
  REQUIRE(server);
  CHECK((*server)->port() > 0);
}

TEST_CASE("an address of IP version 6 is served or refused in one line", "[metrics][unit]") {
  const auto server = start("::1", 0);  // depends on machine and build: Debian's server has none
  if (server) {
    CHECK((*server)->port() > 0);
  } else {
    CHECK(server.error().detail.starts_with("metrics.address: cannot listen at ::1"));
  }
}

TEST_CASE("the end of the server frees its port and keeps nothing of the engine",
          "[metrics][unit]") {
  const auto engine = std::make_shared<int>(0);
  auto server = must_start([engine] { return known_stats(); });
  const int port = server->port();
  CHECK(engine.use_count() > 1);
  server.reset();
  CHECK(engine.use_count() == 1);
  CHECK_FALSE(TestSocket::can_connect(kLoopback, port));
}

TEST_CASE("clients that say nothing do not keep the server from ending", "[metrics][unit]") {
  auto server = must_start();
  std::vector<TestSocket> idle;
  for (int i = 0; i < 4; ++i) idle.push_back(TestSocket::connect(kLoopback, server->port()));
  idle[0].send("GET /metrics HTTP/1.1\r\nHost: ");  // and never the rest
  const int port = server->port();
  server.reset();  // returns, or the test's time limit ends it
  CHECK_FALSE(TestSocket::can_connect(kLoopback, port));
}

}  // namespace
}  // namespace kv_offload::test
