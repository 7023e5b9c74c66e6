#include "kv_offload/tiers/obj/obj_config.hpp"

#include <catch2/catch.hpp>

#include <map>
#include <string>
#include <vector>

namespace kv_offload {
namespace {

using namespace std::chrono_literals;
using Object = ConfigNode::Object;
using Variables = std::map<std::string, std::string>;

const ConfigNode kNull{ConfigNode::Value(nullptr)};
ConfigNode text(std::string value) { return ConfigNode(std::move(value)); }
ConfigNode number(std::int64_t value) { return ConfigNode(value); }

/// A tier's entry that is right, with `key` ("a" or "a.b") set.
struct Entry {
  Entry() {
    keys.emplace("type", text("obj"));
    keys.emplace("store_config", ConfigNode(Object{{"bucket", text("kv-cache")}}));
  }
  Entry& with(const std::string& key, ConfigNode value) {
    const auto dot = key.find('.');
    Object* in = &keys;
    if (dot != std::string::npos) {
      in = keys.try_emplace(key.substr(0, dot), ConfigNode(Object{})).first->second.object();
    }
    (*in)[dot == std::string::npos ? key : key.substr(dot + 1)] = std::move(value);
    return *this;
  }
  [[nodiscard]] Expected<ObjConfig> parse(const Variables& variables = {},
                                          std::uint64_t row_bytes = 0) const {
    return parse_obj_config(ConfigNode(keys), "secondary_tiers[1]", row_bytes,
                            [&](const std::string& name) -> std::optional<std::string> {
                              const auto at = variables.find(name);
                              return at == variables.end() ? std::nullopt
                                                           : std::optional(at->second);
                            });
  }
  [[nodiscard]] std::string error(const Variables& variables = {},
                                  std::uint64_t row_bytes = 0) const {
    const auto config = parse(variables, row_bytes);
    REQUIRE_FALSE(config);
    CHECK(config.error().code == OffloadErrc::invalid_config);
    CHECK(config.error().detail.find('\n') == std::string::npos);
    return config.error().detail;
  }
  Object keys;
};

TEST_CASE("only a bucket is required of an obj tier", "[obj][config]") {
  const auto config = Entry().parse();
  REQUIRE(config);
  CHECK(config->place.bucket == "kv-cache");
  CHECK(config->place.host == "s3.us-east-1.amazonaws.com");
  CHECK(config->place.scheme == "https");
  CHECK(config->place.virtual_host);
  CHECK(config->place.region == "us-east-1");
  CHECK(config->prefix.empty());
  CHECK(config->refuse_foreign);
  CHECK(config->checksum);
  CHECK_FALSE(config->enable_kv_events);
  CHECK_FALSE(config->if_none_match);
  CHECK_FALSE(config->start_unreachable);
  CHECK_FALSE(config->insecure_skip_verify);
  CHECK(config->max_inflight == 16);
  CHECK(config->max_probes == 32);
  CHECK(config->retry.attempts == 4);
  CHECK(config->breaker.failures == 8);
  CHECK(config->existence == ObjExistence::head);
  CHECK_FALSE(config->capacity_bytes.has_value());
  CHECK_FALSE(config->locality.has_value());
  CHECK(config->credentials.access_key.empty());
  CHECK(config->without_effect.empty());
}

TEST_CASE("every key of an obj tier is read", "[obj][config]") {
  const auto config =
      Entry()
          .with("store_config.endpoint_override", text("https://store.example:9000/"))
          .with("store_config.region", text("eu-1"))
          .with("store_config.access_key", text("AK"))
          .with("store_config.secret_key", text("SK"))
          .with("store_config.session_token", text("ST"))
          .with("store_config.ca_bundle", text("/ca.pem"))
          .with("store_config.insecure_skip_verify", ConfigNode(true))
          .with("store_config.proxy", text("http://u:p@proxy:1"))
          .with("store_config.sts_endpoint", text("http://sts.example:80"))
          .with("store_config.addressing", text("virtual"))
          .with("prefix", text("a/b"))
          .with("locality", text("REMOTE"))
          .with("enable_kv_events", ConfigNode(true))
          .with("foreign_files", text("accept"))
          .with("checksum", text("off"))
          .with("if_none_match", ConfigNode(true))
          .with("start_unreachable", ConfigNode(true))
          .with("max_inflight", number(1024))
          .with("max_probes", number(1))
          .with("connect_timeout_ms", number(1))
          .with("probe_timeout_ms", number(2))
          .with("request_timeout_ms", number(3'600'000))
          .with("retry.attempts", number(1))
          .with("retry.base_ms", number(7))
          .with("retry.max_ms", number(8))
          .with("retry.budget_share", ConfigNode(1.0))
          .with("retry.budget_burst", number(0))
          .with("breaker.failures", number(0))
          .with("breaker.open_ms", number(9))
          .with("breaker.open_max_ms", number(10))
          .with("existence", text("manifest"))
          .with("manifest_keys_max", number(5))
          .with("manifest_refresh_ms", number(100))
          .with("verdicts_max", number(6))
          .with("positive_ttl_ms", number(0))
          .with("negative_ttl_ms", number(1))
          .with("capacity_bytes", number(1 << 20))
          .with("io_threads", number(4))
          .parse();
  REQUIRE(config);
  CHECK(config->place.host == "store.example:9000");
  CHECK(config->place.scheme == "https");
  CHECK(config->place.virtual_host);
  CHECK(config->place.region == "eu-1");
  CHECK(config->credentials.access_key == "AK");
  CHECK(config->credentials.secret_key == "SK");
  CHECK(config->credentials.session_token == "ST");
  CHECK(config->ca_bundle == "/ca.pem");
  CHECK(config->insecure_skip_verify);
  CHECK(config->proxy == "http://u:p@proxy:1");
  CHECK(config->sts_endpoint == "http://sts.example/");
  CHECK(config->prefix == "a/b");
  CHECK(config->locality == Locality::remote);
  CHECK(config->enable_kv_events);
  CHECK_FALSE(config->refuse_foreign);
  CHECK_FALSE(config->checksum);
  CHECK(config->if_none_match);
  CHECK(config->start_unreachable);
  CHECK(config->max_inflight == 1024);
  CHECK(config->max_probes == 1);
  CHECK(config->connect_timeout == 1ms);
  CHECK(config->probe_timeout == 2ms);
  CHECK(config->request_timeout == 1h);
  CHECK(config->retry.attempts == 1);
  CHECK(config->retry.base == 7ms);
  CHECK(config->retry.max == 8ms);
  CHECK(config->retry.budget_share == 1.0);
  CHECK(config->retry.budget_burst == 0);
  CHECK(config->breaker.failures == 0);
  CHECK(config->breaker.open == 9ms);
  CHECK(config->breaker.open_max == 10ms);
  CHECK(config->existence == ObjExistence::manifest);
  CHECK(config->manifest_keys_max == 5);
  CHECK(config->manifest_refresh == 100ms);
  CHECK(config->verdicts_max == 6);
  CHECK(config->positive_ttl == 0ms);
  CHECK(config->negative_ttl == 1ms);
  CHECK(config->capacity_bytes == 1U << 20);
  CHECK(config->without_effect == std::vector<std::string>{"io_threads"});
}

TEST_CASE("an endpoint has the forms in which people write it", "[obj][config]") {
  const auto place = [](const std::string& endpoint, const std::string& scheme = "") {
    Entry entry;
    entry.with("store_config.endpoint_override", text(endpoint));
    if (!scheme.empty()) entry.with("store_config.scheme", text(scheme));
    return to_string(entry.parse()->place);
  };
  CHECK(place("host:9000") == "http://host:9000/kv-cache");
  CHECK(place("host:9000", "https") == "https://host:9000/kv-cache");
  CHECK(place("https://host") == "https://host/kv-cache");
  CHECK(place("https://host", "http") == "https://host/kv-cache");  // what the endpoint says itself
  CHECK(place("http://host:80///") == "http://host/kv-cache");      // as it is signed
  CHECK(place("https://host:443") == "https://host/kv-cache");
  CHECK(place("https://host:80") == "https://host:80/kv-cache");
  CHECK(place("[::1]:9000") == "http://[::1]:9000/kv-cache");
}

TEST_CASE("what is not given comes from the environment", "[obj][config]") {
  const Variables variables = {{"AWS_REGION", "r-1"},
                               {"AWS_DEFAULT_REGION", "r-2"},
                               {"AWS_CA_BUNDLE", "/ca"},
                               {"AWS_ENDPOINT_URL", "http://all:1"},
                               {"AWS_ENDPOINT_URL_S3", "http://s3:2"}};
  const auto config = Entry().parse(variables);
  REQUIRE(config);
  CHECK(config->place.region == "r-1");
  CHECK(config->place.host == "s3:2");
  CHECK_FALSE(config->place.virtual_host);
  CHECK(config->ca_bundle == "/ca");
  CHECK(Entry().parse({{"AWS_DEFAULT_REGION", "r-2"}})->place.region == "r-2");
  CHECK(Entry().parse({{"AWS_ENDPOINT_URL", "http://all:1"}})->place.host == "all:1");
  const auto given = Entry()
                         .with("store_config.region", text("mine"))
                         .with("store_config.endpoint_override", text("h:1"))
                         .parse(variables);
  CHECK(given->place.region == "mine");
  CHECK(given->place.host == "h:1");
}

TEST_CASE("optional texts of the public layout may be null or empty", "[obj][config]") {
  for (const char* key :
       {"endpoint_override", "region", "access_key", "secret_key", "session_token", "ca_bundle",
        "proxy", "profile", "credentials_file", "sts_endpoint"}) {
    INFO(key);
    CHECK(Entry().with(std::string("store_config.") + key, kNull).parse());
    CHECK(Entry().with(std::string("store_config.") + key, text("")).parse());
  }
  CHECK(Entry().with("prefix", kNull).parse());
  CHECK(Entry().with("locality", kNull).parse());
}

struct Bad {
  std::string key;
  ConfigNode value;
  std::vector<std::string> parts;  // besides the path
};

TEST_CASE("what is wrong in an obj tier is one line with path, value and what is allowed",
          "[obj][config]") {
  std::vector<Bad> all = {
      {"store_config.bucket", text("ab"), {"\"ab\"", "3 to 63"}},
      {"store_config.bucket", text(std::string(64, 'a')), {"3 to 63"}},
      {"store_config.bucket", text("-abc"), {"\"-abc\""}},
      {"store_config.bucket", text("abc."), {"\"abc.\""}},
      {"store_config.bucket", text("a/b/c"), {"\"a/b/c\""}},
      {"store_config.bucket", text("a?b=c"), {"\"a?b=c\""}},
      {"store_config.bucket", number(5), {"5", "a string"}},
      {"store_config.endpoint_override", text("http://host/path"), {"without a path"}},
      {"store_config.endpoint_override", text("ftp://host"), {"host[:port]"}},
      {"store_config.endpoint_override", text("http://h:abc"), {"port of 1 to 65535"}},
      {"store_config.endpoint_override", text("http://h:99999"), {"port of 1 to 65535"}},
      {"store_config.endpoint_override", text("http://h:0"), {"port of 1 to 65535"}},
      {"store_config.endpoint_override", text("http://h:"), {"port of 1 to 65535"}},
      {"store_config.endpoint_override", text("::1"), {"host[:port]"}},
      {"store_config.endpoint_override", text("http://[::1"), {"host[:port]"}},
      {"store_config.endpoint_override", text("http://-x"), {"host[:port]"}},
      {"store_config.proxy", text("ftp://proxy"), {"http://", "not shown"}},
      {"store_config.proxy", text("http://u:p/w@proxy:1"), {"percent-encoded"}},
      {"store_config.proxy", text("http://proxy:port"), {"host[:port]"}},
      {"store_config.endpoint_override", text("a b"), {"host[:port]"}},
      {"store_config.endpoint_override", text("http://"), {"host[:port]"}},
      {"store_config.endpoint_override", text("h\r\nX: y"), {"host[:port]"}},
      {"store_config.endpoint_override", number(9000), {"9000", "a string"}},
      {"store_config.region", text("a b"), {"us-east-1"}},
      {"store_config.region", text("a/b"), {"us-east-1"}},
      {"store_config.region", text(std::string(65, 'r')), {"us-east-1"}},
      {"store_config.scheme", text("HTTP"), {"\"HTTP\"", "http, https"}},
      {"store_config.addressing", text("auto"), {"\"auto\"", "path, virtual"}},
      {"store_config.sts_endpoint", text("https://sts/path"), {"without a path"}},
      {"store_config.insecure_skip_verify", text("yes"), {"\"yes\"", "true or false"}},
      {"store_config.buckets", text("b"), {"unknown key", "bucket"}},
      {"prefix", text(std::string(513, 'p')), {"512 bytes"}},
      {"prefix", text(std::string("a\0b", 3)), {"not usable"}},
      {"prefix", text("a\nb"), {"not usable"}},
      {"prefix", number(1), {"1", "a string"}},
      {"locality", text("near"), {"\"near\"", "LOCAL, REMOTE"}},
      {"foreign_files", text("maybe"), {"refuse, accept"}},
      {"checksum", text("maybe"), {"on, off"}},
      {"existence", text("list"), {"\"list\"", "head, manifest"}},
      {"capacity_bytes", number(5), {"5", "at least one chunk"}},
      {"capacity_bytes", text("lots"), {"\"lots\""}},
      {"retry", text("often"), {"\"often\"", "an object"}},
      {"retry.attempts", number(0), {"0", "[1, 100]"}},
      {"retry.attempts", number(101), {"101", "[1, 100]"}},
      {"retry.budget_share", ConfigNode(1.5), {"1.5", "[0, 1]"}},
      {"retry.budget_share", ConfigNode(-0.1), {"-0.1", "[0, 1]"}},
      {"retry.tries", number(1), {"unknown key", "attempts"}},
      {"breaker", ConfigNode(true), {"true", "an object"}},
      {"breaker.failures", number(-1), {"-1"}},
      {"breaker.open", number(1), {"unknown key", "open_ms"}},
      {"manifest_refresh_ms", number(99), {"99", "[100, 3600000]"}},
      {"manifest_keys_max", number(0), {"0"}},
      {"verdicts_max", number(0), {"0"}},
      {"max_inflight", number(0), {"0", "[1, 1024]"}},
      {"max_inflight", number(1025), {"1025", "[1, 1024]"}},
      {"max_probes", ConfigNode(1.5), {"1.5", "[1, 1024]"}},
      {"negative_ttl_ms", number(-1), {"-1", "[0, 3600000]"}},
      {"buckets", text("b"), {"unknown key", "store_config"}},
  };
  for (const char* key :
       {"connect_timeout_ms", "probe_timeout_ms", "request_timeout_ms", "retry.base_ms",
        "retry.max_ms", "breaker.open_ms", "breaker.open_max_ms"})
    for (const std::int64_t value : {std::int64_t{0}, std::int64_t{3'600'001}})
      all.push_back({key, number(value), {std::to_string(value), "[1, 3600000]"}});
  for (const char* key : {"enable_kv_events", "if_none_match", "start_unreachable"})
    all.push_back({key, text("yes"), {"\"yes\"", "true or false"}});
  all.push_back({"io_threads", number(0), {"0"}});
  for (const Bad& bad : all) {
    INFO(bad.key << ": " << bad.value.text());
    const std::string line = Entry().with(bad.key, bad.value).error();
    INFO(line);
    CHECK(line.starts_with("secondary_tiers[1]." + bad.key + ":"));
    for (const std::string& part : bad.parts) CHECK(line.find(part) != std::string::npos);
  }
}

TEST_CASE("an obj tier without a store says what it needs", "[obj][config]") {
  Entry entry;
  entry.keys.erase("store_config");
  CHECK(entry.error() ==
        "secondary_tiers[1].store_config: required, an object with at least \"bucket\"");
  entry.keys.emplace("store_config", ConfigNode(Object{}));
  CHECK(entry.error().starts_with("secondary_tiers[1].store_config.bucket:"));
}

TEST_CASE("a capacity is at least one chunk and at most an exbibyte", "[obj][config]") {
  CHECK(Entry().with("capacity_bytes", number(1 << 20)).parse({}, 1 << 20));
  CHECK(Entry()
            .with("capacity_bytes", number((1 << 20) - 1))
            .error({}, 1 << 20)
            .starts_with("secondary_tiers[1].capacity_bytes:"));
  CHECK(Entry().with("capacity_bytes", number(std::int64_t{1} << 60)).parse()->capacity_bytes ==
        kObjCapacityMax);
  CHECK(Entry()
            .with("capacity_bytes", number((std::int64_t{1} << 60) + 1))
            .error()
            .starts_with("secondary_tiers[1].capacity_bytes:"));
}

TEST_CASE("a bucket with a dot has no certificate under its own name", "[obj][config]") {
  const Entry dotted = Entry().with("store_config.bucket", text("kv.cache"));
  CHECK(dotted.error().starts_with("secondary_tiers[1].store_config.addressing:"));
  Entry path = dotted;
  CHECK(path.with("store_config.addressing", text("path")).parse());
}

TEST_CASE("half given credentials name the other half, and no value", "[obj][config]") {
  const std::string secret = "hush-hush";
  const auto line = [&](const std::vector<std::string>& keys) {
    Entry entry;
    for (const std::string& key : keys) entry.with("store_config." + key, text(secret));
    const std::string said = entry.error();
    CHECK(said.find(secret) == std::string::npos);
    return said;
  };
  CHECK(line({"access_key"}).starts_with("secondary_tiers[1].store_config.secret_key: missing"));
  CHECK(line({"secret_key"}).starts_with("secondary_tiers[1].store_config.access_key: missing"));
  CHECK(line({"session_token"}).starts_with("secondary_tiers[1].store_config.session_token:"));
  CHECK(line({"access_key", "session_token"})
            .starts_with("secondary_tiers[1].store_config.secret_key: missing"));
  Entry both;
  both.with("store_config.access_key", text(secret)).with("store_config.secret_key", text(secret));
  CHECK(Entry(both)
            .with("store_config.profile", text("p"))
            .error()
            .starts_with("secondary_tiers[1].store_config.profile:"));
  CHECK(Entry(both)
            .with("store_config.credentials_file", text("f"))
            .error()
            .starts_with("secondary_tiers[1].store_config.credentials_file:"));
}

TEST_CASE("no message has a secret, whatever stands in its place", "[obj][config]") {
  const std::string secret = "hush-hush";
  const std::vector<ConfigNode> values = {text(secret + " with a space"),
                                          text(secret + "\n"),
                                          text(secret + "\xc3\xbc"),
                                          text(secret + std::string(9000, 'x')),
                                          number(4711),
                                          ConfigNode(47.11),
                                          ConfigNode(true),
                                          ConfigNode(ConfigNode::List{text(secret)}),
                                          ConfigNode(Object{{secret, text(secret)}})};
  for (const char* key : {"store_config.access_key", "store_config.secret_key",
                          "store_config.session_token", "store_config.proxy", "store_config"}) {
    for (const ConfigNode& value : values) {
      if (std::string(key) == "store_config" && value.object() != nullptr) continue;
      INFO(key);
      Entry entry;
      entry.keys[key] = value;
      if (std::string(key) != "store_config") entry = Entry().with(key, value);
      const std::string line = entry.error();
      CHECK(line.starts_with(std::string("secondary_tiers[1].") + key + ":"));
      CHECK(line.find("hush") == std::string::npos);
      CHECK(line.find("47") == std::string::npos);
    }
  }
  // An error elsewhere, beside good ones.
  Entry entry;
  entry.with("store_config.access_key", text(secret)).with("store_config.secret_key", text(secret));
  CHECK(entry.with("max_probes", number(0)).error().find(secret) == std::string::npos);
  // A password in an endpoint.
  CHECK(Entry()
            .with("store_config.endpoint_override", text("http://u:" + secret + "@h"))
            .error()
            .find(secret) == std::string::npos);
  CHECK(Entry()
            .with("store_config.sts_endpoint", text("http://u:" + secret + "@h"))
            .error()
            .find(secret) == std::string::npos);
}

TEST_CASE("what is shown of a configuration has no secret", "[obj][config]") {
  const std::string secret = "hush-hush";
  Entry entry;
  for (const char* key : {"access_key", "secret_key", "session_token", "proxy"})
    entry.with(std::string("store_config.") + key, text(secret));
  ConfigNode node(entry.keys);
  hide_obj_secrets(node);
  const ConfigNode& store = *node.find("store_config");
  for (const char* key : {"access_key", "secret_key", "session_token", "proxy"}) {
    REQUIRE(store.find(key) != nullptr);
    CHECK(store.find(key)->text() == "\"(not shown)\"");
  }
  CHECK(store.find("bucket")->text() == "\"kv-cache\"");
  ConfigNode odd(Object{{"store_config", text(secret)}});
  hide_obj_secrets(odd);
  CHECK(odd.find("store_config") == nullptr);
  ConfigNode none{Object{}};
  hide_obj_secrets(none);
  ConfigNode scalar = text("x");
  hide_obj_secrets(scalar);
}

}  // namespace
}  // namespace kv_offload
