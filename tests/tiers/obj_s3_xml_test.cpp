#include "kv_offload/tiers/obj/s3_xml.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

namespace kv_offload {
namespace {

TEST_CASE("a store's error is read", "[obj][xml]") {
  const auto error = parse_s3_error(R"(<?xml version="1.0" encoding="UTF-8"?>
<Error>
  <Code>PermanentRedirect</Code>
  <Message>The bucket is elsewhere &amp; must be asked there.</Message>
  <Region>eu-central-1</Region><Endpoint>bucket.s3.eu-central-1.amazonaws.com</Endpoint>
  <Bucket>bucket</Bucket><RequestId>1</RequestId>
</Error>)");
  REQUIRE(error);
  CHECK(error->code == "PermanentRedirect");
  CHECK(error->message == "The bucket is elsewhere & must be asked there.");
  CHECK(error->region == "eu-central-1");
  CHECK(error->endpoint == "bucket.s3.eu-central-1.amazonaws.com");
}

TEST_CASE("an error of STS is read", "[obj][xml]") {
  const auto error = parse_s3_error(
      R"(<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
      <Code>ExpiredTokenException</Code><Message>Token expired</Message></Error></ErrorResponse>)");
  REQUIRE(error);
  CHECK(error->code == "ExpiredTokenException");
  CHECK(error->message == "Token expired");
}

TEST_CASE("what is no error document is none", "[obj][xml]") {
  for (const char* xml :
       {"", "Service Unavailable", "<html><head><title>503</title></head></html>", "<Error/>",
        "<Error><Code> </Code></Error>", "<Error><Code>NoSuchKey</Code>", "<ErrorResponse/>",
        "<ListBucketResult><Error><Code>x</Code></Error></ListBucketResult>"}) {
    CAPTURE(xml);
    CHECK_FALSE(parse_s3_error(xml));
  }
}

TEST_CASE("an error is one bounded line, whoever wrote it", "[obj][xml]") {
  const std::string long_text(100000, 'x');
  const auto error = parse_s3_error("<Error><Code>" + long_text + "</Code><Message>a\nb&#27;[2J" +
                                    long_text + "</Message><Region>" + long_text +
                                    "</Region><Endpoint>" + long_text + "</Endpoint></Error>");
  REQUIRE(error);
  CHECK(error->code.size() == 128);
  CHECK(error->message.size() == 512);
  CHECK(error->message.starts_with("a?b?[2Jxxx"));
  CHECK(error->region.size() == 256);
  CHECK(error->endpoint.size() == 256);
}

TEST_CASE("a deletion names every key, and asks for failures alone", "[obj][xml]") {
  const std::vector<std::string> keys = {"/m_1_r0/a.bin", "p//m"};
  CHECK(delete_request(keys) ==
        R"(<?xml version="1.0" encoding="UTF-8"?>)"
        R"(<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>true</Quiet>)"
        "<Object><Key>/m_1_r0/a.bin</Key></Object><Object><Key>p//m</Key></Object></Delete>");
}

TEST_CASE("no key ends its element or becomes another key", "[obj][xml]") {
  const std::vector<std::string> keys = {"a</Key></Object><Object><Key>b", "&amp;", "]]>",
                                         "a\r\nb"};
  const std::string body = delete_request(keys);
  CHECK(body.find("a&lt;/Key&gt;&lt;/Object&gt;&lt;Object&gt;&lt;Key&gt;b") != std::string::npos);
  CHECK(body.find("&amp;amp;") != std::string::npos);
  CHECK(body.find("]]&gt;") != std::string::npos);
  // A reader turns a line end that stands there as it is into another.
  CHECK(body.find("a&#13;&#10;b") != std::string::npos);
}

TEST_CASE("a deletion of everything has no errors", "[obj][xml]") {
  const auto errors =
      parse_delete_errors(R"(<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"/>)");
  REQUIRE(errors);
  CHECK(errors->empty());
}

TEST_CASE("what was not deleted is named with its reason, what was is not", "[obj][xml]") {
  const auto errors = parse_delete_errors(
      "<DeleteResult><Deleted><Key>gone</Key></Deleted><Error><Key>a&amp;b</Key>"
      "<Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
      "<Error><Key>c</Key><Code>Internal\nError</Code></Error></DeleteResult>");
  REQUIRE(errors);
  CHECK(*errors == std::vector<std::pair<std::string, std::string>>{{"a&b", "AccessDenied"},
                                                                    {"c", "Internal?Error"}});
}

TEST_CASE("an answer that is not one to a deletion is refused", "[obj][xml]") {
  const auto error_of = [](const char* xml) {
    const auto parsed = parse_delete_errors(xml);
    return parsed ? "(none)" : parsed.error().detail;
  };
  CHECK(error_of("<Error><Code>MalformedXML</Code></Error>") ==
        "DeleteResult: the answer is an error, MalformedXML");
  CHECK(error_of("<DeleteResult>").starts_with("DeleteResult: not an XML document: "));
  CHECK(error_of("<DeleteResult><Error><Code>x</Code></Error></DeleteResult>") ==
        "DeleteResult: an Error without a Key");
}

std::string assumed(const std::string& credentials) {
  return R"(<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult><Credentials>)" +
         credentials + R"(</Credentials></AssumeRoleWithWebIdentityResult>
  </AssumeRoleWithWebIdentityResponse>)";
}

TEST_CASE("temporary credentials are read", "[obj][xml]") {
  const auto found = parse_web_identity(
      assumed("<SessionToken>\n  token/+=\n</SessionToken><SecretAccessKey>secret</SecretAccessKey>"
              "<Expiration>2014-10-24T23:00:23Z</Expiration><AccessKeyId>ASIA</AccessKeyId>"));
  REQUIRE(found);
  CHECK(found->access_key == "ASIA");
  CHECK(found->secret_key == "secret");
  CHECK(found->session_token == "token/+=");
  CHECK(found->expires == std::chrono::sys_seconds(std::chrono::seconds(1414191623)));
}

TEST_CASE("temporary credentials that cannot be used are refused without their values",
          "[obj][xml]") {
  const struct {
    const char* credentials;
    const char* error;
  } cases[] = {
      {"", "access_key: is empty"},
      {"<AccessKeyId>SECRET1</AccessKeyId>", "secret_key: is empty"},
      {"<AccessKeyId>SECRET1</AccessKeyId><SecretAccessKey>SECRET2</SecretAccessKey>",
       "session_token: is empty"},
      {"<AccessKeyId>SECRET1</AccessKeyId><SecretAccessKey>SECRET2</SecretAccessKey>"
       "<SessionToken>SECRET3&#13;&#10;x-evil: 1</SessionToken>",
       "session_token: has a space, a control character or one that is not ASCII"},
      {"<AccessKeyId>SECRET1</AccessKeyId><SecretAccessKey>SECRET2</SecretAccessKey>"
       "<SessionToken>SECRET3</SessionToken>",
       "Expiration is missing or not a time"},
      {"<AccessKeyId>SECRET1</AccessKeyId><SecretAccessKey>SECRET2</SecretAccessKey>"
       "<SessionToken>SECRET3</SessionToken><Expiration>SECRET4</Expiration>",
       "Expiration is missing or not a time"},
      {"<AccessKeyId>SECRET1</AccessKeyId><SecretAccessKey>SECRET2<SessionToken>",
       "not an XML document: "},
  };
  for (const auto& c : cases) {
    const auto parsed = parse_web_identity(assumed(c.credentials));
    REQUIRE_FALSE(parsed);
    CAPTURE(parsed.error().detail);
    CHECK(parsed.error().detail.starts_with(std::string("AssumeRoleWithWebIdentityResponse: ") +
                                            c.error));
    CHECK(parsed.error().detail.find("SECRET") == std::string::npos);
  }
}

TEST_CASE("a refused exchange says the code of STS", "[obj][xml]") {
  const auto parsed = parse_web_identity(
      "<ErrorResponse><Error><Code>InvalidIdentityToken</Code></Error></ErrorResponse>");
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().detail ==
        "AssumeRoleWithWebIdentityResponse: the answer is an error, InvalidIdentityToken");
}

}  // namespace
}  // namespace kv_offload
