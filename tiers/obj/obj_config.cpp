#include "kv_offload/tiers/obj/obj_config.hpp"

#include "kv_offload/messages/byte_size.hpp"
#include "kv_offload/tiers/checksum_config.hpp"
#include "kv_offload/tiers/locality_config.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

namespace kv_offload {

namespace {

constexpr std::int64_t kMillisecondsMax = 3'600'000;
constexpr const char* kSecrets[] = {"access_key", "secret_key", "session_token"};

bool is_visible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

/// A text whose value no message may show.
std::string read_secret(ConfigReader& reader, const std::string& key) {
  const ConfigNode* node = reader.child(key);
  if (node == nullptr || node->is_null()) return {};
  const auto* text = std::get_if<std::string>(&node->value());
  if (text != nullptr && is_visible(*text) && text->size() <= 8192) return *text;
  reader.fail(reader.path_of(key) + ": not usable (its value is not shown); expected a string of visible ASCII "
                                    "characters without spaces");
  return {};
}

/// Optional keys of the public layout may be null or empty.
std::string read_text(ConfigReader& reader, const std::string& key) {
  const ConfigNode* node = reader.child(key);
  if (node == nullptr || node->is_null()) return {};
  return reader.string(key, "");
}

Duration read_ms(ConfigReader& reader, const std::string& key, Duration fallback, std::int64_t min = 1) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(fallback).count();
  return std::chrono::milliseconds(reader.integer(key, ms, min, kMillisecondsMax));
}

std::uint32_t read_count(ConfigReader& reader, const std::string& key, std::uint32_t fallback,
                         std::int64_t min, std::int64_t max) {
  return static_cast<std::uint32_t>(reader.integer(key, fallback, min, max));
}

/// What AWS allows, which others allow at least.
bool is_bucket_name(std::string_view name) {
  if (name.size() < 3 || name.size() > 63) return false;
  const auto is_end = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const auto is_inner = [&](char c) {
    return is_end(c) || c == '-' || c == '.' || c == '_' || (c >= 'A' && c <= 'Z');
  };
  return std::all_of(name.begin(), name.end(), is_inner) && name.front() != '.' && name.front() != '-' &&
         name.back() != '.' && name.back() != '-';
}

bool is_port(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size() && port >= 1 && port <= 65535;
}

bool is_address(std::string_view host) {
  return host.starts_with('[') || host.find_first_not_of("0123456789.:") == std::string_view::npos;
}

/// "name", "1.2.3.4" or "[1::2]", and maybe ":port".
bool is_host(std::string_view host) {
  if (host.size() > 255) return false;
  std::size_t end = host.find(':');
  if (host.starts_with('[')) {
    end = host.find(']');
    if (end == std::string_view::npos || end < 3) return false;
    if (host.substr(1, end - 1).find_first_not_of("0123456789abcdefABCDEF:.") !=
        std::string_view::npos)
      return false;
    ++end;
  } else {
    const std::string_view name = host.substr(0, end);
    const auto is_inner = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '.' || c == '-' || c == '_';
    };
    if (name.empty() || name.starts_with('-') || !std::all_of(name.begin(), name.end(), is_inner))
      return false;
  }
  if (end >= host.size()) return true;
  return host[end] == ':' && is_port(host.substr(end + 1));
}

/// What libcurl takes, so far as it can be told before.
bool is_proxy(std::string_view proxy) {
  const auto mark = proxy.find("://");
  if (mark != std::string_view::npos) {
    const std::string_view scheme = proxy.substr(0, mark);
    constexpr std::string_view kSchemes[] = {"http",    "https",  "socks4",
                                             "socks4a", "socks5", "socks5h"};
    if (std::find(std::begin(kSchemes), std::end(kSchemes), scheme) == std::end(kSchemes))
      return false;
    proxy.remove_prefix(mark + 3);
  }
  while (proxy.ends_with('/')) proxy.remove_suffix(1);
  const auto at = proxy.rfind('@');
  if (at != std::string_view::npos &&
      proxy.substr(0, at).find_first_of("/?#@") != std::string_view::npos)
    return false;
  return is_host(at == std::string_view::npos ? proxy : proxy.substr(at + 1));
}

/// "[scheme://]host[:port][/]". A path behind it would not be signed as it is sent.
void read_endpoint(ConfigReader& reader, const std::string& key, std::string endpoint,
                   const std::string& scheme, S3Place& place) {
  place.scheme = scheme;
  for (const char* known : {"http", "https"}) {
    const std::string start = std::string(known) + "://";
    if (!endpoint.starts_with(start)) continue;
    place.scheme = known;
    endpoint.erase(0, start.size());
    break;
  }
  while (endpoint.ends_with('/')) endpoint.pop_back();
  place.host = std::move(endpoint);
  if (!is_host(place.host))
    reader.fail(reader.path_of(key) +
                ": not usable; expected [http://|https://]host[:port] with a port of 1 to 65535 "
                "and without a path");
  // As the store computes its signature: HTTP clients leave the scheme's own port out of "Host".
  const std::string own_port = place.scheme == "https" ? ":443" : ":80";
  if (place.host.ends_with(own_port)) place.host.resize(place.host.size() - own_port.size());
}

