#include "kv_offload/bench/object_server/object_server.hpp"
#include "kv_offload/tests/object_server/http_client.hpp"

#include <catch2/catch.hpp>

#include <string>

using namespace kv_offload;
using namespace kv_offload::bench;
using kv_offload::test::Headers;
using kv_offload::test::HttpClient;

namespace {

struct Server : ObjectServer {
  explicit Server(ObjectServerOptions options = {}) : ObjectServer(std::move(options)) {
    REQUIRE(start());
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("what was put comes back with its metadata, and goes with delete",
          "[object_server][unit]") {
  Server server;
  HttpClient client(server.port());
  const std::string body(300'000, 'x');
  const auto put = client.signed_request("PUT", "/kv-cache/a/b%3D%2F~", body,
                                         {{"X-Amz-Meta-Digest", "12ab"}, {"Content-Type", "a/b"}});
  CHECK(put.status == 200);
  CHECK_FALSE(put.header("etag").empty());
  CHECK(server.keys() == std::vector<std::string>{"a/b=/~"});
  CHECK(server.header_of("a/b=/~", "x-amz-meta-digest") == "12ab");

  const auto get = client.signed_request("GET", "/kv-cache/a/b%3D%2F~");
  CHECK(get.status == 200);
  CHECK(get.body == body);
  CHECK(get.header("x-amz-meta-digest") == "12ab");
  CHECK(get.header("content-type") == "a/b");
  CHECK(get.header("etag") == put.header("etag"));
  CHECK(has(get.header("date"), " GMT"));
  const auto head = client.signed_request("HEAD", "/kv-cache/a/b%3D%2F~");
  CHECK(head.status == 200);
  CHECK(head.header("content-length") == "300000");
  CHECK(head.header("x-amz-meta-digest") == "12ab");
  CHECK(head.body.empty());

  CHECK(client.signed_request("DELETE", "/kv-cache/a/b%3D%2F~").status == 204);
  CHECK(client.signed_request("DELETE", "/kv-cache/a/b%3D%2F~").status == 204);
  CHECK(server.objects() == 0);
  const auto counts = server.counts();
  CHECK(counts.puts == 1);
  CHECK(counts.gets == 1);
  CHECK(counts.heads == 1);
  CHECK(counts.deletes == 2);
  CHECK(counts.connections_accepted == 1);
  CHECK(counts.body_bytes_in == body.size());
  CHECK(counts.body_bytes_out == body.size());
}

TEST_CASE("what is not there is told in S3's words, without a body to HEAD",
          "[object_server][unit]") {
  Server server;
  HttpClient client(server.port());
  const auto get = client.signed_request("GET", "/kv-cache/nothing");
  CHECK(get.status == 404);
  CHECK(has(get.body, "<Code>NoSuchKey</Code>"));
  CHECK(has(get.body, "<Key>nothing</Key>"));
  CHECK(client.signed_request("HEAD", "/kv-cache/nothing").status == 404);
  const auto bucket = client.signed_request("PUT", "/other/key", "x");
  CHECK(bucket.status == 404);
  CHECK(has(bucket.body, "NoSuchBucket"));
  CHECK(client.signed_request("HEAD", "/kv-cache").status == 200);
  CHECK(client.signed_request("HEAD", "/other").status == 404);
  CHECK(client.signed_request("PATCH", "/kv-cache/key").status == 501);
  CHECK(client.signed_request("GET", "/kv-cache/a%2").status == 400);
  CHECK(client.closed());
}

TEST_CASE("a request without a signature changes and shows nothing", "[object_server][unit]") {
  Server server;
  server.put("key", "secret");
  HttpClient client(server.port());
  const Headers basic{{"Authorization", "Basic eA=="},
                      {"x-amz-content-sha256", "UNSIGNED-PAYLOAD"}};
  const Headers no_hash{{"Authorization", "AWS4-HMAC-SHA256 Credential=x"}};
  for (const Headers& headers : {Headers{}, basic, no_hash}) {
    for (const std::string method : {"GET", "PUT", "DELETE", "HEAD"}) {
      const auto answer = client.request(method, "/kv-cache/key", method == "PUT" ? "new" : "", headers);
      CHECK(answer.status == 403);
      CHECK(has(answer.body, "AccessDenied") == (method != "HEAD"));
    }
  }
  CHECK(server.body_of("key") == "secret");
}

TEST_CASE("keys with slashes at the front or in a row are keys like others",
          "[object_server][unit]") {
  Server server;
  HttpClient client(server.port());
  const std::vector<std::string> keys{"/front", "a//b", "//", "a/../b", "a+b", "\xc3\xa4 &<"};
  const std::vector<std::string> targets{"/kv-cache//front", "/kv-cache/a//b", "/kv-cache///",
                                         "/kv-cache/a/../b", "/kv-cache/a+b",  "/kv-cache/%C3%A4%20%26%3C"};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    CAPTURE(keys[i]);
    CHECK(client.signed_request("PUT", targets[i], keys[i]).status == 200);
    CHECK(server.body_of(keys[i]) == keys[i]);
    CHECK(client.signed_request("GET", targets[i]).body == keys[i]);
  }
  CHECK(server.objects() == keys.size());
}

TEST_CASE("the bucket may be the first part of the host", "[object_server][unit]") {
  Server server;
  HttpClient client(server.port());
  const Headers host{{"Host", "kv-cache.localhost:1"}};
  CHECK(client.signed_request("PUT", "/kv-cache/key", "x", host).status == 200);
  CHECK(server.keys() == std::vector<std::string>{"kv-cache/key"});
  CHECK(client.signed_request("GET", "//a", {}, host).status == 404);
  CHECK(server.requests().back().key == "/a");
  CHECK(client.signed_request("GET", "/?list-type=2", {}, host).status == 200);
}

TEST_CASE("a range gives its bytes, and one past the end none", "[object_server][unit]") {
  Server server;
  server.put("key", "0123456789");
  HttpClient client(server.port());
  const auto range = [&](const std::string& value) {
    return client.signed_request("GET", "/kv-cache/key", {}, {{"Range", value}});
  };
  CHECK(range("bytes=2-4").body == "234");
  CHECK(range("bytes=2-4").status == 206);
  CHECK(range("bytes=2-4").header("content-range") == "bytes 2-4/10");
  CHECK(range("bytes=7-").body == "789");
  CHECK(range("bytes=-2").body == "89");
  CHECK(range("bytes=8-100").body == "89");
  CHECK(range("bytes=0-1,4-5").body == "01");  // of several the first, as real stores do
  CHECK(range("lines=1-2").status == 200);
  const auto past = range("bytes=10-");
  CHECK(past.status == 416);
  CHECK(past.header("content-range") == "bytes */10");
  CHECK(has(past.body, "InvalidRange"));
}

TEST_CASE("a put on condition that the key is new leaves the old one", "[object_server][unit]") {
  Server server;
  HttpClient client(server.port());
  const Headers only_new{{"If-None-Match", "*"}};
  CHECK(client.signed_request("PUT", "/kv-cache/key", "old", only_new).status == 200);
  const auto second = client.signed_request("PUT", "/kv-cache/key", "new", only_new);
  CHECK(second.status == 412);
  CHECK(has(second.body, "PreconditionFailed"));
  CHECK(server.body_of("key") == "old");
  CHECK(client.signed_request("PUT", "/kv-cache/key", "new").status == 200);
  CHECK(server.body_of("key") == "new");
}

TEST_CASE("a body that is not what its digest says is refused", "[object_server][unit]") {
  Server server;
  HttpClient client(server.port());
  // MD5 and SHA-256 of "hello".
  const Headers md5{{"Content-MD5", "XUFAKrxLKna5cZ2REBfFkg=="}};
  CHECK(client.signed_request("PUT", "/kv-cache/key", "hello", md5).status == 200);
  CHECK(client.signed_request("PUT", "/kv-cache/key", "hellO", md5).status == 400);
  const Headers sha256{
      {"Authorization", "AWS4-HMAC-SHA256 Credential=x"},
      {"x-amz-content-sha256", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}};
  CHECK(client.request("PUT", "/kv-cache/key", "hello", sha256).status == 200);
  CHECK(has(client.request("PUT", "/kv-cache/key", "hellO", sha256).body, "XAmzContentSHA256Mismatch"));
  CHECK(server.body_of("key") == "hello");
}

TEST_CASE("beyond its bytes the store refuses, and takes again what fits",
          "[object_server][unit]") {
  Server server({.bytes_max = 1000});
  HttpClient client(server.port());
  CHECK(client.signed_request("PUT", "/kv-cache/a", std::string(600, 'a')).status == 200);
  const auto full = client.signed_request("PUT", "/kv-cache/b", std::string(600, 'b'));
  CHECK(full.status == 503);
  CHECK(has(full.body, "SlowDown"));
  CHECK(client.signed_request("PUT", "/kv-cache/a", "", {{"If-None-Match", "*"}}).status == 412);
  CHECK(client.signed_request("DELETE", "/kv-cache/a").status == 204);
  CHECK(client.signed_request("PUT", "/kv-cache/b", std::string(1000, 'b')).status == 200);
  CHECK(client.signed_request("PUT", "/kv-cache/c", "c").status == 503);
}

TEST_CASE("a client that waits for 100 Continue gets it, or the refusal", "[object_server][unit]") {
  Server server;
  HttpClient client(server.port());
  Headers headers = HttpClient::signed_headers();
  headers.emplace_back("Expect", "100-continue");
  client.send_head("PUT", "/kv-cache/key", 5, headers);
  CHECK(client.receive("PUT").status == 100);
  client.send("hello");
  CHECK(client.receive("PUT").status == 200);
  CHECK(server.body_of("key") == "hello");
  client.send_head("PUT", "/other/key", 5, headers);
  CHECK(client.receive("PUT").status == 404);
  CHECK(client.closed());
}

TEST_CASE("what is no HTTP, or too long, is answered and closed", "[object_server][unit]") {
  Server server;
  HttpClient nonsense(server.port());
  nonsense.send("hello\r\n\r\n");
  CHECK(nonsense.receive("GET").status == 400);
  CHECK(nonsense.closed());
  HttpClient long_head(server.port());
  long_head.send("GET / HTTP/1.1\r\nx: " + std::string(70'000, 'x') + "\r\n\r\n");
  CHECK(long_head.receive("GET").status == 431);
  HttpClient chunked(server.port());
  chunked.send_head("POST", "/kv-cache/key", 0,
                    {{"Authorization", "AWS4-HMAC-SHA256"},
                     {"x-amz-content-sha256", "x"},
                     {"Transfer-Encoding", "chunked"}});
  CHECK(chunked.receive("POST").status == 501);
  CHECK(chunked.closed());
}

TEST_CASE("a server keeps its objects and its port over a stop", "[object_server][unit]") {
  Server server;
  const auto port = server.port();
  HttpClient client(port);
  CHECK(client.signed_request("PUT", "/kv-cache/key", "x").status == 200);
  server.stop();
  CHECK(client.closed());
  CHECK_THROWS(HttpClient(port));
  CHECK(server.counts().connections_open == 0);
  REQUIRE(server.start());
  CHECK(server.port() == port);
  CHECK(HttpClient(port).signed_request("GET", "/kv-cache/key").body == "x");
  ObjectServer second({.port = port});
  const auto taken = second.start();
  REQUIRE_FALSE(taken);
  CHECK(taken.error().code == OffloadErrc::io_error);
}

TEST_CASE("closed connections do not stop others", "[object_server][unit]") {
  Server server({.threads = 2, .connections_max = 2});
  HttpClient first(server.port()), second(server.port());
  CHECK(first.signed_request("PUT", "/kv-cache/key", "x").status == 200);
  CHECK(second.signed_request("GET", "/kv-cache/key").body == "x");
  CHECK(HttpClient(server.port()).closed());  // one too many
  server.close_connections();
  CHECK(first.closed());
  CHECK(second.closed());
  CHECK(HttpClient(server.port()).signed_request("GET", "/kv-cache/key").body == "x");
}

TEST_CASE("a null server keeps headers and lengths alone", "[object_server][unit]") {
  Server server({.bytes_max = 10, .discard_bodies = true});
  HttpClient client(server.port());
  const std::string body(3'000'000, 'x');
  CHECK(client.signed_request("PUT", "/kv-cache/key", body, {{"x-amz-meta-a", "b"}}).status == 200);
  const auto get = client.signed_request("GET", "/kv-cache/key");
  CHECK(get.body == std::string(body.size(), '\0'));
  CHECK(get.header("x-amz-meta-a") == "b");
  CHECK(client.signed_request("GET", "/kv-cache/key", {}, {{"Range", "bytes=5-9"}}).body.size() == 5);
  CHECK(client.signed_request("PUT", "/kv-cache/small", "few bytes").status == 200);
  CHECK(client.signed_request("GET", "/kv-cache/small").body == "few bytes");
}

TEST_CASE("the log shows what was asked, the bytes of a put as announced",
          "[object_server][unit]") {
  Server server;
  HttpClient client(server.port());
  client.signed_request("PUT", "/kv-cache/a%20b", "12345", {{"X-Amz-Meta-A", "B"}});
  client.signed_request("GET", "/kv-cache?list-type=2");
  const auto seen = server.requests();
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].method == "PUT");
  CHECK(seen[0].target == "/kv-cache/a%20b");
  CHECK(seen[0].key == "a b");
  CHECK(seen[0].body_bytes == 5);
  CHECK(seen[0].headers.at("x-amz-meta-a") == "B");
  CHECK(seen[1].key.empty());
  server.forget_requests();
  for (int i = 0; i < 5000; ++i) client.signed_request("HEAD", "/kv-cache/" + std::to_string(i));
  CHECK(server.requests().size() == 4096);
  CHECK(server.requests().back().key == "4999");
}
