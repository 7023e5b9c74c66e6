#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kv_offload {

/// Why a call to the store did not do what it was for. Each has a counter of its own.
enum class S3Failure : std::uint8_t {
  none,
  not_found,        ///< no such object
  no_bucket,
  exists,           ///< 412: it is there already
  denied,           ///< 403: these credentials may not do this
  bad_credentials,  ///< unknown key, wrong secret, expired token
  clock_skew,       ///< the store's clock and this machine's differ too much for a signature
  throttled,        ///< 429, or 503 SlowDown
  server_error,     ///< other 5xx
  redirected,       ///< 3xx: the bucket lives elsewhere
  refused,          ///< other 4xx
  timed_out,
  unreachable,
  tls,
  broken,           ///< the connection ended in the middle
  malformed,        ///< the answer is not what the protocol allows
  wrong_length,     ///< an object of another length than a chunk
  breaker_open,     ///< not asked: the store has failed too often lately
  cancelled,        ///< the tier stops
};
inline constexpr std::size_t kNumS3Failures = 19;

constexpr std::string_view to_string(S3Failure failure) {
  constexpr std::array<std::string_view, kNumS3Failures> kNames = {
      "none",      "not_found",    "no_bucket",  "exists",    "denied",    "bad_credentials", "clock_skew",
      "throttled", "server_error", "redirected", "refused",   "timed_out", "unreachable",     "tls",
      "broken",    "malformed",    "wrong_length", "breaker_open", "cancelled"};
  return kNames[static_cast<std::size_t>(failure)];
}

/// Asking again may help.
constexpr bool is_transient(S3Failure failure) {
  switch (failure) {
    case S3Failure::throttled:
    case S3Failure::server_error:
    case S3Failure::timed_out:
    case S3Failure::unreachable:
    case S3Failure::broken:
    case S3Failure::malformed: return true;
    default: return false;
  }
}

/// The store, or the way to it, does not work: it speaks for the breaker. A store that throttles works.
constexpr bool is_outage(S3Failure failure) {
  return is_transient(failure) && failure != S3Failure::throttled;
}

}  // namespace kv_offload
