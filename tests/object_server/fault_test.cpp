#include "kv_offload/bench/object_server/object_server.hpp"
#include "kv_offload/tests/object_server/http_client.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <ctime>
#include <string>
#include <thread>

using namespace kv_offload::bench;
using kv_offload::test::Headers;
using kv_offload::test::HttpAnswer;
using kv_offload::test::HttpClient;

namespace {

using Clock = std::chrono::steady_clock;

/// A server with one object, "key", of 100 kB.
struct FaultyServer : ObjectServer {
  FaultyServer() {
    REQUIRE(start());
    put("key", body, {{"x-amz-meta-a", "b"}});
  }
  ServerFaults::RuleId rule(ServerFaultKind kind, std::int64_t argument = 0,
                            std::uint64_t times = 0) {
    return faults().add({.kind = kind, .argument = argument, .times = times});
  }
  HttpAnswer get(const std::string& key = "key") {
    return HttpClient(port()).signed_request("GET", "/kv-cache/" + key);
  }
  HttpAnswer put_new(const std::string& text) {
    return HttpClient(port()).signed_request("PUT", "/kv-cache/new", text, {{"x-amz-meta-a", "b"}});
  }
  const std::string body = std::string(50'000, 'x') + std::string(50'000, 'y');
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string amz_now(std::time_t ahead) {
  const std::time_t at = std::time(nullptr) + ahead;
  std::tm parts{};
  ::gmtime_r(&at, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
  return text;
}

}  // namespace

TEST_CASE("a rule counts its matches: the first pass, the next get it, the rest pass",
          "[object_server][unit]") {
  FaultyServer server;
  const auto rule = server.faults().add(
      {.method = "GET", .key_contains = "ke", .argument = 503, .times = 2, .after = 1});
  std::vector<int> statuses;
  for (int i = 0; i < 5; ++i) {
    statuses.push_back(server.get().status);
    CHECK(HttpClient(server.port()).signed_request("HEAD", "/kv-cache/key").status == 200);
    CHECK(server.get("other").status == 404);
  }
  CHECK(statuses == std::vector<int>{200, 503, 503, 200, 200});
  CHECK(server.faults().hits(rule) == 2);
  server.faults().clear();
  CHECK_FALSE(server.faults().active(rule));
  CHECK(server.faults().hits(rule) == 2);
}

TEST_CASE("a rule for requests to the bucket looks at the query", "[object_server][unit]") {
  FaultyServer server;
  server.faults().add({.key_contains = "prefix=a/", .argument = 500});
  CHECK(HttpClient(server.port()).signed_request("GET", "/kv-cache?list-type=2&prefix=a%2F").status ==
        500);
  CHECK(HttpClient(server.port()).signed_request("GET", "/kv-cache?list-type=2&prefix=b").status == 200);
  CHECK(server.get().status == 200);
}

TEST_CASE("status: the answer is the given one, and a put keeps nothing", "[object_server][unit]") {
  FaultyServer server;
  server.faults().add({.argument = 503, .retry_after_s = 7});
  HttpClient client(server.port());
  const auto put = client.signed_request("PUT", "/kv-cache/new", std::string(1'000'000, 'x'));
  CHECK(put.status == 503);
  CHECK(put.header("retry-after") == "7");
  CHECK(has(put.body, "<Code>SlowDown</Code>"));
  CHECK(client.signed_request("HEAD", "/kv-cache/key").body.empty());
  CHECK(server.objects() == 1);
  server.faults().clear();
  server.faults().add({.argument = 403, .text = "SignatureDoesNotMatch"});
  CHECK(has(client.signed_request("GET", "/kv-cache/key").body, "<Code>SignatureDoesNotMatch</Code>"));
  server.faults().clear();
  CHECK(client.signed_request("GET", "/kv-cache/key").status == 200);  // the connection was kept
}

TEST_CASE("status early: it comes before the body, and the connection closes",
          "[object_server][unit]") {
  FaultyServer server;
  server.faults().add({.argument = 503, .early = true});
  HttpClient client(server.port());
  client.send_head("PUT", "/kv-cache/new", 10'000'000, HttpClient::signed_headers());
  const auto answer = client.receive("PUT");
  CHECK(answer.status == 503);
  CHECK(answer.header("connection") == "close");
  CHECK(client.closed());
}

TEST_CASE("redirect: the bucket is elsewhere, and the answer says where", "[object_server][unit]") {
  FaultyServer server;
  server.faults().add({.kind = ServerFaultKind::redirect, .text = "us-west-2"});
  const auto answer = server.get();
  CHECK(answer.status == 301);
  CHECK(answer.header("x-amz-bucket-region") == "us-west-2");
  CHECK(has(answer.body, "<Code>PermanentRedirect</Code>"));
  CHECK(has(answer.body, "<Endpoint>s3.us-west-2.amazonaws.com</Endpoint>"));
}

TEST_CASE("close at once: no byte comes back", "[object_server][unit]") {
  FaultyServer server;
  server.rule(ServerFaultKind::close_at_once);
  const auto answer = server.get();
  CHECK(answer.status == 0);
  CHECK(answer.raw.empty());
  server.put_new("x");
  CHECK(server.objects() == 1);
}

TEST_CASE("close after bytes: of the answer's body, or of a put's", "[object_server][unit]") {
  FaultyServer server;
  server.rule(ServerFaultKind::close_after_bytes, 10);
  const auto answer = server.get();
  CHECK(answer.status == 200);
  CHECK(answer.header("content-length") == "100000");
  CHECK_FALSE(answer.complete);
  CHECK(answer.body == "xxxxxxxxxx");
  HttpClient client(server.port());
  client.send_head("PUT", "/kv-cache/new", 1'000'000, HttpClient::signed_headers());
  client.send("1234567890");
  CHECK(client.closed());
  CHECK(server.objects() == 1);
}

TEST_CASE("close after the answer: whoever keeps the connection has a dead one",
          "[object_server][unit]") {
  FaultyServer server;
  server.rule(ServerFaultKind::close_after_answer, 0, 1);
  HttpClient client(server.port());
  const auto answer = client.signed_request("GET", "/kv-cache/key");
  CHECK(answer.complete);
  CHECK(answer.header("connection").empty());
  CHECK(client.closed());
}

TEST_CASE("short body: fewer bytes than announced", "[object_server][unit]") {
  FaultyServer server;
  server.rule(ServerFaultKind::short_body, 1, 1);
  const auto by_one = server.get();
  CHECK_FALSE(by_one.complete);
  CHECK(by_one.body.size() == 99'999);
  server.rule(ServerFaultKind::short_body);
  const auto by_half = server.get();
  CHECK(by_half.header("content-length") == "100000");
  CHECK(by_half.body.size() == 50'000);
}

TEST_CASE("wrong length: another length, rightly framed", "[object_server][unit]") {
  FaultyServer server;
  server.rule(ServerFaultKind::wrong_length, 0, 2);
  CHECK(server.get().body == server.body.substr(0, 99'999));
  CHECK(HttpClient(server.port()).signed_request("HEAD", "/kv-cache/key").header("content-length") ==
        "99999");
  server.rule(ServerFaultKind::wrong_length, 3, 1);
  const auto longer = server.get();
  CHECK(longer.complete);
  CHECK(longer.body == server.body + std::string(3, '\0'));
  server.rule(ServerFaultKind::wrong_length, -1'000'000);
  CHECK(server.get().header("content-length") == "0");
}

TEST_CASE("wrong bytes: one byte of the body is another", "[object_server][unit]") {
  FaultyServer server;
  server.rule(ServerFaultKind::wrong_bytes, 60'000);
  auto expected = server.body;
  expected[60'000] = static_cast<char>(expected[60'000] ^ '\xff');
  CHECK(server.get().body == expected);
  server.faults().clear();
  CHECK(server.get().body == server.body);
  CHECK(server.corrupt("key", 60'000));  // the same, for good
  CHECK(server.get().body == expected);
  CHECK_FALSE(server.corrupt("key", 100'000));
  CHECK_FALSE(server.corrupt("none", 0));
}

TEST_CASE("drop metadata: from the answer, and from what a put keeps", "[object_server][unit]") {
  FaultyServer server;
  server.rule(ServerFaultKind::drop_metadata);
  CHECK(server.get().header("x-amz-meta-a").empty());
  CHECK(server.put_new("x").status == 200);
  server.faults().clear();
  CHECK(server.get().header("x-amz-meta-a") == "b");
  CHECK(server.body_of("new") == "x");
  CHECK_FALSE(server.header_of("new", "x-amz-meta-a"));
}

TEST_CASE("delays add up and leave the answer to a later rule", "[object_server][unit]") {
  FaultyServer server;
  server.rule(ServerFaultKind::delay_ms, 30);
  server.rule(ServerFaultKind::delay_ms, 30);
  server.rule(ServerFaultKind::status, 500);
  const auto start = Clock::now();
  CHECK(server.get().status == 500);
  CHECK(Clock::now() - start >= std::chrono::milliseconds(60));
}

TEST_CASE("trickle: the body comes, and is taken, at its rate", "[object_server][unit]") {
  FaultyServer server;
  server.rule(ServerFaultKind::trickle, 1'000'000);
  auto start = Clock::now();
  CHECK(server.get().body == server.body);
  CHECK(Clock::now() - start >= std::chrono::milliseconds(90));
  start = Clock::now();
  CHECK(server.put_new(server.body).status == 200);
  CHECK(Clock::now() - start >= std::chrono::milliseconds(90));
  CHECK(server.body_of("new") == server.body);
}

TEST_CASE("hang: no answer until the rule is gone, then the usual one", "[object_server][unit]") {
  FaultyServer server;
  const auto rule = server.rule(ServerFaultKind::hang);
  HttpClient first(server.port()), second(server.port());
  first.send_head("GET", "/kv-cache/key", 0, HttpClient::signed_headers());
  second.send_head("GET", "/kv-cache/key", 0, HttpClient::signed_headers());
  CHECK(first.silent_for_ms(50));
  CHECK(server.faults().hits(rule) == 2);
  server.faults().remove(rule);
  CHECK(first.receive("GET").body == server.body);
  CHECK(second.receive("GET").body == server.body);
}

TEST_CASE("a stop ends what hangs, and a client that goes is noticed", "[object_server][unit]") {
  FaultyServer server;
  server.rule(ServerFaultKind::hang);
  {
    HttpClient leaves(server.port());
    leaves.send_head("GET", "/kv-cache/key", 0, HttpClient::signed_headers());
    CHECK(leaves.silent_for_ms(20));
  }
  HttpClient stays(server.port());
  stays.send_head("GET", "/kv-cache/key", 0, HttpClient::signed_headers());
  CHECK(stays.silent_for_ms(20));
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  while (server.counts().connections_open > 1 && Clock::now() < deadline) std::this_thread::yield();
  CHECK(server.counts().connections_open == 1);
  server.stop();
  CHECK(stays.closed());
}

TEST_CASE("skew: a client whose date is far from the server's is refused",
          "[object_server][unit]") {
  FaultyServer server;
  server.rule(ServerFaultKind::skew, 3600);
  HttpClient client(server.port());
  const auto now = client.signed_request("GET", "/kv-cache/key", {}, {{"x-amz-date", amz_now(0)}});
  CHECK(now.status == 403);
  CHECK(has(now.body, "RequestTimeTooSkewed"));
  std::tm date{};
  REQUIRE(::strptime(now.header("date").c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date));
  const std::time_t ahead = ::timegm(&date) - std::time(nullptr);
  CHECK(ahead >= 3595);
  CHECK(ahead <= 3600);
  const auto corrected =
      client.signed_request("GET", "/kv-cache/key", {}, {{"x-amz-date", amz_now(ahead)}});
  CHECK(corrected.status == 200);
}

TEST_CASE("garbage: what comes is no HTTP", "[object_server][unit]") {
  FaultyServer server;
  server.rule(ServerFaultKind::garbage, 500);
  const auto answer = server.get();
  CHECK(answer.status == 0);
  CHECK(answer.raw.size() == 500);
  server.put_new("x");
  CHECK(server.objects() == 1);
}

TEST_CASE("huge headers: the usual answer behind a megabyte of them", "[object_server][unit]") {
  FaultyServer server;
  server.rule(ServerFaultKind::huge_headers);
  const auto answer = server.get();
  CHECK(answer.body == server.body);
  std::size_t bytes = 0;
  for (const auto& [name, value] : answer.headers) bytes += value.size();
  CHECK(bytes >= 1 << 20);
}

TEST_CASE("xml garbage: the XML breaks off", "[object_server][unit]") {
  FaultyServer server;
  server.rule(ServerFaultKind::xml_garbage, 0, 1);
  const auto list = HttpClient(server.port()).signed_request("GET", "/kv-cache?list-type=2");
  CHECK(list.status == 200);
  CHECK(list.complete);
  CHECK_FALSE(has(list.body, "</ListBucketResult>"));
  server.rule(ServerFaultKind::xml_garbage, 503);
  CHECK(server.get().status == 503);
}

TEST_CASE("text: whatever a test wants to be answered", "[object_server][unit]") {
  FaultyServer server;
  server.faults().add({.kind = ServerFaultKind::text, .text = "<a/>"});
  const auto answer = server.get();
  CHECK(answer.status == 200);
  CHECK(answer.body == "<a/>");
}
