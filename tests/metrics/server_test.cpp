#include "kv_offload/actors/engine_config.hpp"
#include "kv_offload/actors/engine_metrics.hpp"
#include "kv_offload/tests/metrics/exposition.hpp"
#include "kv_offload/tests/metrics/known_stats.hpp"
#include "kv_offload/tests/metrics/socket_of_test.hpp"

#include <catch2/catch.hpp>
#include <zlib.h>

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
  [[nodiscard]] bool has(const std::string& header) const {
    return (head + "\r\n").find("\r\n" + header + "\r\n") != std::string::npos;
  }
};

Answer ask(int port, const std::string& request_line, const std::string& headers = "") {
  const auto socket = TestSocket::connect(kLoopback, port);
  socket.send(request_line + " HTTP/1.1\r\nHost: test\r\n" + headers + "\r\n");
  const std::string all = socket.receive_all();
  const auto line = all.find("\r\n");
  const auto end = all.find("\r\n\r\n");
  if (end == std::string::npos) return {};
  return {all.substr(0, line), all.substr(line, end - line), all.substr(end + 4)};
}

Answer get(int port, const std::string& path, const std::string& headers = "") {
  return ask(port, "GET " + path, headers);
}

/// What a gzip body holds.
std::string unpacked(const std::string& packed) {
  std::string text(1 << 20, '\0');
  std::string input = packed;
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return {};
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  const bool is_whole = inflate(&stream, Z_FINISH) == Z_STREAM_END;
  text.resize(is_whole ? stream.total_out : 0);
  inflateEnd(&stream);
  return text;
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
  CHECK(answer.has("Content-Type: text/plain; version=0.0.4; charset=utf-8"));
  CHECK(answer.has("Content-Length: " + std::to_string(answer.body.size())));
  const auto rendered = render_metrics(known_stats(), metric_definitions(EngineConfig{}));
  CHECK(engine_values(answer.body) == engine_values(rendered));
  CHECK(engine_values(answer.body).size() > 300);
}

TEST_CASE("three pages are served, everything else is not found and names them",
          "[metrics][unit]") {
  const auto server = must_start();
  for (const std::string path : {"/metrics", "/admission", "/healthz"})
    CHECK(get(server->port(), path).status == "HTTP/1.1 200 OK");
  for (const std::string path :
       {"/", "/metric", "/metrics/", "/healthz/x", "/etc/passwd", "/../etc/passwd", "/%2e%2e/x"}) {
    INFO(path);
    const Answer answer = get(server->port(), path);
    CHECK(answer.status == "HTTP/1.1 404 Not Found");
    CHECK(answer.body == "not found; served here: /admission /healthz /metrics\n");
  }
}

TEST_CASE("HEAD answers what GET would, without the body", "[metrics][unit]") {
  const auto server = must_start();
  for (const std::string path : {"/healthz", "/admission"}) {
    const Answer whole = get(server->port(), path);
    const Answer head = ask(server->port(), "HEAD " + path);
    CHECK(head.status == "HTTP/1.1 200 OK");
    CHECK(head.body.empty());
    CHECK(head.has("Content-Length: " + std::to_string(whole.body.size())));
  }
  CHECK(ask(server->port(), "HEAD /x").status == "HTTP/1.1 404 Not Found");
}

TEST_CASE("other methods are refused", "[metrics][unit]") {
  const auto server = must_start();
  for (const std::string method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    INFO(method);
    const Answer answer = ask(server->port(), method + " /metrics");
    CHECK(answer.status == "HTTP/1.1 405 Method Not Allowed");
    CHECK(answer.has("Allow: GET, HEAD"));
  }
}

TEST_CASE("a request's body is not waited for", "[metrics][unit]") {
  const auto server = must_start();
  // The body never comes; who waited for it would answer after a time limit, and not close.
  const Answer post = ask(server->port(), "POST /metrics", "Content-Length: 1000000000\r\n");
  CHECK(post.status == "HTTP/1.1 405 Method Not Allowed");
  const Answer with_body = get(server->port(), "/healthz", "Content-Length: 1000000000\r\n");
  CHECK(with_body.status == "HTTP/1.1 200 OK");
  const Answer chunked = get(server->port(), "/healthz", "Transfer-Encoding: chunked\r\n");
  CHECK(chunked.status == "HTTP/1.1 200 OK");
}

