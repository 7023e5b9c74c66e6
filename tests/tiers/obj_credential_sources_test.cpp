#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tiers/obj/credential_sources.hpp"

#include <catch2/catch.hpp>

#include <map>
#include <string>
#include <sys/stat.h>

namespace kv_offload {
namespace {

using test::TierDirectory;
using test::write_file;

/// A home with a shared file, and an environment in it.
class Home {
 public:
  Home() { variables["HOME"] = directory.path(); }

  [[nodiscard]] std::string path(const std::string& name) const {
    return directory.path() + "/" + name;
  }
  void write_profile(const std::string& file, const std::string& profile, const std::string& key) {
    write_file(path(file), "[" + profile + "]\naws_access_key_id = " + key +
                               "\naws_secret_access_key = secret\n");
  }
  [[nodiscard]] Expected<ResolvedCredentials> resolve() const {
    return resolve_credentials(sources, [this](const std::string& name) {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
  }
  [[nodiscard]] ResolvedCredentials good() const {
    auto found = resolve();
    INFO((found ? "" : found.error().detail));
    REQUIRE(found);
    return *found;
  }
  [[nodiscard]] std::string access_key() const {
    const auto found = good();
    const auto* keys = std::get_if<AwsCredentials>(&found.value);
    return keys == nullptr ? "(web identity)" : keys->access_key;
  }
  [[nodiscard]] std::string error() const {
    const auto found = resolve();
    if (!found) CHECK(found.error().code == OffloadErrc::invalid_config);
    return found ? "(none)" : found.error().detail;
  }

  TierDirectory directory;
  CredentialSources sources;
  std::map<std::string, std::string> variables;
};

TEST_CASE("each source is asked where those before it are silent", "[obj][credentials]") {
  Home home;
  home.write_profile(".aws/credentials", "default", "of-the-file");
  CHECK(home.access_key() == "of-the-file");
  CHECK(home.good().origin == "profile \"default\" of " + home.path(".aws/credentials"));

  home.variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/token";
  home.variables["AWS_ROLE_ARN"] = "arn:aws:iam::1:role/r";
  CHECK(home.access_key() == "(web identity)");
  CHECK(home.good().origin == "the web identity token /token");

  home.variables["AWS_ACCESS_KEY_ID"] = "of-the-environment";
  home.variables["AWS_SECRET_ACCESS_KEY"] = "s";
  CHECK(home.access_key() == "of-the-environment");
  CHECK(home.good().origin == "the environment");

  home.sources.access_key = "of-the-configuration";
  home.sources.secret_key = "s";
  CHECK(home.access_key() == "of-the-configuration");
  CHECK(home.good().origin == "the configuration");
}

TEST_CASE("keys come with the secret and the token of their own source", "[obj][credentials]") {
  Home home;
  home.variables = {
      {"AWS_ACCESS_KEY_ID", "k"}, {"AWS_SECRET_ACCESS_KEY", "s"}, {"AWS_SESSION_TOKEN", "t"}};
  const auto of_environment = std::get<AwsCredentials>(home.good().value);
  CHECK(of_environment.secret_key == "s");
  CHECK(of_environment.session_token == "t");
  home.sources.access_key = "k2";
  home.sources.secret_key = "s2";
  const auto of_configuration = std::get<AwsCredentials>(home.good().value);
  CHECK(of_configuration.secret_key == "s2");
  CHECK(of_configuration.session_token.empty());
}

TEST_CASE("half a pair is an error that names the other half", "[obj][credentials]") {
  Home home;
  home.write_profile(".aws/credentials", "default", "k");
  SECTION("secret_key") {
    home.sources.access_key = "SECRET";
    CHECK(home.error() == "the configuration: access_key is given, secret_key is missing");
  }
  SECTION("access_key") {
    home.sources.secret_key = "SECRET";
    CHECK(home.error() == "the configuration: secret_key is given, access_key is missing");
  }
  SECTION("both, beside a token") {
    home.sources.session_token = "SECRET";
    CHECK(home.error() ==
          "the configuration: session_token is given, access_key and secret_key are missing");
  }
  SECTION("AWS_SECRET_ACCESS_KEY") {
    home.variables["AWS_ACCESS_KEY_ID"] = "SECRET";
    CHECK(home.error() ==
          "the environment: AWS_ACCESS_KEY_ID is given, AWS_SECRET_ACCESS_KEY is missing");
  }
  SECTION("AWS_ACCESS_KEY_ID") {
    home.variables["AWS_SECRET_ACCESS_KEY"] = "SECRET";
    CHECK(home.error() ==
          "the environment: AWS_SECRET_ACCESS_KEY is given, AWS_ACCESS_KEY_ID is missing");
  }
  SECTION("AWS_ROLE_ARN") {
    home.variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/token";
    CHECK(home.error() ==
          "the environment: AWS_WEB_IDENTITY_TOKEN_FILE is given, AWS_ROLE_ARN is missing");
  }
}

TEST_CASE("an empty variable is not set", "[obj][credentials]") {
  Home home;
  home.write_profile(".aws/credentials", "default", "of-the-file");
  for (const char* name :
       {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
        "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE"})
    home.variables[name] = "";
  CHECK(home.access_key() == "of-the-file");
}

TEST_CASE("a role without a token is not a web identity", "[obj][credentials]") {
  Home home;
  home.write_profile(".aws/credentials", "default", "of-the-file");
  home.variables["AWS_ROLE_ARN"] = "arn:aws:iam::1:role/r";
  CHECK(home.access_key() == "of-the-file");
}

TEST_CASE("the web identity has the name of the session or one of ours", "[obj][credentials]") {
  Home home;
  home.variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/token";
  home.variables["AWS_ROLE_ARN"] = "arn";
  const auto unnamed = std::get<WebIdentity>(home.good().value);
  CHECK(unnamed.token_file == "/token");
  CHECK(unnamed.role_arn == "arn");
  CHECK(unnamed.session_name == "kv_offload");
  home.variables["AWS_ROLE_SESSION_NAME"] = "pod-1";
  CHECK(std::get<WebIdentity>(home.good().value).session_name == "pod-1");
}

TEST_CASE("which file and which profile is said by the configuration, then by the environment",
          "[obj][credentials]") {
  Home home;
  home.write_profile(".aws/credentials", "default", "home-default");
  home.write_profile("env", "default", "env-default");
  home.variables["AWS_SHARED_CREDENTIALS_FILE"] = home.path("env");
  CHECK(home.access_key() == "env-default");
  home.variables["AWS_SHARED_CREDENTIALS_FILE"] = "~/env";
  CHECK(home.access_key() == "env-default");
  home.write_profile("env", "p", "env-p");
  home.variables["AWS_PROFILE"] = "p";
  CHECK(home.access_key() == "env-p");
  home.write_profile("given", "p", "given-p");
  home.sources.credentials_file = home.path("given");
  CHECK(home.access_key() == "given-p");
  home.write_profile("given", "q", "given-q");
  home.sources.profile = "q";
  CHECK(home.access_key() == "given-q");
  CHECK(home.good().origin == "profile \"q\" of " + home.path("given"));
}

TEST_CASE("where the configuration names a profile or a file, nothing else is looked at",
          "[obj][credentials]") {
  Home home;
  home.variables["AWS_ACCESS_KEY_ID"] = "of-the-environment";
  home.variables["AWS_SECRET_ACCESS_KEY"] = "s";
  home.sources.profile = "p";
  CHECK(home.error() == "no credentials: looked at profile \"p\" of " +
                            home.path(".aws/credentials") + " (the file is not there)");
  home.write_profile(".aws/credentials", "p", "of-the-file");
  CHECK(home.access_key() == "of-the-file");
  home.sources.profile.clear();
  home.sources.credentials_file = home.path(".aws/credentials");
  CHECK(home.error() == "no credentials: looked at " + home.path(".aws/credentials") +
                            ": profile \"default\" is not there");
}

TEST_CASE("keys and a profile in one configuration exclude each other", "[obj][credentials]") {
  Home home;
  home.sources.access_key = "SECRET";
  home.sources.secret_key = "SECRET";
  home.sources.profile = "p";
  CHECK(home.error() == "the configuration: access_key and profile exclude each other");
  home.sources.profile.clear();
  home.sources.credentials_file = "f";
  CHECK(home.error() == "the configuration: access_key and credentials_file exclude each other");
}

TEST_CASE("where nothing is found, everything that was looked at is named", "[obj][credentials]") {
  const std::string looked_at =
      "no credentials: looked at the configuration (access_key, profile, credentials_file), the "
      "environment (AWS_ACCESS_KEY_ID, AWS_WEB_IDENTITY_TOKEN_FILE) and ";
  Home home;
  CHECK(home.error() == looked_at + "profile \"default\" of " + home.path(".aws/credentials") +
                            " (the file is not there)");
  home.write_profile(".aws/credentials", "other", "k");
  CHECK(home.error() ==
        looked_at + home.path(".aws/credentials") + ": profile \"default\" is not there");
  home.variables.clear();
  CHECK(home.error() == looked_at +
                            "profile \"default\" of the shared file (neither "
                            "AWS_SHARED_CREDENTIALS_FILE nor HOME is set)");
  CHECK_FALSE(resolve_credentials({}, nullptr));
}

TEST_CASE("what is no small file is not read as the shared file", "[obj][credentials]") {
  Home home;
  const std::string pipe = home.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  home.sources.credentials_file = pipe;
  CHECK(home.error() == "no credentials: looked at profile \"default\" of the shared file (" +
                            pipe + ": is not a regular file)");
  home.sources.credentials_file = home.directory.path();
  CHECK(home.error().find("is not a regular file") != std::string::npos);
  write_file(home.path("large"), std::string((1U << 20) + 1, '#'));
  home.sources.credentials_file = home.path("large");
  CHECK(home.error().find("expected at most 1 MiB") != std::string::npos);
}

TEST_CASE("keys that no header can carry are refused, with the source and the field",
          "[obj][credentials]") {
  Home home;
  home.variables["AWS_ACCESS_KEY_ID"] = "k";
  home.variables["AWS_SECRET_ACCESS_KEY"] = "a b";
  const std::string reason = "has a space, a control character or one that is not ASCII";
  CHECK(home.error() == "the environment: secret_key: " + reason);
  home.sources.access_key = "k\r\nx-evil: 1";
  home.sources.secret_key = "s";
  CHECK(home.error() == "the configuration: access_key: " + reason);
}

TEST_CASE("no error and no origin has a secret", "[obj][credentials]") {
  Home home;
  const auto check = [&] {
    const auto found = home.resolve();
    const std::string text = found ? found->origin : found.error().detail;
    CAPTURE(text);
    CHECK(text.find("SEC") == std::string::npos);
  };
  home.sources = {"SEC", "SEC\n", "SEC", "", ""};
  check();
  home.sources = {"SEC", "SEC", "SEC RET", "", ""};
  check();
  home.sources = {"SEC", "SEC", "SEC", "", ""};
  check();
  home.sources = {};
  home.variables["AWS_ACCESS_KEY_ID"] = "SEC RET";
  home.variables["AWS_SECRET_ACCESS_KEY"] = "SEC";
  check();
  home.variables["AWS_ACCESS_KEY_ID"] = "SEC";
  check();
  home.variables = {{"HOME", home.directory.path()}};
  write_file(home.path(".aws/credentials"), "[default]\naws_access_key_id = SEC\nSEC==\n");
  check();
}

TEST_CASE("the exchange for a role is a form of five fields", "[obj][credentials]") {
  const WebIdentity identity{"/token", "arn:aws:iam::1:role/r", "pod 1&x=y"};
  CHECK(web_identity_form(identity, "\n eyJh.b-c_d~+/= \r\n") ==
        "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole"
        "%2Fr&RoleSessionName=pod%201%26x%3Dy&WebIdentityToken=eyJh.b-c_d~%2B%2F%3D");
  CHECK(web_identity_form(identity, " \n").ends_with("&WebIdentityToken="));
}

}  // namespace
}  // namespace kv_offload
