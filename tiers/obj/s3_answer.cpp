#include "kv_offload/tiers/obj/s3_answer.hpp"

#include "kv_offload/tiers/obj/log_text.hpp"
#include "kv_offload/tiers/obj/s3_xml.hpp"

#include <cstdlib>
#include <optional>
#include <string_view>

namespace kv_offload {

namespace {

bool is_one_of(std::string_view code, std::initializer_list<std::string_view> codes) {
  for (const std::string_view c : codes)
    if (code == c) return true;
  return false;
}

S3Failure of_code(std::string_view code) {
  if (is_one_of(code, {"NoSuchKey"})) return S3Failure::not_found;
  if (is_one_of(code, {"NoSuchBucket"})) return S3Failure::no_bucket;
  if (is_one_of(code, {"PreconditionFailed"})) return S3Failure::exists;
  if (is_one_of(code, {"RequestTimeTooSkewed", "RequestExpired"})) return S3Failure::clock_skew;
  if (is_one_of(code, {"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken",
                       "TokenRefreshRequired", "AuthorizationHeaderMalformed", "InvalidSecurity"}))
    return S3Failure::bad_credentials;
  if (is_one_of(code, {"AccessDenied", "AllAccessDisabled", "AccountProblem"})) return S3Failure::denied;
  if (is_one_of(code, {"SlowDown", "ThrottlingException", "Throttling", "RequestLimitExceeded", "TooManyRequests",
                       "ConditionalRequestConflict", "OperationAborted"}))
    return S3Failure::throttled;
  if (is_one_of(code, {"PermanentRedirect", "TemporaryRedirect", "IllegalLocationConstraintException"}))
    return S3Failure::redirected;
  if (is_one_of(code, {"RequestTimeout"})) return S3Failure::timed_out;
  return S3Failure::none;
}

S3Failure of_status(long status) {
  if (status == 404) return S3Failure::not_found;
  if (status == 412) return S3Failure::exists;
  if (status == 401 || status == 403) return S3Failure::denied;
  if (status == 429) return S3Failure::throttled;
  if (status == 408) return S3Failure::timed_out;
  if (status >= 300 && status < 400) return S3Failure::redirected;
  if (status >= 400 && status < 500) return S3Failure::refused;
  return S3Failure::server_error;
}

S3Failure of_end(HttpEnd end) {
  switch (end) {
    case HttpEnd::answered: return S3Failure::none;
    case HttpEnd::unreachable: return S3Failure::unreachable;
    case HttpEnd::tls: return S3Failure::tls;
    case HttpEnd::timed_out: return S3Failure::timed_out;
    case HttpEnd::broken: return S3Failure::broken;
    case HttpEnd::malformed: return S3Failure::malformed;
    case HttpEnd::too_long: return S3Failure::wrong_length;
    case HttpEnd::failed: return S3Failure::broken;
  }
  return S3Failure::broken;
}

/// The statuses by which each operation says that it went well. Another 2xx is not a store's.
bool went_well(S3Op op, long status) {
  switch (op) {
    case S3Op::get: return status == 200;
    case S3Op::remove: return status == 204 || status == 200;
    default: return status == 200;
  }
}

}  // namespace

S3Answer classify(S3Op op, const HttpResponse& response, std::chrono::sys_seconds now) {
  S3Answer answer;
  if (response.end != HttpEnd::answered) {
    answer.failure = of_end(response.end);
    answer.detail = response.detail;
    return answer;
  }
  if (went_well(op, response.status)) {
    // A store may say 200, keep the connection alive with spaces, and then tell of an error in the body.
    const bool may_err = op == S3Op::remove_many || op == S3Op::list;
    const auto error = may_err ? parse_s3_error(response.body) : std::nullopt;
    if (!error) return answer;
    answer.failure = of_code(error->code);
    if (answer.failure == S3Failure::none) answer.failure = S3Failure::server_error;
    answer.detail = error->code + ": " + error->message;
    return answer;
  }
  answer.failure = of_status(response.status);
  answer.detail = "HTTP " + std::to_string(response.status);
  std::optional<S3Error> error;
  if (!response.body.empty()) error = parse_s3_error(response.body);
  if (error) {
    const S3Failure by_code = of_code(error->code);
    // A 5xx stays what it is, but for "slow down".
    if (by_code != S3Failure::none && (response.status < 500 || by_code == S3Failure::throttled))
      answer.failure = by_code;
    answer.detail += ", " + error->code;
    if (!error->message.empty()) answer.detail += ": " + error->message;
  } else if (response.status < 300) {
    answer.failure = S3Failure::malformed;
  } else if (response.status == 503) {
    answer.failure = S3Failure::throttled;  // without a reason: "try again later", says HTTP
  }
  if (answer.failure == S3Failure::redirected) {
    if (const std::string* region = response.headers->find("x-amz-bucket-region"))
      answer.detail += "; the bucket is in region " + log_text(*region, 64);
    else if (error && !error->endpoint.empty())
      answer.detail += "; it asks for endpoint " + error->endpoint;
  }
  if (const auto date = response.headers->date()) {
    const auto skew = *date - now;
    const bool is_skewed = skew > kSkewMax || skew < -kSkewMax;
    if (is_skewed && (answer.failure == S3Failure::denied || answer.failure == S3Failure::bad_credentials))
      answer.failure = S3Failure::clock_skew;
    if (answer.failure == S3Failure::clock_skew) answer.skew = skew;
  }
  return answer;
}

}  // namespace kv_offload
