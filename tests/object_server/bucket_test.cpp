#include "kv_offload/bench/object_server/object_server.hpp"
#include "kv_offload/tests/object_server/http_client.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace kv_offload::bench;
using kv_offload::test::Headers;
using kv_offload::test::HttpClient;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The texts of all elements of this name.
std::vector<std::string> texts(const std::string& xml, const std::string& name) {
  std::vector<std::string> found;
  const std::string open = '<' + name + '>', close = "</" + name + '>';
  for (std::size_t at = 0; (at = xml.find(open, at)) != std::string::npos;) {
    at += open.size();
    found.push_back(xml.substr(at, xml.find(close, at) - at));
  }
  return found;
}

}  // namespace

TEST_CASE("a listing comes in pages, sorted, each key once", "[object_server][unit]") {
  ObjectServer server;
  REQUIRE(server.start());
  for (int i = 0; i < 25; ++i) server.put("p/" + std::to_string(100 + i), std::string(10, 'x'));
  server.put("q", "");
  server.put("a", "");
  HttpClient client(server.port());
  std::vector<std::string> keys;
  std::string token;
  int pages = 0;
  do {
    const auto page =
        client.signed_request("GET", "/kv-cache?list-type=2&max-keys=10&prefix=p%2F" +
                                         (token.empty() ? "" : "&continuation-token=" + token));
    REQUIRE(page.status == 200);
    for (const auto& key : texts(page.body, "Key")) keys.push_back(key);
    CHECK(texts(page.body, "KeyCount").at(0) == (pages < 2 ? "10" : "5"));
    CHECK(has(page.body, "<Size>10</Size>"));
    const auto next = texts(page.body, "NextContinuationToken");
    CHECK(has(page.body, "<IsTruncated>true") == !next.empty());
    token = next.empty() ? "" : next[0];
    ++pages;
  } while (!token.empty() && pages < 10);
  CHECK(pages == 3);
  REQUIRE(keys.size() == 25);
  for (int i = 0; i < 25; ++i)
    CHECK(keys[static_cast<std::size_t>(i)] == "p/" + std::to_string(100 + i));
}

TEST_CASE("a listing says awkward keys in XML or percent-encoded", "[object_server][unit]") {
  ObjectServer server;
  REQUIRE(server.start());
  server.put("a/<&> =", "");
  HttpClient client(server.port());
  const auto plain = client.signed_request("GET", "/kv-cache?list-type=2");
  CHECK(texts(plain.body, "Key").at(0) == "a/&lt;&amp;&gt; =");
  const auto encoded = client.signed_request("GET", "/kv-cache?encoding-type=url&list-type=2");
  CHECK(texts(encoded.body, "Key").at(0) == "a/%3C%26%3E%20%3D");
  CHECK(texts(client.signed_request("GET", "/kv-cache?list-type=2&start-after=b").body, "Key").empty());
  CHECK(client.signed_request("GET", "/kv-cache?list-type=2&max-keys=x").status == 400);
  CHECK(client.signed_request("GET", "/kv-cache?list-type=2&continuation-token=").status == 400);
  CHECK(client.signed_request("GET", "/kv-cache?list-type=2&delimiter=/").status == 501);
  const auto none = client.signed_request("GET", "/kv-cache?list-type=2&max-keys=0");
  CHECK(has(none.body, "<KeyCount>0</KeyCount>"));
}

TEST_CASE("many objects are deleted by one request", "[object_server][unit]") {
  ObjectServer server;
  REQUIRE(server.start());
  for (const char* key : {"a", "b&<", "//c", "d"}) server.put(key, "x");
  HttpClient client(server.port());
  const Headers summed{{"x-amz-checksum-crc32c", "AAAAAA=="}};
  const std::string order =
      "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Object><Key>a</Key></Object>"
      "<Object><Key>b&amp;&lt;</Key></Object><Object><Key>missing</Key></Object></Delete>";
  const auto loud = client.signed_request("POST", "/kv-cache?delete", order, summed);
  CHECK(loud.status == 200);
  CHECK(texts(loud.body, "Key") == std::vector<std::string>{"a", "b&amp;&lt;", "missing"});
  CHECK(server.keys() == std::vector<std::string>{"//c", "d"});
  const auto quiet = client.signed_request(
      "POST", "/kv-cache?delete", "<Delete><Quiet>true</Quiet><Object><Key>//c</Key></Object></Delete>",
      summed);
  CHECK(quiet.status == 200);
  CHECK(texts(quiet.body, "Deleted").empty());
  CHECK(server.keys() == std::vector<std::string>{"d"});

  const auto unsummed = client.signed_request("POST", "/kv-cache?delete", order);
  CHECK(unsummed.status == 400);
  CHECK(has(unsummed.body, "Content-MD5"));
  for (const std::string text : {"", "<Delete>", "<Other/>", "<Delete></Delete>"})
    CHECK(has(client.signed_request("POST", "/kv-cache?delete", text, summed).body, "MalformedXML"));
  std::string many = "<Delete>";
  for (int i = 0; i < 1001; ++i) many += "<Object><Key>d</Key></Object>";
  CHECK(client.signed_request("POST", "/kv-cache?delete", many + "</Delete>", summed).status == 400);
  CHECK(server.keys() == std::vector<std::string>{"d"});
}
