#include "kv_offload/tests/config/config_lines.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <utility>

using namespace kv_offload;

TEST_CASE("a value of the wrong type or range is one line: path, value, what is allowed",
          "[config]") {
  const std::pair<std::string, std::string> table[] = {
      {R"("jobs_max": 0)", "jobs_max: 0 is not allowed; expected an integer in [1, 1048576]"},
      {R"("jobs_max": -1)", "jobs_max: -1 is not allowed; expected an integer in [1, 1048576]"},
      {R"("jobs_max": "many")",
       "jobs_max: \"many\" is not allowed; expected an integer in [1, 1048576]"},
      {R"("probes_max": 1.5)",
       "probes_max: 1.5 is not allowed; expected an integer in [1, 16777216]"},
      {R"("calls_max": null)",
       "calls_max: null is not allowed; expected an integer in [1, 1048576]"},
      {R"("worker_threads": 5000)",
       "worker_threads: 5000 is not allowed; expected an integer in [1, 1024]"},
      {R"("spin_us": 20000)", "spin_us: 20000 is not allowed; expected an integer in [0, 10000]"},
      {R"("tokens_per_chunk": -16)",
       "tokens_per_chunk: -16 is not allowed; expected an integer in [0, 16777216]"},
      {R"("huge_pages": 1)", "huge_pages: 1 is not allowed; expected true or false"},
      {R"("enable_kv_events": "yes")",
       "enable_kv_events: \"yes\" is not allowed; expected true or false"},
      {R"("eviction_policy": 3)", "eviction_policy: 3 is not allowed; expected a string"},
      {R"("log_level": "loud")",
       "log_level: \"loud\" is not allowed; expected one of: trace, debug, info, warn, error, "
       "critical, off"},
      {R"("revision": 7)", "revision: 7 is not allowed; expected a string"},
      {R"("primary": 1)", "primary: 1 is not allowed; expected an object"},
      {R"("primary": {"hold_share": 1.5})",
       "primary.hold_share: 1.5 is not allowed; expected a number in [0, 1]"},
      {R"("primary": {"headroom_share": -0.1})",
       "primary.headroom_share: -0.1 is not allowed; expected a number in [0, 1]"},
      {R"("primary": {"max_pinned_share": "half"})",
       "primary.max_pinned_share: \"half\" is not allowed; expected a number in [0, 1]"},
      {R"("primary": {"hold": 0})", "primary.hold: 0 is not allowed; expected true or false"},
      {R"("primary": {"pin_unread": "always"})",
       "primary.pin_unread: \"always\" is not allowed; expected one of: never, until_read"},
      {R"("deadlines": {"load_ms": 0})",
       "deadlines.load_ms: 0 is not allowed; expected an integer in [1, 86400000]"},
      {R"("deadlines": {"drain_ms": 1e3})",
       "deadlines.drain_ms: 1000.0 is not allowed; expected an integer in [1, 86400000]"},
      {R"("metrics": {"port": 70000})",
       "metrics.port: 70000 is not allowed; expected an integer in [0, 65535]"},
      {R"("metrics": {"address": 1})", "metrics.address: 1 is not allowed; expected a string"},
      {R"("identity": [])", "identity: a list of 0 is not allowed; expected an object"},
      {R"("identity": {"tp_size": 0})",
       "identity.tp_size: 0 is not allowed; expected an integer in [1, 65536]"},
      {R"("identity": {"replicated_layout": "no"})",
       "identity.replicated_layout: \"no\" is not allowed; expected true or false"},
      {R"("identity": {"kv_cache_groups": {}})",
       "identity.kv_cache_groups: an object is not allowed; expected a list of {tokens_per_block, "
       "layer_names}"},
      {R"("identity": {"kv_cache_groups": [{}, {"tokens_per_block": 0}]})",
       "identity.kv_cache_groups[1].tokens_per_block: 0 is not allowed; expected an integer in [1, "
       "1048576]"},
      {R"("identity": {"kv_cache_groups": [{"layer_names": ["a", 1]}]})",
       "identity.kv_cache_groups[0].layer_names: 1 is not allowed; expected a list of strings"},
      {R"("secondary_tiers": {})",
       "secondary_tiers: an object is not allowed; expected a list of objects"},
      {R"("secondary_tiers": ["fs"])",
       "secondary_tiers[0]: \"fs\" is not allowed; expected an object"},
      {R"("secondary_tiers": [{"type": "fs", "root_dir": "/x"}, {"root_dir": "/y"}])",
       "secondary_tiers[1].type: missing; expected the name of a tier type, such as fs"},
      {R"("secondary_tiers": [{"type": "fs", "pin_share": 2}])",
       "secondary_tiers[0].pin_share: 2 is not allowed; expected a number in [0, 1]"},
      {R"("secondary_tiers": [{"type": "fs", "backpressure": true}])",
       "secondary_tiers[0].backpressure: true is not allowed; expected an object or null"},
      {R"("admission_policy": "always_admit")",
       "admission_policy: \"always_admit\" is not allowed; expected an object with a type, or "
       "null"},
      {R"("domains": 65)", "domains: 65 is not allowed; expected auto, off or a number in [1, 64]"},
      {R"("domains": "all")",
       "domains: \"all\" is not allowed; expected auto, off or a number in [1, 64]"},
      {R"("io": "aio")", "io: \"aio\" is not allowed; expected one of: auto, uring, threads"},
      {R"("io": 8)", "io: 8 is not allowed; expected one of: auto, uring, threads"},
      {R"("store_threshold": -1)",
       "store_threshold: -1 is not allowed; expected an integer in [0, 1000000]"},
      {R"("store_threshold": "2")",
       "store_threshold: \"2\" is not allowed; expected an integer in [0, 1000000]"},
      {R"("max_tracker_size": 0)",
       "max_tracker_size: 0 is not allowed; expected an integer in [1, 16777216]"},
      {R"("atomic_groups": 1)",
       "atomic_groups: 1 is not allowed; expected a list of lists of cache-group indices"},
      {R"("atomic_groups": [0, 1])",
       "atomic_groups[0]: 0 is not allowed; expected a list of 2 to 64 cache-group indices"},
      {R"("atomic_groups": [[0, 1], [2, -1]])",
       "atomic_groups[1][1]: -1 is not allowed; expected an integer in [0, 4294967295]"},
      {R"("atomic_groups": [[0, 4294967296]])",
       "atomic_groups[0][1]: 4294967296 is not allowed; expected an integer in [0, 4294967295]"},
      {R"("spec_name": "OffloadSpec")",
       "spec_name: \"OffloadSpec\" is not allowed; expected one of: CPUOffloadingSpec, "
       "TieringOffloadingSpec"},
      {R"("offload_prompt_only": "no")",
       "offload_prompt_only: \"no\" is not allowed; expected true or false"},
      {R"("backpressure": 1)", "backpressure: 1 is not allowed; expected an object or null"},
  };
  for (const auto& [keys, line] : table) {
    INFO(keys);
    const auto config = EngineConfig::parse(document(keys));
    REQUIRE_FALSE(config.has_value());
    CHECK(config.error().code == OffloadErrc::invalid_config);
    CHECK(config.error().detail == line);
  }
}

