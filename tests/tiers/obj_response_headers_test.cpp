#include "kv_offload/tiers/obj/response_headers.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <initializer_list>
#include <string>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;

ResponseHeaders headers(std::initializer_list<const char*> lines) {
  ResponseHeaders made;
  for (const char* line : lines) made.add_line(line);
  return made;
}

TEST_CASE("names are found in lower case, values without the spaces around them", "[obj]") {
  const auto h = headers({"HTTP/1.1 200 OK\r\n", "Content-Length: 42\r\n",
                          "ETag:\t \"abc def\" \r\n", "x-empty:\r\n", "X-Colons: a:b\n", "\r\n"});
  REQUIRE(h.find("etag") != nullptr);
  CHECK(*h.find("etag") == "\"abc def\"");
  CHECK(*h.find("x-empty") == "");
  CHECK(*h.find("x-colons") == "a:b");
  CHECK(h.content_length() == 42U);
  CHECK(h.find("ETag") == nullptr);
  CHECK(h.find("age") == nullptr);
  CHECK_FALSE(h.overflowed());
}

TEST_CASE("a new status line forgets the answer before", "[obj]") {
  auto h = headers({"HTTP/1.1 100 Continue\r\n", "X-Early: 1\r\n", "\r\n", "HTTP/1.1 200 OK\r\n",
                    "X-Late: 2\r\n"});
  CHECK(h.find("x-early") == nullptr);
  CHECK(h.find("x-late") != nullptr);
  h.clear();
  CHECK(h.find("x-late") == nullptr);
  CHECK(h.size() == 0);
}

TEST_CASE("lines that are no header are passed over", "[obj]") {
  const auto h = headers({"HTTP/1.1 200 OK", "no colon", ":no name", " folded: line", "", "\r\n",
                          "\tfolded: line", "a: 1"});
  CHECK(h.size() == 1);
  CHECK(*h.find("a") == "1");
  CHECK_FALSE(h.overflowed());
}

TEST_CASE("of two headers of one name the first is found", "[obj]") {
  CHECK(*headers({"a: 1", "A: 2"}).find("a") == "1");
}

TEST_CASE("a length is digits alone, fits, and is not contradicted", "[obj]") {
  CHECK(headers({"content-length: 18446744073709551615"}).content_length() == UINT64_MAX);
  CHECK(headers({"content-length: 7", "Content-Length: 7"}).content_length() == 7U);
  CHECK_FALSE(headers({"content-length: 7", "content-length: 8"}).content_length());
  for (const char* line :
       {"content-length:", "content-length: -1", "content-length: +1", "content-length: 1 2",
        "content-length: 5, 5", "content-length: 0x10", "content-length: 18446744073709551616"}) {
    CAPTURE(line);
    CHECK_FALSE(headers({line}).content_length());
  }
  CHECK_FALSE(headers({}).content_length());
}

TEST_CASE("the server's clock is read", "[obj]") {
  CHECK(headers({"Date: Sun, 06 Nov 1994 08:49:37 GMT"}).date() ==
        std::chrono::sys_seconds(784111777s));
  CHECK_FALSE(headers({"Date: yesterday"}).date());
  CHECK_FALSE(headers({}).date());
}

TEST_CASE("how long to wait is said in seconds or as a date of the server's clock", "[obj]") {
  CHECK(headers({"Retry-After: 0"}).retry_after() == 0ms);
  CHECK(headers({"Retry-After: 120"}).retry_after() == 120s);
  CHECK(
      headers({"Date: Sun, 06 Nov 1994 08:49:37 GMT", "Retry-After: Sun, 06 Nov 1994 08:50:07 GMT"})
          .retry_after() == 30s);
  // A date that has passed, and one without a clock to compare.
  CHECK(
      headers({"Date: Sun, 06 Nov 1994 08:49:37 GMT", "Retry-After: Sun, 06 Nov 1994 08:49:07 GMT"})
          .retry_after() == 0ms);
  CHECK_FALSE(headers({"Retry-After: Sun, 06 Nov 1994 08:50:07 GMT"}).retry_after());
}

TEST_CASE("nobody is made to wait for more than an hour", "[obj]") {
  CHECK(headers({"Retry-After: 3600"}).retry_after() == 1h);
  CHECK(headers({"Retry-After: 3601"}).retry_after() == 1h);
  CHECK(headers({"Retry-After: 99999999999999999999999"}).retry_after() == 1h);
  CHECK(
      headers({"Date: Sun, 06 Nov 1994 08:49:37 GMT", "Retry-After: Tue, 31 Dec 2199 23:59:59 GMT"})
          .retry_after() == 1h);
}

TEST_CASE("a wait that cannot be read is none", "[obj]") {
  for (const char* line : {"Retry-After:", "Retry-After: -5", "Retry-After: 1.5",
                           "Retry-After: soon", "Retry-After: 5 s"}) {
    CAPTURE(line);
    CHECK_FALSE(headers({line}).retry_after());
  }
  CHECK_FALSE(headers({}).retry_after());
}

TEST_CASE("no server fills the memory with headers", "[obj]") {
  ResponseHeaders h;
  h.add_line("HTTP/1.1 200 OK");
  for (int i = 0; i < 1000; ++i) h.add_line("x-" + std::to_string(i) + ": 1");
  CHECK(h.size() == ResponseHeaders::kHeadersMax);
  CHECK(h.num_dropped() == 1000 - ResponseHeaders::kHeadersMax);
  CHECK(h.overflowed());
  CHECK(h.find("x-63") != nullptr);
  CHECK(h.find("x-64") == nullptr);
  h.add_line("HTTP/1.1 200 OK");
  CHECK_FALSE(h.overflowed());
}

TEST_CASE("one header has at most what all may have, and short ones still fit", "[obj]") {
  ResponseHeaders h;
  const std::string rest(ResponseHeaders::kBytesMax - 1, 'v');
  h.add_line("ab:" + rest);
  CHECK(h.size() == 0);
  CHECK(h.overflowed());
  h.add_line("a:" + rest);
  CHECK(h.size() == 1);
  h.add_line("b:");
  CHECK(h.size() == 1);
  CHECK(h.num_dropped() == 2);
  h.add_line("HTTP/1.1 200 OK");
  h.add_line("a:" + rest);
  CHECK(h.size() == 1);
}

}  // namespace
}  // namespace kv_offload
