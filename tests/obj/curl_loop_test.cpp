#include "kv_offload/tests/support/open_things.hpp"
#include "kv_offload/tiers/obj/curl_loop.hpp"

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <catch2/catch.hpp>

#include <chrono>
#include <list>
#include <string>
#include <thread>

using namespace kv_offload;
using asio::ip::tcp;
using std::chrono::milliseconds;

namespace {

const tcp::endpoint kLoopback(asio::ip::address_v4::loopback(), 0);

std::string url_of(const tcp::endpoint& endpoint) {
  return "http://127.0.0.1:" + std::to_string(endpoint.port()) + "/";
}

/// A port whose line of connections is full: whoever comes waits for an answer to his first packet.
struct FullPort {
  FullPort() {
    acceptor.open(tcp::v4());
    acceptor.bind(kLoopback);
    acceptor.listen(0);
    tcp::endpoint here = acceptor.local_endpoint();
    for (int n = 0; n < 4; ++n) {
      waiting.emplace_back(io, tcp::v4()).native_non_blocking(true);
      (void)::connect(waiting.back().native_handle(), here.data(), static_cast<socklen_t>(here.size()));
    }
  }
  asio::io_context io;
  tcp::acceptor acceptor{io};
  std::list<tcp::socket> waiting;
};

/// Answers every request on each of its connections with an empty 200.
class Answering {
 public:
  Answering() : thread_([this] { serve(); }) {}
  ~Answering() {
    asio::io_context io;
    tcp::socket last(io);
    last.connect(acceptor_.local_endpoint());
    last.close();
    thread_.join();
  }
  std::string url() { return url_of(acceptor_.local_endpoint()); }

 private:
  void serve() {
    for (;;) {
      tcp::socket socket = acceptor_.accept();
      std::error_code error;
      std::string got(4096, ' ');
      bool any = false;
      while (socket.read_some(asio::buffer(got), error) > 0 && !error) {
        any = true;
        asio::write(socket, asio::buffer(std::string("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")), error);
      }
      if (!any) return;  // the last one says nothing
    }
  }
  asio::io_context io_;
  tcp::acceptor acceptor_{io_, kLoopback};
  std::thread thread_;
};

HttpRequest get(const std::string& url, milliseconds timeout) {
  HttpRequest request;
  request.url = url;
  request.timeout = timeout;
  return request;
}

/// Runs the loop until the exchange has ended; `failed` if it does not end.
HttpEnd end_of(asio::io_context& io, CurlLoop& curl, HttpRequest request) {
  HttpEnd end = HttpEnd::failed;
  bool ended = false;
  curl.start(std::move(request), [&](HttpResponse&& response) {
    end = response.end;
    ended = true;
  });
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!ended && std::chrono::steady_clock::now() < until) {
    io.restart();
    io.run_one_for(milliseconds(100));
  }
  CHECK(ended);
  return end;
}

}  // namespace

TEST_CASE("a connection that was given up leaves nothing to the next socket of its number", "[obj]") {
  asio::io_context io;
  Answering answering;
  const FullPort full;
  CurlOptions options;
  options.connect_timeout = milliseconds(100);
  CurlLoop curl(io, options);
  const bool cancelled = GENERATE(false, true);
  const auto before = test::open_descriptors();
  for (int round = 0; round < 3; ++round) {
    if (cancelled) {
      const auto id = curl.start(get(url_of(full.acceptor.local_endpoint()), milliseconds(60'000)), [](HttpResponse&&) {
        FAIL("it was cancelled");
      });
      io.restart();
      io.run_for(milliseconds(30));
      CHECK(test::open_descriptors() > before);  // it does connect
      curl.cancel(id);
    } else {
      const auto end = end_of(io, curl, get(url_of(full.acceptor.local_endpoint()), milliseconds(60'000)));
      CHECK((end == HttpEnd::timed_out || end == HttpEnd::unreachable));
    }
    CHECK(end_of(io, curl, get(answering.url(), milliseconds(10'000))) == HttpEnd::answered);
    CHECK(end_of(io, curl, get(answering.url(), milliseconds(10'000))) == HttpEnd::answered);
  }
}

TEST_CASE("a loop that ends in the middle of connecting and answering closes all it opened", "[obj]") {
  asio::io_context io;
  Answering answering;
  const FullPort full;
  asio::steady_timer(io).async_wait([](const std::error_code&) {});  // the loop opens its own with its first use
  io.run();
  const auto before = test::open_descriptors();
  {
    CurlLoop curl(io, CurlOptions{});
    CHECK(end_of(io, curl, get(answering.url(), milliseconds(10'000))) == HttpEnd::answered);
    for (int n = 0; n < 3; ++n)
      curl.start(get(url_of(full.acceptor.local_endpoint()), milliseconds(60'000)), [](HttpResponse&&) {});
    io.restart();
    io.run_for(milliseconds(30));
    CHECK(test::open_descriptors() >= before + 4);
  }
  // The server sees the end of its connection a moment later.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (test::open_descriptors() != before && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  CHECK(test::open_descriptors() == before);
}