void read_store(ConfigReader& reader, const Environment& environment, ObjConfig& config) {
  S3Place& place = config.place;
  if (!reader.has("bucket"))
    reader.fail(reader.path_of("bucket") + ": required, the name of a bucket that exists");
  place.bucket = reader.string("bucket", "");
  if (!is_bucket_name(place.bucket))
    reader.fail(reader.path_of("bucket") + ": \"" + place.bucket.substr(0, 80) +
                "\" is not allowed; expected the name of a bucket, 3 to 63 letters, digits, '-', '.' or '_'");
  place.region = read_text(reader, "region");
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"})
    if (place.region.empty()) place.region = environment(name).value_or("");
  if (place.region.empty()) place.region = "us-east-1";
  if (!is_visible(place.region) || place.region.size() > 64 || place.region.find('/') != std::string::npos)
    reader.fail(reader.path_of("region") + ": not usable; expected a name such as us-east-1");

  std::string endpoint = read_text(reader, "endpoint_override");
  const bool is_given = !endpoint.empty();
  if (!is_given) endpoint = environment("AWS_ENDPOINT_URL_S3").value_or(environment("AWS_ENDPOINT_URL").value_or(""));
  const bool is_aws = endpoint.empty();
  if (is_aws) endpoint = "s3." + place.region + ".amazonaws.com";
  const std::string scheme = reader.choice("scheme", is_aws ? "https" : "http", {"http", "https"});
  read_endpoint(reader, "endpoint_override", endpoint, scheme, place);
  place.virtual_host =
      reader.choice("addressing", is_aws ? "virtual" : "path", {"path", "virtual"}) == "virtual";
  if (place.virtual_host && place.scheme == "https" && place.bucket.find('.') != std::string::npos)
    reader.fail(reader.path_of("addressing") + ": \"virtual\" is not allowed with a dot in the bucket's name: no "
                                               "certificate covers it; expected \"path\"");

  if (place.virtual_host && is_address(place.host))
    reader.fail(reader.path_of("addressing") + ": \"virtual\" is not allowed with the address " +
                place.host + ": no name can stand before it; expected \"path\"");

  CredentialSources& sources = config.credentials;
  sources.access_key = read_secret(reader, "access_key");
  sources.secret_key = read_secret(reader, "secret_key");
  sources.session_token = read_secret(reader, "session_token");
  sources.profile = read_text(reader, "profile");
  sources.credentials_file = read_text(reader, "credentials_file");
  if (sources.access_key.empty() != sources.secret_key.empty())
    reader.fail(reader.path_of(sources.access_key.empty() ? "access_key" : "secret_key") +
                ": missing; expected both access_key and secret_key, or neither of them");
  else if (!sources.session_token.empty() && sources.access_key.empty())
    reader.fail(reader.path_of("session_token") + ": is of no use without access_key and secret_key");
  else if (!sources.access_key.empty() && !(sources.profile + sources.credentials_file).empty())
    reader.fail(reader.path_of(sources.profile.empty() ? "credentials_file" : "profile") +
                ": not allowed beside access_key; expected one of them");

  config.sts_endpoint = read_text(reader, "sts_endpoint");
  if (!config.sts_endpoint.empty()) {
    S3Place sts;
    read_endpoint(reader, "sts_endpoint", config.sts_endpoint, "https", sts);
    config.sts_endpoint = sts.scheme + "://" + sts.host + "/";
  }
  config.ca_bundle = read_text(reader, "ca_bundle");
  if (config.ca_bundle.empty()) config.ca_bundle = environment("AWS_CA_BUNDLE").value_or("");
  config.insecure_skip_verify = reader.boolean("insecure_skip_verify", false);
  // May hold a password.
  config.proxy = read_secret(reader, "proxy");
  if (!config.proxy.empty() && !is_proxy(config.proxy))
    reader.fail(
        reader.path_of("proxy") +
        ": not usable (its value is not shown); expected "
        "[http://|https://|socks4://|socks5://|socks5h://][user:password@]host[:port], special "
        "characters of user and password percent-encoded");
}

void read_retry(ConfigReader& reader, ObjConfig& config) {
  S3RetryOptions& retry = config.retry;
  retry.attempts = read_count(reader, "attempts", retry.attempts, 1, 100);
  retry.base = read_ms(reader, "base_ms", retry.base);
  retry.max = read_ms(reader, "max_ms", retry.max);
  retry.budget_share = reader.number("budget_share", retry.budget_share, 0, 1);
  retry.budget_burst = read_count(reader, "budget_burst", retry.budget_burst, 0, 1 << 20);
}