TEST_CASE("a request without end and one that is none are refused, and the server goes on",
          "[metrics][unit]") {
  const auto server = must_start();
  const auto socket = TestSocket::connect(kLoopback, server->port());
  std::string large = "GET /metrics HTTP/1.1\r\nX: ";
  large.resize(8192, 'x');  // as much as is read: the header never ends
  socket.send(large);
  const std::string refusal = socket.receive_all();
  INFO(refusal);
  CHECK((refusal.find(" 400 ") == 8 || refusal.find(" 413 ") == 8));
  CHECK(ask(server->port(), "nonsense").status.find("400") != std::string::npos);
  CHECK(get(server->port(), "/healthz").status == "HTTP/1.1 200 OK");
}

TEST_CASE("a page is compressed for whoever accepts that", "[metrics][unit]") {
  const auto server = must_start();
  const Answer packed = get(server->port(), "/metrics", "Accept-Encoding: deflate, gzip;q=0.5\r\n");
  CHECK(packed.has("Content-Encoding: gzip"));
  CHECK(packed.has("Content-Length: " + std::to_string(packed.body.size())));
  const std::string page = unpacked(packed.body);
  CHECK(packed.body.size() * 4 < page.size());
  CHECK(engine_values(page) == engine_values(get(server->port(), "/metrics").body));
  for (const std::string accepted : {"identity", "gzip;q=0", "gzip; q=0.0", "gzipped", "*"}) {
    INFO(accepted);
    const Answer plain = get(server->port(), "/metrics", "Accept-Encoding: " + accepted + "\r\n");
    CHECK(plain.head.find("Content-Encoding") == std::string::npos);
    CHECK_FALSE(engine_values(plain.body).empty());
  }
}

TEST_CASE("the server counts its scrapes under the names that scrapers know", "[metrics][unit]") {
  const auto server = must_start();
  const auto first = Exposition::parse(get(server->port(), "/metrics").body).values;
  CHECK(first.at("exposer_scrapes_total") == 0);
  const auto second = Exposition::parse(get(server->port(), "/metrics").body).values;
  CHECK(second.at("exposer_scrapes_total") == 1);
  CHECK(second.at("exposer_transferred_bytes_total") > 1000);
  CHECK(second.at("exposer_request_latencies_count") == 1);
}

TEST_CASE("/admission is JSON unless text is asked for", "[metrics][unit]") {
  const auto server = must_start();
  const Answer json = get(server->port(), "/admission");
  CHECK(json.has("Content-Type: application/json"));
  CHECK(json.body.front() == '{');
  CHECK(get(server->port(), "/admission", "Accept: */*\r\n").body.front() == '{');
  CHECK(get(server->port(), "/admission?format=json", "Accept: text/plain\r\n").body.front() ==
        '{');
  const Answer text = get(server->port(), "/admission?format=text");
  CHECK(text.has("Content-Type: text/plain; charset=utf-8"));
  CHECK(text.body.starts_with("Admission, chunks/jobs\n"));
  const Answer accepted = get(server->port(), "/admission", "Accept: text/plain\r\n");
  CHECK(accepted.body.starts_with("Admission, chunks/jobs\n"));
}

TEST_CASE("/healthz says 200 while the engine serves, and 503 with the reason otherwise",
          "[metrics][unit]") {
  std::atomic<HealthStatus> status = HealthStatus::ok;
  auto server = MetricsServer::start(kLoopback, 0, known_stats, metric_definitions(EngineConfig{}),
                                     [&]() -> EngineHealth {
                                       return {status, "because", {"1:fs"}, 0.25};
                                     });
  REQUIRE(server);
  const int port = (*server)->port();
  CHECK(get(port, "/healthz").status == "HTTP/1.1 200 OK");
  CHECK(get(port, "/healthz").has("Content-Type: application/json"));
  status = HealthStatus::degraded;
  const Answer degraded = get(port, "/healthz");
  CHECK(degraded.status == "HTTP/1.1 200 OK");
  CHECK(degraded.body == R"({"status":"degraded","reason":"because","disabled_tiers":["1:fs"],)"
                         R"("answer_seconds":0.25})"
                         "\n");
  for (const auto down :
       {HealthStatus::failed, HealthStatus::unresponsive, HealthStatus::shutting_down}) {
    status = down;
    const Answer answer = get(port, "/healthz");
    CHECK(answer.status == "HTTP/1.1 503 Service Unavailable");
    CHECK(answer.body == R"({"status":")" + std::string(to_string(down)) +
                             R"(","reason":"because","disabled_tiers":["1:fs"]})"
                             "\n");
  }
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
