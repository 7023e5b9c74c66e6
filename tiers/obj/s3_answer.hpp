#pragma once

#include "kv_offload/tiers/obj/http_exchange.hpp"
#include "kv_offload/tiers/obj/s3_client.hpp"
#include "kv_offload/tiers/obj/s3_failure.hpp"

#include <chrono>
#include <string>

namespace kv_offload {

/// What an HTTP answer means for an operation.
struct S3Answer {
  S3Failure failure = S3Failure::none;
  std::string detail;           ///< one line; no secrets
  std::chrono::seconds skew{};  ///< the store's clock minus ours, where that is the trouble
};

/// Clocks may differ by so much before a store refuses a signature (AWS: 15 minutes).
inline constexpr std::chrono::minutes kSkewMax{15};

/// @param now  this machine's wall clock; a HEAD that is refused has no body that says why, its Date does
S3Answer classify(S3Op op, const HttpResponse& response, std::chrono::sys_seconds now);

}  // namespace kv_offload
