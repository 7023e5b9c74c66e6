// Whose credentials sign, and how they are kept good.
#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tests/support/tier_obj_fixture.hpp"

#include <ctime>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
using FaultKind = bench::ServerFaultKind;
using test::becomes_true;
using test::ObjFixture;
using test::tier_key;
using test::tier_keys;

/// Whose key signed the last request.
std::string signer_of_last(ObjFixture& f) {
  const auto requests = f.server.requests();
  REQUIRE_FALSE(requests.empty());
  const std::string text = requests.back().headers.at("authorization");
  const auto at = text.find("Credential=");
  REQUIRE(at != std::string::npos);
  return text.substr(at + 11, text.find('/', at) - at - 11);
}
std::string token_of_last(ObjFixture& f) {
  const auto requests = f.server.requests();
  const auto at = requests.back().headers.find("x-amz-security-token");
  return at == requests.back().headers.end() ? "" : at->second;
}
std::string shared_file(const std::string& key) {
  return "[default]\naws_access_key_id = " + key +
         "\naws_secret_access_key = must-not-be-shown-1\n[other]\n" +
         "aws_access_key_id = OTHER\naws_secret_access_key = "
         "must-not-be-shown-2\naws_session_token = token-2\n";
}

TEST_CASE("each source of credentials signs, and is named without its secrets", "[obj][io]") {
  ObjFixture f;
  const test::TierDirectory directory;
  const std::string file = directory.path() + "/credentials";
  test::write_file(file, shared_file("SHARED"));
  std::string key = "AKIDEXAMPLE";
  std::string origin = "the configuration";
  std::string token;
  SECTION("the configuration") {}
  SECTION("the configuration, with a token") {
    f.config.credentials.session_token = "token-must-not-be-shown";
    token = "token-must-not-be-shown";
  }
  SECTION("the environment") {
    f.config.credentials = {};
    f.environment = {{"AWS_ACCESS_KEY_ID", "ENV"},
                     {"AWS_SECRET_ACCESS_KEY", "must-not-be-shown"},
                     {"AWS_SESSION_TOKEN", "token-1"}};
    key = "ENV";
    token = "token-1";
    origin = "the environment";
  }
  SECTION("the shared file") {
    f.config.credentials = {};
    f.environment = {{"AWS_SHARED_CREDENTIALS_FILE", file}};
    key = "SHARED";
    origin = "profile \"default\" of " + file;
  }
  SECTION("a profile of a given file") {
    f.config.credentials = {};
    f.config.credentials.credentials_file = file;
    f.config.credentials.profile = "other";
    key = "OTHER";
    token = "token-2";
    origin = "profile \"other\" of " + file;
  }
  f.start();
  f.store_named(1, 1);
  CHECK(signer_of_last(f) == key);
  CHECK(token_of_last(f) == token);
  CHECK(f.log().find("credentials of " + origin) != std::string::npos);
}

TEST_CASE("a start without credentials says where it looked", "[obj][io]") {
  ObjFixture f;
  f.config.credentials = {};
  const auto started = f.try_start();
  REQUIRE_FALSE(started);
  for (const char* part : {"no credentials", "AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"})
    CHECK(started.error().detail.find(part) != std::string::npos);
  CHECK(f.server.counts().requests() == 0);
}

TEST_CASE("the region is part of the signature", "[obj][io]") {
  ObjFixture f;
  f.config.place.region = "eu-north-7";
  f.start();
  CHECK(
      f.server.requests().back().headers.at("authorization").find("/eu-north-7/s3/aws4_request") !=
      std::string::npos);
}

