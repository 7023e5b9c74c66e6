#include "kv_offload/tiers/obj/s3_answer.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
constexpr std::chrono::sys_seconds kNow{1'700'000'000s};  // Tue, 14 Nov 2023 22:13:20 GMT

S3Answer of(S3Op op, long status, const std::string& body = "",
            const std::vector<std::string>& headers = {}) {
  ResponseHeaders lines;
  for (const std::string& line : headers) lines.add_line(line);
  HttpResponse response;
  response.end = HttpEnd::answered;
  response.status = status;
  response.body = body;
  response.headers = &lines;
  return classify(op, response, kNow);
}
std::string error(const std::string& code, const std::string& message = "why") {
  return "<Error><Code>" + code + "</Code><Message>" + message + "</Message></Error>";
}

TEST_CASE("each status means one thing, where no document says more", "[obj]") {
  using enum S3Failure;
  const std::vector<std::pair<long, S3Failure>> statuses = {
      {204, malformed},    {206, malformed},    {299, malformed},    {301, redirected},
      {302, redirected},   {304, redirected},   {307, redirected},   {308, redirected},
      {400, refused},      {401, denied},       {403, denied},       {404, not_found},
      {405, refused},      {408, timed_out},    {409, refused},      {411, refused},
      {412, exists},       {416, refused},      {418, refused},      {429, throttled},
      {500, server_error}, {501, server_error}, {502, server_error}, {503, throttled},
      {504, server_error}, {507, server_error}, {599, server_error}};
  for (const auto& [status, failure] : statuses) {
    INFO(status);
    for (const S3Op op : {S3Op::get, S3Op::head, S3Op::put, S3Op::list, S3Op::remove_many}) {
      const S3Answer answer = of(op, status);
      CHECK(answer.failure == failure);
      CHECK(answer.detail == "HTTP " + std::to_string(status));
    }
  }
}

TEST_CASE("a status that went well is one, a deletion's also without a word", "[obj]") {
  for (const S3Op op :
       {S3Op::get, S3Op::head, S3Op::put, S3Op::list, S3Op::remove_many, S3Op::remove})
    CHECK(of(op, 200).failure == S3Failure::none);
  CHECK(of(S3Op::remove, 204).failure == S3Failure::none);
}

TEST_CASE("the store's code says more than the status", "[obj]") {
  using enum S3Failure;
  const std::vector<std::pair<std::string, S3Failure>> codes = {
      {"NoSuchKey", not_found},
      {"NoSuchBucket", no_bucket},
      {"PreconditionFailed", exists},
      {"RequestTimeTooSkewed", clock_skew},
      {"RequestExpired", clock_skew},
      {"InvalidAccessKeyId", bad_credentials},
      {"SignatureDoesNotMatch", bad_credentials},
      {"ExpiredToken", bad_credentials},
      {"InvalidToken", bad_credentials},
      {"TokenRefreshRequired", bad_credentials},
      {"AuthorizationHeaderMalformed", bad_credentials},
      {"InvalidSecurity", bad_credentials},
      {"AccessDenied", denied},
      {"AllAccessDisabled", denied},
      {"AccountProblem", denied},
      {"SlowDown", throttled},
      {"ThrottlingException", throttled},
      {"Throttling", throttled},
      {"RequestLimitExceeded", throttled},
      {"TooManyRequests", throttled},
      {"PermanentRedirect", redirected},
      {"TemporaryRedirect", redirected},
      {"IllegalLocationConstraintException", redirected},
      {"RequestTimeout", timed_out}};
  for (const auto& [code, failure] : codes) {
    INFO(code);
    const S3Answer answer = of(S3Op::get, 400, error(code));
    CHECK(answer.failure == failure);
    CHECK(answer.detail == "HTTP 400, " + code + ": why");
    // In a 5xx only "slow down" is more than the status.
    CHECK(of(S3Op::put, 500, error(code)).failure ==
          (failure == throttled ? throttled : server_error));
  }
  CHECK(of(S3Op::get, 400, error("SomethingNew")).failure == refused);
  CHECK(of(S3Op::get, 403, error("SomethingNew")).failure == denied);
  CHECK(of(S3Op::get, 503, error("ServiceUnavailable")).failure == server_error);
  CHECK(of(S3Op::get, 503, "<html>no document of a store</html>").failure == throttled);
  CHECK(of(S3Op::get, 403, "<Error><Code>").failure == denied);
}

TEST_CASE("an error in the body of a 200 is one, for what answers with a document", "[obj]") {
  CHECK(of(S3Op::remove_many, 200, error("InternalError")).failure == S3Failure::server_error);
  CHECK(of(S3Op::list, 200, error("SlowDown")).failure == S3Failure::throttled);
  CHECK(of(S3Op::list, 200, error("NoSuchBucket")).failure == S3Failure::no_bucket);
  CHECK(of(S3Op::get, 200, error("InternalError")).failure ==
        S3Failure::none);  // bytes of an object
}

TEST_CASE("below HTTP each end means one thing", "[obj]") {
  const std::vector<std::pair<HttpEnd, S3Failure>> ends = {
      {HttpEnd::unreachable, S3Failure::unreachable},
      {HttpEnd::tls, S3Failure::tls},
      {HttpEnd::timed_out, S3Failure::timed_out},
      {HttpEnd::broken, S3Failure::broken},
      {HttpEnd::malformed, S3Failure::malformed},
      {HttpEnd::too_long, S3Failure::wrong_length},
      {HttpEnd::failed, S3Failure::broken}};
  for (const auto& [end, failure] : ends) {
    ResponseHeaders headers;
    HttpResponse response;
    response.end = end;
    response.status = 200;  // it had begun well
    response.headers = &headers;
    response.detail = "libcurl's words";
    const S3Answer answer = classify(S3Op::get, response, kNow);
    CHECK(answer.failure == failure);
    CHECK(answer.detail == "libcurl's words");
  }
}

TEST_CASE("a refusal without a body is the clock's where the store's is far away", "[obj]") {
  const std::string same = "Date: Tue, 14 Nov 2023 22:20:00 GMT\r\n";
  const std::string ahead = "Date: Tue, 14 Nov 2023 23:13:20 GMT\r\n";
  const std::string behind = "Date: Tue, 14 Nov 2023 21:13:20 GMT\r\n";
  CHECK(of(S3Op::head, 403, "", {same}).failure == S3Failure::denied);
  CHECK(of(S3Op::head, 403, "", {}).failure == S3Failure::denied);
  CHECK(of(S3Op::head, 403, "", {"Date: nonsense\r\n"}).failure == S3Failure::denied);
  const S3Answer answer = of(S3Op::head, 403, "", {ahead});
  CHECK(answer.failure == S3Failure::clock_skew);
  CHECK(answer.skew == 1h);
  CHECK(of(S3Op::head, 403, "", {behind}).skew == -1h);
  CHECK(of(S3Op::get, 403, error("SignatureDoesNotMatch"), {behind}).failure ==
        S3Failure::clock_skew);
  CHECK(of(S3Op::get, 403, error("RequestTimeTooSkewed"), {behind}).skew == -1h);
  // Whatever else fails does not fail for the clock.
  CHECK(of(S3Op::get, 404, error("NoSuchKey"), {behind}).failure == S3Failure::not_found);
  CHECK(of(S3Op::get, 500, "", {behind}).failure == S3Failure::server_error);
}

TEST_CASE("a redirect says where the bucket is, if anybody does", "[obj]") {
  CHECK(of(S3Op::head, 301, "", {"x-amz-bucket-region: eu-west-3\r\n"}).detail ==
        "HTTP 301; the bucket is in region eu-west-3");
  CHECK(of(S3Op::get, 301,
           "<Error><Code>PermanentRedirect</Code><Message>m</Message><Endpoint>e.example</"
           "Endpoint></Error>")
            .detail == "HTTP 301, PermanentRedirect: m; it asks for endpoint e.example");
  CHECK(of(S3Op::get, 301).detail == "HTTP 301");
}

TEST_CASE("what may pass is asked for again, what is an outage speaks for the breaker", "[obj]") {
  using enum S3Failure;
  for (std::size_t i = 0; i < kNumS3Failures; ++i) {
    const auto failure = static_cast<S3Failure>(i);
    INFO(to_string(failure));
    const bool may_pass = failure == throttled || failure == server_error || failure == timed_out ||
                          failure == unreachable || failure == broken || failure == malformed;
    CHECK(is_transient(failure) == may_pass);
    CHECK(is_outage(failure) == (may_pass && failure != throttled));
  }
  CHECK(to_string(cancelled) == "cancelled");  // the last one: names and values are in one order
  CHECK(to_string(none) == "none");
}

}  // namespace
}  // namespace kv_offload
