#include "kv_offload/tiers/obj/s3_xml.hpp"

#include <catch2/catch.hpp>

#include <string>

namespace kv_offload {
namespace {

std::string listing(const std::string& inside) {
  return R"(<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name>)" +
         inside + "</ListBucketResult>";
}
std::string object(const std::string& key, const std::string& size = "1") {
  return "<Contents><Key>" + key + "</Key><Size>" + size + "</Size></Contents>";
}
const std::string kLastPage = "<IsTruncated>false</IsTruncated>";
const std::string kEncoded = "<EncodingType>url</EncodingType>";

std::string error_of(const std::string& xml) {
  const auto parsed = parse_listing(xml);
  return parsed ? "(none)" : parsed.error().detail;
}
std::string only_key(const std::string& xml) {
  const auto parsed = parse_listing(xml);
  REQUIRE(parsed);
  REQUIRE(parsed->objects.size() == 1);
  return parsed->objects[0].key;
}

TEST_CASE("a page of a listing is read", "[obj][xml]") {
  const auto page = parse_listing(listing(R"(<Prefix>kv/</Prefix><KeyCount>2</KeyCount>
  <MaxKeys>1000</MaxKeys><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>
  <NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=</NextContinuationToken>
  <Contents>
    <Key>kv/a%2Bb%20c+d.bin</Key>
    <LastModified>2009-10-12T17:50:30.000Z</LastModified>
    <ETag>&quot;fba9dede5f27731c9771645a39863328&quot;</ETag>
    <Size>434234</Size><StorageClass>STANDARD</StorageClass>
  </Contents>
  <Contents><Key>kv/empty</Key><Size> 0 </Size></Contents>
  <CommonPrefixes><Prefix>kv/not-an-object/</Prefix></CommonPrefixes>)"));
  REQUIRE(page);
  CHECK(page->is_truncated);
  CHECK(page->continuation == "1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=");
  REQUIRE(page->objects.size() == 2);
  CHECK(page->objects[0].key == "kv/a+b c d.bin");
  CHECK(page->objects[0].bytes == 434234);
  CHECK(page->objects[0].modified_s == 1255369830);
  CHECK(page->objects[1].key == "kv/empty");
  CHECK(page->objects[1].bytes == 0);
  CHECK(page->objects[1].modified_s == 0);
}

TEST_CASE("a bucket without objects is a listing", "[obj][xml]") {
  const auto page = parse_listing(listing(kLastPage + "<KeyCount>0</KeyCount>"));
  REQUIRE(page);
  CHECK(page->objects.empty());
  CHECK_FALSE(page->is_truncated);
  CHECK(page->continuation.empty());
}

TEST_CASE("keys are decoded only where the store says that it encoded them", "[obj][xml]") {
  CHECK(only_key(listing(kLastPage + object("a%2Fb+c"))) == "a%2Fb+c");
  CHECK(only_key(listing(kLastPage + object("a%2Fb+c") + kEncoded)) == "a/b c");
}

TEST_CASE("a key is all its text and not less", "[obj][xml]") {
  CHECK(only_key(listing(kLastPage + object("a&amp;b&lt;c&gt;&quot;&apos;"))) == "a&b<c>\"'");
  CHECK(only_key(listing(kLastPage + object("a<![CDATA[<&>]]>b<!-- no -->c"))) == "a<&>bc");
  CHECK(only_key(listing(kLastPage + object("&#x41;&#66;&#xe9;&#13;"))) == "AB\xC3\xA9\r");
  CHECK(only_key(listing(kLastPage + object("&#99999999a;&#;&#x;"))) == "&#99999999a;&#;&#x;");
  CHECK(only_key(listing(kLastPage + object("  "))) == "  ");
  CHECK(only_key(listing(kLastPage + object(" a "))) == " a ");
}

TEST_CASE("a key does not end at a NUL: such an answer is refused", "[obj][xml]") {
  const std::string expected = "ListBucketResult: not an XML document: ";
  for (const char* reference :
       {"&#0;", "&#x0;", "&#000;", "&#4294967296;", "&#x100000000;", "&#18446744073709551616;",
        "&#18446744073709551681;", "&#x110000;"}) {
    CAPTURE(reference);
    CHECK(error_of(listing(kLastPage + object(std::string("a") + reference + "b"))) ==
          expected + "refers to a character that there is not");
  }
  CHECK(error_of(listing(kLastPage + object(std::string("a\0b", 3)))) ==
        expected + "has a NUL character");
  // Percent-encoded it can be said, and it stays.
  CHECK(only_key(listing(kLastPage + kEncoded + object("a%00b"))) == std::string("a\0b", 3));
}

TEST_CASE("an answer that leaves open whether there is more is refused", "[obj][xml]") {
  CHECK(error_of(listing(object("a"))) ==
        "ListBucketResult: IsTruncated is neither true nor false");
  CHECK(error_of(listing("<IsTruncated>maybe</IsTruncated>")) ==
        "ListBucketResult: IsTruncated is neither true nor false");
  CHECK(error_of(listing("<IsTruncated>true</IsTruncated>")) ==
        "ListBucketResult: is truncated, and has no NextContinuationToken");
}

TEST_CASE("an object without key or size is refused, with its number", "[obj][xml]") {
  CHECK(error_of(listing(kLastPage + object("a") + object(""))) ==
        "ListBucketResult: object 2 has no Key");
  for (const char* size : {"", "-1", "1.5", "1k", "18446744073709551616", "0x1"}) {
    CAPTURE(size);
    CHECK(error_of(listing(kLastPage + object("a", size))) ==
          "ListBucketResult: object 1 has no Size");
  }
  CHECK(parse_listing(listing(kLastPage + object("a", "18446744073709551615")))->objects[0].bytes ==
        UINT64_MAX);
}

TEST_CASE("what is no listing is refused in one line", "[obj][xml]") {
  CHECK(error_of("").starts_with("ListBucketResult: not an XML document: "));
  CHECK(error_of("<ListBucketResult><IsTruncated>false</IsTruncated>")
            .starts_with("ListBucketResult: not an XML document: "));
  CHECK(error_of("<html><body>502</body></html>") == "ListBucketResult: the answer is a <html>");
  CHECK(error_of("<Error><Code>InternalError</Code></Error>") ==
        "ListBucketResult: the answer is an error, InternalError");
  CHECK(error_of("<\x1b[31m/>").find('\x1b') == std::string::npos);
  CHECK(error_of("<" + std::string(100000, 'a') + "/>").size() < 200);
}

TEST_CASE("no entity but XML's own is replaced, and none grows", "[obj][xml]") {
  const std::string doctype = R"(<!DOCTYPE l [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">
      <!ENTITY f SYSTEM "file:///etc/passwd">]>)";
  CHECK(only_key(doctype + listing(kLastPage + object("&b;&f;"))) == "&b;&f;");
}

TEST_CASE("nesting as deep as an answer is long is no trouble", "[obj][xml]") {
  std::string deep;
  for (int i = 0; i < 200000; ++i) deep += "<a>";
  CHECK(error_of(deep).starts_with("ListBucketResult: not an XML document: "));
  for (int i = 0; i < 200000; ++i) deep += "</a>";
  CHECK(error_of(listing(kLastPage + deep)) == "(none)");
}

}  // namespace
}  // namespace kv_offload
