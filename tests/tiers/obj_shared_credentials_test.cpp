#include "kv_offload/tiers/obj/shared_credentials.hpp"

#include <catch2/catch.hpp>

#include <string>

namespace kv_offload {
namespace {

Expected<AwsCredentials> parse(const std::string& text, const std::string& profile = "default") {
  return parse_shared_credentials(text, profile, "FILE");
}
AwsCredentials good(const std::string& text, const std::string& profile = "default") {
  auto parsed = parse(text, profile);
  INFO((parsed ? "" : parsed.error().detail));
  REQUIRE(parsed);
  return *parsed;
}
std::string error_of(const std::string& text, const std::string& profile = "default") {
  const auto parsed = parse(text, profile);
  return parsed ? "(none)" : parsed.error().detail;
}

TEST_CASE("the keys of a profile are read, and no other's", "[obj][credentials]") {
  const std::string text = R"(# a comment
[other]
aws_access_key_id = OTHER
aws_secret_access_key = othersecret
[default]
aws_access_key_id=AKID
aws_secret_access_key = a/b+c==
region = eu-central-1

[with token]
aws_access_key_id	=	TOKENKEY
aws_secret_access_key = s
aws_session_token = t==
)";
  const auto found = good(text);
  CHECK(found.access_key == "AKID");
  CHECK(found.secret_key == "a/b+c==");
  CHECK(found.session_token.empty());
  CHECK_FALSE(found.expires);
  CHECK(good(text, "with token").access_key == "TOKENKEY");
  CHECK(good(text, "with token").session_token == "t==");
}

TEST_CASE("line ends of other systems, a byte order mark and a missing last line end are taken",
          "[obj][credentials]") {
  const auto found = good(
      "\xEF\xBB\xBF[ default ]\r\naws_access_key_id = AKID\r\n\r\naws_secret_access_key = s\r");
  CHECK(found.access_key == "AKID");
  CHECK(found.secret_key == "s");
}

TEST_CASE("a comment begins at the line's start or after a space", "[obj][credentials]") {
  const auto found = good(
      "; c\n[default] # c\n  # c\naws_access_key_id = AKID ; c\naws_secret_access_key = a#b;c\n");
  CHECK(found.access_key == "AKID");
  CHECK(found.secret_key == "a#b;c");
}

TEST_CASE("sections of one name are one, and the last value counts", "[obj][credentials]") {
  const auto found = good(
      "[default]\naws_access_key_id = first\naws_session_token = t\n[x]\naws_access_key_id = no\n"
      "[default]\naws_access_key_id = second\naws_secret_access_key = s\n");
  CHECK(found.access_key == "second");
  CHECK(found.secret_key == "s");
  CHECK(found.session_token == "t");
}

TEST_CASE("settings of settings are not settings", "[obj][credentials]") {
  const auto found = good(
      "[default]\n  aws_access_key_id = AKID\naws_secret_access_key = s\ns3 =\n"
      "  aws_access_key_id = nested\n  no equals sign\n");
  CHECK(found.access_key == "AKID");
  CHECK(good("[default]\ns3 =\n[default]\n  aws_access_key_id = a\n  aws_secret_access_key = s\n")
            .access_key == "a");
}

TEST_CASE("what other profiles have wrong is theirs", "[obj][credentials]") {
  CHECK(good("[x]\nno equals sign\n[default]\naws_access_key_id=a\naws_secret_access_key=s\n")
            .access_key == "a");
}

TEST_CASE("a missing profile or key is named", "[obj][credentials]") {
  CHECK(error_of("") == "FILE: profile \"default\" is not there");
  CHECK(error_of("[Default]\naws_access_key_id = a\n") == "FILE: profile \"default\" is not there");
  CHECK(error_of("[default]\nrole_arn = r\n") ==
        "FILE: profile \"default\" has no aws_access_key_id and no aws_secret_access_key");
  CHECK(error_of("[default]\naws_access_key_id = a\naws_secret_access_key =\n") ==
        "FILE: profile \"default\": aws_secret_access_key is missing");
  CHECK(error_of("[default]\naws_secret_access_key = s\n") ==
        "FILE: profile \"default\": aws_access_key_id is missing");
  CHECK(error_of("", "x\n\x1b") == "FILE: profile \"x??\" is not there");
}

TEST_CASE("a line that cannot be read is named by its number", "[obj][credentials]") {
  CHECK(error_of("\naws_access_key_id = a\n") == "FILE: line 2 stands before the first [profile]");
  CHECK(error_of("[default\n") == "FILE: line 1 begins with '[' and has no ']'");
  CHECK(error_of("[default] x\n") == "FILE: line 1 goes on after its ']'");
  CHECK(error_of("[default]\n\nSECRET\n") == "FILE: line 3 has no '='; expected name = value");
}

TEST_CASE("no error has a value, nor a name that may be one", "[obj][credentials]") {
  for (const std::string text :
       {"SECRET", "SECRET = x", "[SECRET", "[default] SECRET", "[default]\nSECRET",
        "[default]\nSECRET==\n", "[default]\naws_access_key_id = SECRET",
        "[default]\naws_secret_access_key = SECRET",
        "[default]\naws_access_key_id = SEC RET\naws_secret_access_key = SECRET",
        "[default]\naws_access_key_id = a\naws_secret_access_key = SECRET \xC3\xA9",
        "[default]\naws_access_key_id = a\naws_secret_access_key = s\naws_session_token = SECRET x",
        "[SECRET]\naws_access_key_id = SECRET\naws_secret_access_key = SECRET"}) {
    const auto parsed = parse(text);
    CAPTURE(text);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == OffloadErrc::invalid_config);
    CHECK(parsed.error().detail.find("SEC") == std::string::npos);
    CHECK(parsed.error().detail.starts_with("FILE: "));
  }
}

TEST_CASE("keys that no header can carry are refused", "[obj][credentials]") {
  const std::string rest = "\naws_secret_access_key = s\n";
  CHECK(
      error_of("[default]\naws_access_key_id = a b" + rest) ==
      "FILE: profile \"default\": access_key: has a space, a control character or one that is not "
      "ASCII");
  CHECK(error_of("[default]\naws_access_key_id = " + std::string(513, 'a') + rest) ==
        "FILE: profile \"default\": access_key: has 513 characters; expected at most 512");
  CHECK(error_of("[default]\naws_access_key_id = " + std::string(512, 'a') + rest) == "(none)");
}

}  // namespace
}  // namespace kv_offload