TEST_CASE(
    "a shared file that was rewritten is read again when the store refuses what it said before",
    "[obj][io]") {
  ObjFixture f;
  f.config.retry.attempts = 1;
  const test::TierDirectory directory;
  const std::string file = directory.path() + "/credentials";
  test::write_file(file, shared_file("OLD"));
  f.config.credentials = {};
  f.config.credentials.credentials_file = file;
  f.start();
  f.store_named(1, 1);
  test::write_file(file, shared_file("NEW"));
  f.ahead = 31s;  // it was looked at when the tier started
  f.server.faults().add({.method = "GET",
                         .kind = FaultKind::status,
                         .argument = 403,
                         .text = "InvalidAccessKeyId",
                         .times = 1});
  CHECK_FALSE(f.load(tier_keys(1, 1), 8).success);
  CHECK(signer_of_last(f) == "OLD");
  CHECK(becomes_true(
      [&] { return f.load(tier_keys(1, 1), 8).success && signer_of_last(f) == "NEW"; }));
  // Not again and again.
  test::write_file(file, shared_file("NEWER"));
  f.server.faults().add({.method = "GET",
                         .kind = FaultKind::status,
                         .argument = 403,
                         .text = "InvalidAccessKeyId",
                         .times = 5});
  for (int i = 0; i < 6; ++i) f.load(tier_keys(1, 1), 8);
  CHECK(signer_of_last(f) == "NEW");
  // A file that is gone leaves the last ones in use, with a line.
  std::filesystem::remove(file);
  f.ahead = 90s;
  f.server.faults().add({.method = "GET",
                         .kind = FaultKind::status,
                         .argument = 403,
                         .text = "InvalidAccessKeyId",
                         .times = 1});
  f.load(tier_keys(1, 1), 8);
  CHECK(becomes_true([&] { return f.log().find("there are no others") != std::string::npos; }));
  CHECK(f.load(tier_keys(1, 1), 8).success);
}

/// A token service that says what it is told to say.
struct TokenService {
  TokenService() { REQUIRE(server.start()); }
  void answer(int status, const std::string& text, std::uint64_t times = 0) {
    server.faults().add({.method = "POST",
                         .kind = FaultKind::text,
                         .argument = status,
                         .text = text,
                         .times = times});
  }
  static std::string credentials(const std::string& key, std::chrono::seconds lasts) {
    const std::time_t ends = std::time(nullptr) + lasts.count();
    std::tm parts{};
    ::gmtime_r(&ends, &parts);
    char text[64];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><"
           "AccessKeyId>" +
           key +
           "</AccessKeyId><SecretAccessKey>s-must-not-be-shown</SecretAccessKey><SessionToken>t-" +
           key + "</SessionToken><Expiration>" + text +
           "</Expiration></Credentials></AssumeRoleWithWebIdentityResult></"
           "AssumeRoleWithWebIdentityResponse>";
  }
  bench::ObjectServer server;
};

/// A fixture whose credentials come from the service.
struct WebIdentityFixture : ObjFixture {
  WebIdentityFixture() {
    test::write_file(token_file(), "web-token-must-not-be-shown\n");
    config.credentials = {};
    config.sts_endpoint = sts.server.endpoint() + "/";
    config.request_timeout = 1s;
    environment = {{"AWS_WEB_IDENTITY_TOKEN_FILE", token_file()},
                   {"AWS_ROLE_ARN", "arn:aws:iam::1:role/kv"}};
  }
  [[nodiscard]] std::string token_file() const { return directory.path() + "/token"; }
  TokenService sts;
  test::TierDirectory directory;
};

TEST_CASE("a web identity is exchanged for credentials that sign", "[obj][io]") {
  WebIdentityFixture f;
  f.sts.answer(200, TokenService::credentials("TEMP", 1h));
  f.start();
  f.store_named(1, 1);
  CHECK(signer_of_last(f) == "TEMP");
  CHECK(token_of_last(f) == "t-TEMP");
  CHECK(f.metric("kv_offload_obj_credentials_renewed_total") == 1);
  CHECK(f.log().find("the web identity token " + f.token_file()) != std::string::npos);
  const auto asked = f.sts.server.requests();
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].method == "POST");
  CHECK_FALSE(asked[0].headers.contains("authorization"));
  CHECK(asked[0].headers.at("content-type") == "application/x-www-form-urlencoded");
  CHECK(asked[0].target.find("must-not-be-shown") == std::string::npos);
}