TEST_CASE("a size outside its range is one line with the range", "[config]") {
  const std::string forms =
      " is not allowed; expected a whole number of bytes, KiB, MiB, GiB or TiB in ";
  CHECK(line_about(R"({"chunk_bytes": 511, "cpu_bytes_to_use": "1 GiB"})") ==
        "chunk_bytes: 511" + forms + "[512 B, 4 GiB]");
  CHECK(line_about(R"({"chunk_bytes": "5 GiB", "cpu_bytes_to_use": "1 TiB"})") ==
        "chunk_bytes: \"5 GiB\"" + forms + "[512 B, 4 GiB]");
  CHECK(line_about(R"({"chunk_bytes": "16 KB", "cpu_bytes_to_use": "1 GiB"})") ==
        "chunk_bytes: \"16 KB\"" + forms + "[512 B, 4 GiB]");
  CHECK(line_about(R"({"chunk_bytes": 4096, "cpu_bytes_to_use": 0})") ==
        "cpu_bytes_to_use: 0" + forms + "[1 B, 64 TiB]");
  CHECK(line_about(R"({"chunk_bytes": 4096, "cpu_bytes_to_use": -5})") ==
        "cpu_bytes_to_use: -5" + forms + "[1 B, 64 TiB]");
  CHECK(line_about(R"({"chunk_bytes": 4096, "cpu_bytes_to_use": "65 TiB"})") ==
        "cpu_bytes_to_use: \"65 TiB\"" + forms + "[1 B, 64 TiB]");
  CHECK(line_about(R"({"chunk_bytes": 4097, "cpu_bytes_to_use": 8191})") ==
        "cpu_bytes_to_use: 8191" + forms + "[one row of 8 KiB, 64 TiB]");
  CHECK(line_about(R"({"chunk_bytes": 512, "cpu_bytes_to_use": "32 TiB"})") ==
        "cpu_bytes_to_use: 35184372088832 is not allowed; expected at most 4294967294 chunks, and "
        "this is 8589934592");
  CHECK(line_about(R"({"chunk_bytes": 4097, "cpu_bytes_to_use": 8192})") == "valid");
}

