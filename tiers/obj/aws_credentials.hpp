#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace kv_offload {

/// What a request is signed with. There is no way to print one, on purpose: a secret key and a session token
/// stand in no log and in no error text.
struct AwsCredentials {
  std::string access_key;
  std::string secret_key;
  std::string session_token;                        ///< empty: the keys are not temporary
  std::optional<std::chrono::sys_seconds> expires;  ///< not given: they do not expire
};

/// The first field that cannot be used, with the reason: `access_key: is empty`. The fields travel in HTTP
/// headers, so they are visible ASCII without spaces, and have a length. Never says a value.
[[nodiscard]] std::optional<std::string> unusable_field(const AwsCredentials& credentials);

}  // namespace kv_offload
