#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/obj/aws_credentials.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace kv_offload {

/// What is exchanged at STS for temporary credentials. The token file is read anew at each exchange: who wrote
/// it replaces it from time to time.
struct WebIdentity {
  std::string token_file;
  std::string role_arn;
  std::string session_name;
};

/// What the configuration says; empty: not given.
struct CredentialSources {
  std::string access_key;
  std::string secret_key;
  std::string session_token;
  std::string profile;
  std::string credentials_file;
};

/// Value of an environment variable. One that is empty counts as not set.
using Environment = std::function<std::optional<std::string>(const std::string&)>;

struct ResolvedCredentials {
  std::variant<AwsCredentials, WebIdentity> value;
  std::string origin;  ///< for one log line: `the configuration`, `profile "x" of FILE`
};

/// Where credentials come from, in this order; the first source that is there decides, also if it is wrong:
/// 1. the keys of the configuration;
/// 2. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN;
/// 3. AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN and maybe AWS_ROLE_SESSION_NAME;
/// 4. the shared file: credentials_file, else AWS_SHARED_CREDENTIALS_FILE, else ~/.aws/credentials; of it the
///    profile, else AWS_PROFILE, else "default".
/// Where the configuration names a profile or a file, it is looked at alone. This is the order of the AWS SDKs
/// for Java, Python and PHP; those for C++ and Rust ask the file before the token.
/// Reads the shared file, at most 1 MiB; never says a secret.
Expected<ResolvedCredentials> resolve_credentials(const CredentialSources& sources,
                                                  const Environment& environment);

/// Body of the POST to STS, form-encoded. Spaces and line ends around the token are not part of it.
std::string web_identity_form(const WebIdentity& identity, std::string_view token);

}  // namespace kv_offload
