#include "kv_offload/tiers/obj/log_text.hpp"
#include "kv_offload/tiers/obj/time_text.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <string>

namespace kv_offload {
namespace {

using namespace std::chrono;

TEST_CASE("the date of HTTP is read", "[obj]") {
  CHECK(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT") == sys_seconds(784111777s));
  CHECK(parse_http_date("Thu, 01 Jan 1970 00:00:00 GMT") == sys_seconds(0s));
  CHECK(parse_http_date("Thu, 29 Feb 2024 23:59:59 GMT") ==
        sys_days(2024y / February / 29) + 24h - 1s);
  CHECK(parse_http_date("Sat, 31 Dec 2016 23:59:60 GMT") == sys_days(2017y / January / 1));
}

TEST_CASE("what is no date of HTTP is none", "[obj]") {
  for (const std::string text :
       {"", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 GMT ", "Sun, 06 Nov 1994",
        "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        "Sun, 6 Nov 1994 08:49:37 GMT", "sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Now 1994 08:49:37 GMT", "Sun, 31 Feb 1994 08:49:37 GMT",
        "Wed, 29 Feb 2023 08:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT", "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov -994 08:49:37 GMT"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_http_date(text));
  }
}

TEST_CASE("the time of listings is read, its fraction dropped", "[obj]") {
  const sys_seconds expected = sys_days(2009y / October / 12) + 17h + 50min + 30s;
  CHECK(parse_iso_time("2009-10-12T17:50:30.000Z") == expected);
  CHECK(parse_iso_time("2009-10-12T17:50:30Z") == expected);
  CHECK(parse_iso_time("2009-10-12T17:50:30.999999999Z") == expected);
  for (const std::string text :
       {"", "2009-10-12", "2009-10-12T17:50:30", "2009-10-12T17:50:30.Z", "2009-10-12 17:50:30Z",
        "2009-13-12T17:50:30Z", "2009-02-30T17:50:30Z", "2009-10-12T17:50:30+01:00",
        "2009-10-12T17:50:30.000Zx", "20091012T175030Z"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_iso_time(text));
  }
}

TEST_CASE("what is read can be compared with the system's clock", "[obj]") {
  CHECK(parse_http_date("Tue, 31 Dec 2200 23:59:59 GMT"));
  CHECK(parse_iso_time("1900-01-01T00:00:00Z"));
  CHECK_FALSE(parse_http_date("Fri, 31 Dec 9999 23:59:59 GMT"));
  CHECK_FALSE(parse_http_date("Sun, 31 Dec 1899 23:59:59 GMT"));
  CHECK_FALSE(parse_iso_time("2201-01-01T00:00:00Z"));
  CHECK_FALSE(parse_iso_time("0000-01-01T00:00:00Z"));
}

TEST_CASE("the time of signatures is written", "[obj]") {
  CHECK(basic_iso_time(sys_days(2013y / May / 24)) == "20130524T000000Z");
  CHECK(basic_iso_time(sys_days(2000y / February / 29) + 24h - 1s) == "20000229T235959Z");
  CHECK(basic_iso_time(sys_seconds(0s) - 1s) == "19691231T235959Z");
}

TEST_CASE("a stranger's text is one bounded printable line", "[obj]") {
  CHECK(log_text("plain", 10) == "plain");
  CHECK(log_text("a\nb\x1b[31m\x7f\xC3\xA9", 20) == "a?b?[31m???");
  CHECK(log_text("0123456789", 10) == "0123456789");
  CHECK(log_text("0123456789x", 10) == "0123456...");
  CHECK(log_text("abc", 0).empty());
}

}  // namespace
}  // namespace kv_offload
