#include "kv_offload/tiers/obj/credential_sources.hpp"

#include "kv_offload/tiers/fs/small_file.hpp"
#include "kv_offload/tiers/obj/log_text.hpp"
#include "kv_offload/tiers/obj/shared_credentials.hpp"
#include "kv_offload/tiers/obj/trimmed.hpp"
#include "kv_offload/tiers/obj/uri_encoding.hpp"

#include <utility>

namespace kv_offload {

namespace {

/// A source that is not there answers nothing, and the next one is asked.
using Found = std::optional<Expected<ResolvedCredentials>>;

Found failed(std::string text) {
  return Expected<ResolvedCredentials>(OffloadErrc::invalid_config, std::move(text));
}

/// The two names by which a source calls its keys.
struct PairNames {
  const char* access_key;
  const char* secret_key;
};

Found from_pair(AwsCredentials given, const std::string& origin, PairNames names) {
  if (given.access_key.empty() && given.secret_key.empty()) return std::nullopt;
  if (given.access_key.empty())
    return failed(origin + ": " + names.secret_key + " is given, " + names.access_key +
                  " is missing");
  if (given.secret_key.empty())
    return failed(origin + ": " + names.access_key + " is given, " + names.secret_key +
                  " is missing");
  if (const auto problem = unusable_field(given)) return failed(origin + ": " + *problem);
  return Expected(ResolvedCredentials{std::move(given), origin});
}

/// One look at the environment: no variable is empty.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}
  [[nodiscard]] std::string operator()(const char* name) const {
    return environment_ ? environment_(name).value_or("") : std::string();
  }

 private:
  const Environment& environment_;
};

Found from_configuration(const CredentialSources& sources) {
  const std::string origin = "the configuration";
  const bool has_key = !sources.access_key.empty() || !sources.secret_key.empty();
  if (!has_key && !sources.session_token.empty())
    return failed(origin + ": session_token is given, access_key and secret_key are missing");
  const bool has_file = !sources.profile.empty() || !sources.credentials_file.empty();
  if (has_key && has_file)
    return failed(origin + ": access_key and " +
                  (sources.profile.empty() ? "credentials_file" : "profile") +
                  " exclude each other");
  return from_pair({sources.access_key, sources.secret_key, sources.session_token, {}}, origin,
                   {"access_key", "secret_key"});
}

Found from_environment(const Variables& variable) {
  return from_pair({variable("AWS_ACCESS_KEY_ID"),
                    variable("AWS_SECRET_ACCESS_KEY"),
                    variable("AWS_SESSION_TOKEN"),
                    {}},
                   "the environment", {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"});
}

Found from_web_identity(const Variables& variable) {
  WebIdentity identity{variable("AWS_WEB_IDENTITY_TOKEN_FILE"), variable("AWS_ROLE_ARN"),
                       variable("AWS_ROLE_SESSION_NAME")};
  // A role alone is nothing: other ways to assume one have the same variable.
  if (identity.token_file.empty()) return std::nullopt;
  if (identity.role_arn.empty())
    return failed("the environment: AWS_WEB_IDENTITY_TOKEN_FILE is given, AWS_ROLE_ARN is missing");
  if (identity.session_name.empty()) identity.session_name = "kv_offload";
  std::string origin = "the web identity token " + log_text(identity.token_file, 1024);
  return Expected(ResolvedCredentials{std::move(identity), std::move(origin)});
}

struct SharedFile {
  std::string path;  ///< empty: nobody says where it is
  std::string profile;
};

SharedFile shared_file(const CredentialSources& sources, const Variables& variable) {
  SharedFile file{sources.credentials_file, sources.profile};
  const std::string home = variable("HOME");
  if (file.path.empty()) file.path = variable("AWS_SHARED_CREDENTIALS_FILE");
  if (file.path.empty() && !home.empty()) file.path = home + "/.aws/credentials";
  if (file.path.starts_with("~/") && !home.empty()) file.path.replace(0, 1, home);
  if (file.profile.empty()) file.profile = variable("AWS_PROFILE");
  if (file.profile.empty()) file.profile = "default";
  return file;
}

Expected<ResolvedCredentials> from_shared_file(const SharedFile& file,
                                               const std::string& looked_at) {
  const std::string name = log_text(file.path, 1024);
  const std::string profile = "profile \"" + log_text(file.profile, 128) + "\"";
  if (file.path.empty())
    return {OffloadErrc::invalid_config,
            "no credentials: " + looked_at + profile +
                " of the shared file (neither AWS_SHARED_CREDENTIALS_FILE nor HOME is set)"};
  const auto text = read_small_file(file.path);
  if (!text)
    return {OffloadErrc::invalid_config, "no credentials: " + looked_at + profile +
                                             " of the shared file (" +
                                             log_text(text.error().detail, 1024) + ")"};
  if (!*text)
    return {OffloadErrc::invalid_config,
            "no credentials: " + looked_at + profile + " of " + name + " (the file is not there)"};
  auto credentials = parse_shared_credentials(**text, file.profile, name);
  if (!credentials)
    return {OffloadErrc::invalid_config,
            "no credentials: " + looked_at + credentials.error().detail};
  return ResolvedCredentials{*std::move(credentials), profile + " of " + name};
}

}  // namespace

Expected<ResolvedCredentials> resolve_credentials(const CredentialSources& sources,
                                                  const Environment& environment) {
  const Variables variable(environment);
  if (auto found = from_configuration(sources)) return *std::move(found);
  if (!sources.profile.empty() || !sources.credentials_file.empty())
    return from_shared_file(shared_file(sources, variable), "looked at ");
  if (auto found = from_environment(variable)) return *std::move(found);
  if (auto found = from_web_identity(variable)) return *std::move(found);
  return from_shared_file(
      shared_file(sources, variable),
      "looked at the configuration (access_key, profile, credentials_file), the "
      "environment (AWS_ACCESS_KEY_ID, AWS_WEB_IDENTITY_TOKEN_FILE) and ");
}

std::string web_identity_form(const WebIdentity& identity, std::string_view token) {
  return "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=" +
         uri_encode(identity.role_arn, false) +
         "&RoleSessionName=" + uri_encode(identity.session_name, false) +
         "&WebIdentityToken=" + uri_encode(trimmed(token), false);
}

}  // namespace kv_offload