TEST_CASE("what is missing is named", "[config]") {
  CHECK(line_about("{}") ==
        "chunk_bytes: missing; expected a whole number of bytes, KiB, MiB, GiB or TiB in [512 B, 4 "
        "GiB]");
  CHECK(line_about(R"({"chunk_bytes": "16 KiB"})") ==
        "cpu_bytes_to_use: missing; expected a whole number of bytes, KiB, MiB, GiB or TiB in [one "
        "row of 16 KiB, 64 TiB]");
  CHECK(line_about("[]") == "configuration: a list of 0 is not allowed; expected an object");
  CHECK(line_about("") ==
        "configuration:1:1: while parsing value - unexpected end of input; expected '[', '{', or a "
        "literal");
}

TEST_CASE("a key that nobody knows is an error on every level", "[config]") {
  const std::pair<std::string, std::string> table[] = {
      {R"("chunk_byte": 1)", "chunk_byte: unknown key; known here: "},
      {R"("primary": {"hold_shares": 1})",
       "primary.hold_shares: unknown key; known here: headroom_share, hold, hold_share, "
       "max_pinned_share, pin_unread"},
      {R"("deadlines": {"load": 1})",
       "deadlines.load: unknown key; known here: copy_ms, drain_ms, "},
      {R"("metrics": {"host": "x"})", "metrics.host: unknown key; known here: address, port"},
      {R"("identity": {"model": "x"})", "identity.model: unknown key; known here: "},
      {R"("identity": {"kv_cache_groups": [{"layers": []}]})",
       "identity.kv_cache_groups[0].layers: unknown key; known here: layer_names, "
       "tokens_per_block"},
  };
  for (const auto& [keys, start] : table) {
    INFO(keys);
    CHECK(line_about(document(keys)).substr(0, start.size()) == start);
  }
}

TEST_CASE("an error line shows 60 characters of a key that nobody knows", "[config]") {
  const std::string key(300, 'k');
  const auto starts = [&](const std::string& keys, const std::string& path) {
    const std::string line = line_about(document(keys));
    INFO(line);
    CHECK(line.starts_with(path + std::string(60, 'k') + "..."));
    CHECK(line.find(std::string(61, 'k')) == std::string::npos);
  };
  starts('"' + key + "\": 1", "");
  starts("\"primary\": {\"" + key + "\": 1}", "primary.");
  starts(R"("secondary_tiers": [{"type": "example", ")" + key + "\": 1}]", "secondary_tiers[0].");
  starts('"' + key + R"(": {"token": 1})", "");  // a malformed secret, named by its path
  const std::string twice = line_about('{' + ('"' + key + "\": 1, \"" + key + "\": 1}"));
  CHECK(twice.find("is given twice") != std::string::npos);
  CHECK(twice.find(std::string(61, 'k')) == std::string::npos);
  // Of two bytes each: the cut is between characters.
  std::string umlauts;
  for (int i = 0; i < 40; ++i) umlauts += "\u00e4";
  CHECK(line_about(document("\"x" + umlauts + "\": 1")).find(umlauts.substr(0, 58) + "...") !=
        std::string::npos);
}

TEST_CASE("no error line quotes a secret or spans two lines", "[config]") {
  CHECK(line_about(document(R"("secondary_tiers": [{"type": "fs", "root_dir": "/x",
                               "store_config": {"secret_key": 1234567}}])")) ==
        "secondary_tiers[0].store_config.secret_key: this value is not allowed; expected a string");
  CHECK(line_about(document(R"("identity": {"tenant": 42})")) ==
        "identity.tenant: this value is not allowed; expected a string");
  for (const char* keys :
       {R"("log_level": "a\nb")", R"("a\nb": 1)", R"("eviction_policy": "a\nb")",
        R"("secondary_tiers": [{"type": "a\nb"}])", R"("identity": {"model_name": "a\nb"})"}) {
    INFO(keys);
    const std::string line = line_about(document(keys));
    CHECK(line != "valid");
    CHECK(line.find('\n') == std::string::npos);
  }
}

TEST_CASE("a file that cannot be read is named with the reason", "[config]") {
  const auto missing = EngineConfig::load_file("/nonexistent/config.json");
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == OffloadErrc::io_error);
  CHECK(missing.error().detail ==
        "/nonexistent/config.json: cannot be read: No such file or directory");
  const auto directory = EngineConfig::load_file("/");
  REQUIRE_FALSE(directory.has_value());
  CHECK(directory.error().detail == "/: cannot be read: Is a directory");
}