void read_breaker(ConfigReader& reader, ObjConfig& config) {
  S3BreakerOptions& breaker = config.breaker;
  breaker.failures = read_count(reader, "failures", breaker.failures, 0, 1 << 20);
  breaker.open = read_ms(reader, "open_ms", breaker.open);
  breaker.open_max = read_ms(reader, "open_max_ms", std::max(breaker.open, breaker.open_max));
}

/// Reads an object of its own below `key`; its errors become those of `reader`.
template <class Read>
void read_section(ConfigReader& reader, const std::string& key, Read read) {
  const ConfigNode* node = reader.child(key);
  if (node == nullptr) return;
  ConfigReader section(*node, reader.path_of(key));
  read(section);
  if (const auto error = section.finish()) reader.fail(error->detail);
}

}  // namespace

Expected<ObjConfig> parse_obj_config(const ConfigNode& node, const std::string& path,
                                     std::uint64_t row_bytes, const Environment& environment) {
  ConfigReader reader(node, path);
  for (const char* key : {"type", "backpressure", "pin_share", "label"}) reader.child(key);
  ObjConfig config;
  // What stands there instead may be a secret in the wrong place.
  if (const ConfigNode* store = reader.child("store_config"); store == nullptr || store->object() == nullptr) {
    reader.fail(reader.path_of("store_config") + ": required, an object with at least \"bucket\"");
    return *reader.finish();
  }
  read_section(reader, "store_config", [&](ConfigReader& r) { read_store(r, environment, config); });
  config.prefix = read_text(reader, "prefix");
  // Some stores cannot delete a name with a control character: XML has no way to say it.
  const bool has_control = std::any_of(config.prefix.begin(), config.prefix.end(),
                                       [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (config.prefix.size() > 512 || has_control)
    reader.fail(reader.path_of("prefix") + ": not usable; expected at most 512 bytes without control characters");
  config.locality = read_locality(reader);
  config.enable_kv_events = reader.boolean("enable_kv_events", false);
  config.refuse_foreign = reader.choice("foreign_files", "refuse", {"refuse", "accept"}) == "refuse";
  config.checksum = read_checksum(reader);
  config.if_none_match = reader.boolean("if_none_match", false);
  config.start_unreachable = reader.boolean("start_unreachable", false);
  config.max_inflight = read_count(reader, "max_inflight", config.max_inflight, 1, 1024);
  config.max_probes = read_count(reader, "max_probes", config.max_probes, 1, 1024);
  config.connect_timeout = read_ms(reader, "connect_timeout_ms", config.connect_timeout);
  config.probe_timeout = read_ms(reader, "probe_timeout_ms", config.probe_timeout);
  config.request_timeout = read_ms(reader, "request_timeout_ms", config.request_timeout);
  read_section(reader, "retry", [&](ConfigReader& r) { read_retry(r, config); });
  read_section(reader, "breaker", [&](ConfigReader& r) { read_breaker(r, config); });
  config.existence = reader.choice("existence", "head", {"head", "manifest"}) == "manifest"
                         ? ObjExistence::manifest
                         : ObjExistence::head;
  config.manifest_keys_max = read_count(reader, "manifest_keys_max", config.manifest_keys_max, 1, 1 << 28);
  config.manifest_refresh = read_ms(reader, "manifest_refresh_ms", config.manifest_refresh, 100);
  config.verdicts_max = read_count(reader, "verdicts_max", config.verdicts_max, 1, 1 << 26);
  config.positive_ttl = read_ms(reader, "positive_ttl_ms", config.positive_ttl, 0);
  config.negative_ttl = read_ms(reader, "negative_ttl_ms", config.negative_ttl, 0);
  if (reader.has("capacity_bytes"))
    config.capacity_bytes =
        read_bytes(reader, "capacity_bytes", 0, std::max<std::uint64_t>(row_bytes, 4096), kObjCapacityMax,
                   ": at least one chunk");
  for (const char* key : {"io_threads", "n_read_threads", "n_write_threads"}) {
    if (reader.has(key)) config.without_effect.emplace_back(key);
    reader.integer(key, 4, 1, 1 << 16);
  }
  if (auto error = reader.finish()) return *error;
  return config;
}

std::optional<std::string> process_environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

Expected<ObjConfig> parse_obj_config(const ConfigNode& node, const std::string& path, std::uint64_t row_bytes) {
  return parse_obj_config(node, path, row_bytes, process_environment);
}

void hide_obj_secrets(ConfigNode& node) {
  ConfigNode::Object* keys = node.object();
  if (keys == nullptr) return;
  const auto store = keys->find("store_config");
  if (store == keys->end()) return;
  ConfigNode::Object* const inner = store->second.object();
  if (inner == nullptr) {
    keys->erase(store);  // not what it should be: nobody knows what is in it
    return;
  }
  for (const char* secret : kSecrets)
    if (const auto it = inner->find(secret); it != inner->end()) it->second = ConfigNode(std::string("(not shown)"));
  if (const auto it = inner->find("proxy"); it != inner->end()) it->second = ConfigNode(std::string("(not shown)"));
}

}  // namespace kv_offload
