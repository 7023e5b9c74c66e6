#include "kv_offload/tiers/obj/sigv4.hpp"
#include "kv_offload/tiers/obj/uri_encoding.hpp"
#include "kv_offload/tiers/sha256.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <string>
#include <string_view>

namespace kv_offload {
namespace {

using namespace std::chrono;

constexpr const char* kEmptyHash =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

const std::string* find(const HeaderList& headers, std::string_view name) {
  for (const auto& header : headers)
    if (header.first == name) return &header.second;
  return nullptr;
}
std::string value_of(const HeaderList& headers, std::string_view name) {
  const std::string* value = find(headers, name);
  return value == nullptr ? "(none)" : *value;
}
std::string signature_of(const HeaderList& headers) {
  const std::string authorization = value_of(headers, "authorization");
  const auto at = authorization.find("Signature=");
  return at == std::string::npos ? authorization : authorization.substr(at + 10);
}

// The examples of Amazon S3's API reference, "Authenticating Requests: Using the Authorization Header", with the
// signatures that stand there.
const AwsCredentials kS3Example{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                                "", std::nullopt};
constexpr sys_seconds kS3Time = sys_days(2013y / May / 24);
const std::pair<std::string, std::string> kS3Host{"host", "examplebucket.s3.amazonaws.com"};

HeaderList sign_s3(const SigV4Request& request) {
  return SigV4Signer("us-east-1", "s3").sign(request, kS3Example, kS3Time);
}

TEST_CASE("S3's published example of a GET of a range is signed alike", "[obj][sigv4]") {
  const auto added =
      sign_s3({"GET", "/test.txt", {}, {kS3Host, {"range", "bytes=0-9"}}, kEmptyHash});
  CHECK(value_of(added, "authorization") ==
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  CHECK(value_of(added, "x-amz-date") == "20130524T000000Z");
  CHECK(value_of(added, "x-amz-content-sha256") == kEmptyHash);
  CHECK(find(added, "x-amz-security-token") == nullptr);
  CHECK(added.size() == 3);
}

TEST_CASE("S3's published example of a PUT is signed alike", "[obj][sigv4]") {
  const auto added = sign_s3({"PUT",
                              "/test%24file.text",
                              {},
                              {kS3Host,
                               {"date", "Fri, 24 May 2013 00:00:00 GMT"},
                               {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                              sha256_hex("Welcome to Amazon S3.")});
  CHECK(signature_of(added) == "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  CHECK(value_of(added, "x-amz-content-sha256") ==
        "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
}

TEST_CASE("S3's published examples of bucket requests are signed alike", "[obj][sigv4]") {
  CHECK(signature_of(sign_s3({"GET", "/", {{"lifecycle", ""}}, {kS3Host}, kEmptyHash})) ==
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  CHECK(signature_of(
            sign_s3({"GET", "/", {{"prefix", "J"}, {"max-keys", "2"}}, {kS3Host}, kEmptyHash})) ==
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

// AWS's aws-sig-v4-test-suite, with the names and the signatures of its folders.
AwsCredentials suite_credentials() {
  return {"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "", std::nullopt};
}
constexpr sys_seconds kSuiteTime = sys_days(2015y / August / 30) + 12h + 36min;

SigV4Request suite_request(std::string_view method, std::string_view path = "/") {
  return {method, path, {}, {{"host", "example.amazonaws.com"}}, kEmptyHash};
}
std::string suite_signature(const SigV4Request& request) {
  return signature_of(
      SigV4Signer("us-east-1", "service").sign(request, suite_credentials(), kSuiteTime));
}

TEST_CASE("AWS's test suite: plain requests", "[obj][sigv4]") {
  const auto added = SigV4Signer("us-east-1", "service")
                         .sign(suite_request("GET"), suite_credentials(), kSuiteTime);
  CHECK(
      value_of(added, "authorization") ==
      "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
      "SignedHeaders=host;x-amz-date, "
      "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");  // get-vanilla
  // Only S3 wants the hash of the payload as a header.
  CHECK(find(added, "x-amz-content-sha256") == nullptr);
  // post-vanilla
  CHECK(suite_signature(suite_request("POST")) ==
        "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
}

TEST_CASE("AWS's test suite: paths", "[obj][sigv4]") {
  const auto signature = [](std::string_view path) {
    const std::string encoded = uri_encode(path, true);
    return suite_signature(suite_request("GET", encoded));
  };
  // get-utf8, get-unreserved, get-space
  CHECK(signature("/\xE1\x88\xB4") ==
        "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85");
  CHECK(signature("/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") ==
        "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f");
  CHECK(signature("/example space/") ==
        "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741");
}

TEST_CASE("AWS's test suite: queries", "[obj][sigv4]") {
  const auto signature = [](std::vector<std::pair<std::string, std::string>> query) {
    SigV4Request request = suite_request("GET");
    request.query = std::move(query);
    return suite_signature(request);
  };
  // get-vanilla-query-order-key-case, get-vanilla-empty-query-key
  CHECK(signature({{"Param2", "value2"}, {"Param1", "value1"}}) ==
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
  CHECK(signature({{"Param1", "value1"}}) ==
        "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb");
  // get-vanilla-utf8-query, get-vanilla-query-unreserved
  CHECK(signature({{"\xE1\x88\xB4", "bar"}}) ==
        "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04");
  const std::string unreserved =
      "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  CHECK(signature({{unreserved, unreserved}}) ==
        "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197");
}

TEST_CASE("AWS's test suite: headers", "[obj][sigv4]") {
  const auto signature = [](std::string_view method, const HeaderList& more) {
    SigV4Request request = suite_request(method);
    request.headers.insert(request.headers.begin(), more.begin(), more.end());
    return suite_signature(request);
  };
  // get-header-value-trim, get-header-key-duplicate
  CHECK(signature("GET", {{"my-header1", " value1"}, {"my-header2", " \"a   b   c\""}}) ==
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736");
  CHECK(signature("GET",
                  {{"my-header1", "value2"}, {"my-header1", "value2"}, {"my-header1", "value1"}}) ==
        "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea");
  // post-header-key-sort, post-header-value-case
  CHECK(signature("POST", {{"my-header1", "value1"}}) ==
        "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c");
  CHECK(signature("POST", {{"my-header1", "VALUE1"}}) ==
        "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d");
}

TEST_CASE("AWS's test suite: a session token is sent and signed", "[obj][sigv4]") {
  // post-sts-header-before
  AwsCredentials temporary = suite_credentials();
  temporary.session_token =
      "AQoDYXdzEPT//////////"
      "wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIe"
      "oIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/"
      "kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq"
      "5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+"
      "scqKmlzm8FDrypNC"
      "9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";
  const auto added =
      SigV4Signer("us-east-1", "service").sign(suite_request("POST"), temporary, kSuiteTime);
  CHECK(value_of(added, "x-amz-security-token") == temporary.session_token);
  CHECK(value_of(added, "authorization")
            .ends_with("SignedHeaders=host;x-amz-date;x-amz-security-token, Signature="
                       "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"));
}

TEST_CASE("the key of the day follows the day and the credentials", "[obj][sigv4]") {
  SigV4Signer kept("us-east-1", "s3");
  AwsCredentials other = kS3Example;
  other.secret_key += "2";
  const SigV4Request request{"GET", "/test.txt", {}, {kS3Host}, kEmptyHash};
  const auto fresh = [&](const AwsCredentials& credentials, sys_seconds now) {
    return SigV4Signer("us-east-1", "s3").sign(request, credentials, now);
  };
  const struct {
    const AwsCredentials& credentials;
    sys_seconds now;
  } steps[] = {{kS3Example, kS3Time},       {kS3Example, kS3Time + 24h - 1s},
               {kS3Example, kS3Time + 24h}, {other, kS3Time + 24h},
               {kS3Example, kS3Time + 24h}, {kS3Example, kS3Time}};  // a clock that was set back
  std::string before;
  for (const auto& step : steps) {
    const auto added = kept.sign(request, step.credentials, step.now);
    CHECK(added == fresh(step.credentials, step.now));
    CHECK(signature_of(added) != before);
    before = signature_of(added);
  }
}

TEST_CASE("region, service, method, path, query and payload are all part of a signature",
          "[obj][sigv4]") {
  const SigV4Request request{"GET", "/a", {{"x", "1"}}, {kS3Host}, kEmptyHash};
  const auto signature = [](SigV4Request changed, const char* region = "us-east-1",
                            const char* service = "s3") {
    return signature_of(SigV4Signer(region, service).sign(changed, kS3Example, kS3Time));
  };
  const std::string base = signature(request);
  CHECK(signature(request) == base);
  CHECK(signature(request, "eu-central-1") != base);
  CHECK(signature(request, "us-east-1", "sts") != base);
  SigV4Request changed = request;
  changed.method = "PUT";
  CHECK(signature(changed) != base);
  changed = request;
  changed.canonical_path = "/b";
  CHECK(signature(changed) != base);
  changed = request;
  changed.query[0].second = "2";
  CHECK(signature(changed) != base);
  changed = request;
  changed.payload_hash = "UNSIGNED-PAYLOAD";
  CHECK(signature(changed) != base);
}

TEST_CASE("a signature has no trace of the secret key", "[obj][sigv4]") {
  for (const auto& [name, value] : sign_s3({"GET", "/", {}, {kS3Host}, kEmptyHash}))
    CHECK(value.find(kS3Example.secret_key) == std::string::npos);
}

TEST_CASE("a query is sorted by its encoded names, then values", "[obj][sigv4]") {
  CHECK(canonical_query({}).empty());
  CHECK(canonical_query({{"uploads", ""}}) == "uploads=");
  CHECK(canonical_query({{"prefix", "a/b c"}, {"list-type", "2"}}) ==
        "list-type=2&prefix=a%2Fb%20c");
  CHECK(canonical_query({{"a", "2"}, {"a", "1"}, {"A", "3"}}) == "A=3&a=1&a=2");
  // By name first: of the joined texts "a-b=" would come before "a=".
  CHECK(canonical_query({{"a-b", "1"}, {"a", "1"}}) == "a=1&a-b=1");
  CHECK(canonical_query({{"continuation-token", "1+/=="}}) == "continuation-token=1%2B%2F%3D%3D");
}

TEST_CASE("SHA-256 as FIPS 180-2 has it", "[obj][sigv4]") {
  CHECK(sha256_hex("") == kEmptyHash);
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace kv_offload