TEST_CASE("temporary credentials are renewed before they end, with the token as it is then",
          "[obj][io]") {
  WebIdentityFixture f;
  f.sts.answer(200, TokenService::credentials("FIRST", 3s), 1);
  f.sts.answer(500, "", 0);
  f.start();
  CHECK(signer_of_last(f) == "FIRST");
  // A renewal that fails is said, and tried again later; the old ones sign on.
  REQUIRE(becomes_true([&] { return f.log().find("could not be renewed") != std::string::npos; }));
  f.store_named(1, 1);
  CHECK(signer_of_last(f) == "FIRST");
  CHECK(f.metric("kv_offload_obj_credentials_renewed_total") == 1);
}

TEST_CASE("a renewal changes who signs", "[obj][io]") {
  WebIdentityFixture f;
  f.sts.answer(200, TokenService::credentials("FIRST", 2s), 1);
  f.sts.answer(200, TokenService::credentials("SECOND", 1h), 1);
  f.start();
  CHECK(signer_of_last(f) == "FIRST");
  const auto first_bytes = f.sts.server.requests().back().body_bytes;
  test::write_file(f.token_file(), "web-token-must-not-be-shown-and-longer\n");
  REQUIRE(becomes_true([&] { return f.metric("kv_offload_obj_credentials_renewed_total") == 2; }));
  f.store_named(1, 1);
  CHECK(signer_of_last(f) == "SECOND");
  CHECK(f.sts.server.requests().back().body_bytes == first_bytes + 11);
}

TEST_CASE("a token service that stumbles once does not keep the tier from starting", "[obj][io]") {
  WebIdentityFixture f;
  f.sts.answer(503, "", 2);
  f.sts.answer(200, TokenService::credentials("TEMP", 1h));
  f.start();
  CHECK(signer_of_last(f) == "TEMP");
  CHECK(f.sts.server.requests().size() == 3);
}

TEST_CASE("a token service that is away keeps a tier from starting only if it is told so",
          "[obj][io]") {
  WebIdentityFixture f;
  f.config.start_unreachable = true;
  f.config.retry.attempts = 1;
  f.sts.server.stop();
  f.start();
  CHECK(f.log().find("started all the same") != std::string::npos);
}

TEST_CASE("an exchange that fails is said without the token", "[obj][io]") {
  WebIdentityFixture f;
  std::string expected;
  SECTION("refused") {
    f.sts.answer(403,
                 "<ErrorResponse><Error><Code>AccessDenied</Code><Message>Not authorized: "
                 "web-token-must-not-be-shown</Message></Error></ErrorResponse>");
    expected = "HTTP 403, AccessDenied";
  }
  SECTION("without a word") {
    f.sts.answer(500, "");
    expected = "HTTP 500";
  }
  SECTION("nobody there") {
    f.sts.server.stop();
    expected = "does not exchange the web identity token";
  }
  SECTION("silence") {
    f.sts.server.faults().add({.kind = FaultKind::hang});
    expected = "does not exchange";
  }
  SECTION("something else") {
    f.sts.answer(200, "<html>must-not-be-shown</html>");
    expected = "does not exchange";
  }
  SECTION("no token file") {
    std::filesystem::remove(f.token_file());
    expected = f.token_file() + ": not there";
  }
  const auto started = f.try_start();
  REQUIRE_FALSE(started);
  const std::string& line = started.error().detail;
  INFO(line);
  CHECK(line.find(expected) != std::string::npos);
  CHECK(line.find("must-not-be-shown") == std::string::npos);
  CHECK(line.find('\n') == std::string::npos);
  CHECK(f.server.counts().requests() == 0);
}

}  // namespace
}  // namespace kv_offload
