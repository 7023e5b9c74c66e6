#pragma once

#include "kv_offload/tiers/obj/aws_credentials.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kv_offload {

/// Names in lower case, as they are signed.
using HeaderList = std::vector<std::pair<std::string, std::string>>;

/// One request as it is signed.
struct SigV4Request {
  std::string_view method;
  std::string_view canonical_path;  ///< already encoded, as in the URL; starts with '/'
  std::vector<std::pair<std::string, std::string>> query;  ///< not encoded, in any order
  HeaderList headers;        ///< host and what else is to be signed, but for what sign() answers
  std::string payload_hash;  ///< SHA-256 in hex, or "UNSIGNED-PAYLOAD"
};

/// Signs requests with AWS Signature Version 4 (one chunk, in the Authorization header). Keeps the key of the
/// day, which four of the five HMACs of a signature make. One owner, one thread. Reads no clock.
class SigV4Signer {
 public:
  /// `service`: "s3" or "sts".
  SigV4Signer(std::string region, std::string service);

  /// The headers to add to the request: x-amz-date, x-amz-content-sha256 (s3 alone), x-amz-security-token (with a
  /// session token alone) and authorization. `now` is what the store's clock should say.
  [[nodiscard]] HeaderList sign(const SigV4Request& request, const AwsCredentials& credentials,
                                std::chrono::sys_seconds now);

 private:
  using Key = std::array<std::byte, 32>;
  const Key& key_of(std::string_view day, const std::string& secret_key);

  const std::string region_;
  const std::string service_;
  std::string day_;
  std::string secret_key_;
  Key key_{};
};

/// The query of the URL and of the signature, without '?': encoded, sorted by name, then by value; a parameter
/// without a value is `name=`.
[[nodiscard]] std::string canonical_query(
    const std::vector<std::pair<std::string, std::string>>& query);

}  // namespace kv_offload
