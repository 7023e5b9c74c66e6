#include "kv_offload/tests/config/config_lines.hpp"

#include <catch2/catch.hpp>

#include <map>
#include <string>

using namespace kv_offload;

namespace {

std::map<std::string, EngineConfig::Effective> by_key(const EngineConfig& config) {
  std::map<std::string, EngineConfig::Effective> rows;
  for (auto& row : config.effective()) rows[row.key] = row;
  return rows;
}
std::string text(const EngineConfig::Effective& row) {
  return row.value + "|" + row.unit + "|" + row.origin;
}

}  // namespace

TEST_CASE("every effective value has a unit and an origin", "[config]") {
  const EngineConfig config = good_config(R"({"chunk_bytes": "5000", "cpu_bytes_to_use": "8 MiB",
      "primary": {"hold_share": 0.2}, "jobs_max": 4096, "deadlines": {"load_ms": 500},
      "secondary_tiers": [{"type": "fs", "root_dir": "/x", "pin_share": 0.1,
                           "durability": "data", "capacity_bytes": "1 MiB"},
                          {"type": "fs", "root_dir": "/y"}],
      "admission_policy": {"type": "cascade_backpressure", "low_water_s": 0.25},
      "metrics": {"port": 0}})");
  auto rows = by_key(config);
  CHECK(text(rows["chunk_bytes"]) == "5000|bytes|config");
  CHECK(text(rows["row_bytes"]) == "8192|bytes|derived: chunk_bytes rounded up to 4096");
  CHECK(text(rows["cpu_bytes_to_use"]) == "8388608|bytes|config");
  CHECK(text(rows["num_chunks"]) == "1024|chunks|derived: cpu_bytes_to_use / row_bytes");
  CHECK(text(rows["eviction_policy"]) == "lru||default");
  CHECK(text(rows["primary.headroom_share"]) == "0.1|of chunks|default");
  CHECK(text(rows["primary.headroom_chunks"]) == "102|chunks|derived: 0.1 x 1024 chunks");
  CHECK(text(rows["primary.hold_share"]) == "0.2|of chunks|config");
  CHECK(text(rows["primary.hold_chunks"]) == "204|chunks|derived: 0.2 x 1024 chunks");
  CHECK(text(rows["primary.max_pinned_chunks"]) == "256|chunks|derived: 0.25 x 1024 chunks");
  CHECK(text(rows["primary.pin_unread"]) == "until_read||default");
  CHECK(text(rows["secondary_tiers[0].type"]) == "fs||config");
  CHECK(text(rows["secondary_tiers[0].root_dir"]) == "/x||config");
  CHECK(text(rows["secondary_tiers[0].pin_share"]) == "0.1|of chunks|config");
  CHECK(text(rows["secondary_tiers[0].pin_chunks"]) == "102|chunks|derived: 0.1 x 1024 chunks");
  CHECK(text(rows["secondary_tiers[1].pin_share"]) == "0.2|of chunks|derived: 0.4 / 2 tiers");
  CHECK(text(rows["secondary_tiers[1].pin_chunks"]) == "204|chunks|derived: 0.2 x 1024 chunks");
  CHECK(text(rows["secondary_tiers[0].durability"]) == "data||config");
  CHECK(text(rows["secondary_tiers[1].durability"]) == "none||default");
  CHECK(text(rows["secondary_tiers[1].queue_depth"]) == "128|requests|default");
  CHECK(text(rows["secondary_tiers[0].capacity_bytes"]) == "1048576|bytes|config");
  CHECK(text(rows["secondary_tiers[0].capacity_chunks"]) ==
        "128|chunks|derived: capacity_bytes / row_bytes");
  CHECK(text(rows["secondary_tiers[0].eviction_policy"]) == "lru||default");
  CHECK(text(rows["secondary_tiers[1].capacity_bytes"]) == "(unbounded)||default");
  CHECK(rows.count("secondary_tiers[1].eviction_policy") == 0);
  CHECK(text(rows["admission_policy.type"]) == "cascade_backpressure||config");
  CHECK(text(rows["admission_policy.signal"]) == "wall_clock||default");
  CHECK(text(rows["admission_policy.high_water_s"]) == "1|s|default");
  CHECK(text(rows["admission_policy.low_water_s"]) == "0.25|s|config");
  CHECK(text(rows["admission_policy.warmup_completions"]) == "3|completions|default");
  CHECK(text(rows["secondary_tiers[0].backpressure"]) == "(none)||default");
  CHECK(text(rows["admission_state_file"]) == "(none)||default");
  CHECK(text(by_key(good_config(document(R"("admission_state_file": "/v/state")")))
                 .at("admission_state_file")) == "/v/state||config");
  CHECK(text(rows["store_threshold"]) == "0|lookups|default");
  CHECK(text(rows["max_tracker_size"]) == "64000|keys|default");
  CHECK(text(rows["offload_prompt_only"]) == "true||default");
  CHECK(text(rows["atomic_groups"]) == "(none)||default");
  const auto sets = by_key(good_config(document(R"("atomic_groups": [[0, 2], [1, 3]])")));
  CHECK(text(sets.at("atomic_groups[1]")) == "1, 3|cache groups|config");
  CHECK(text(rows["jobs_max"]) == "4096|jobs|config");  // said so, though it is the default
  CHECK(text(rows["probes_max"]) == "65536|keys|default");
  CHECK(text(rows["deadlines.load_ms"]) == "500|ms|config");
  CHECK(text(rows["deadlines.store_ms"]) == "30000|ms|default");
  CHECK(text(rows["metrics.port"]) == "any free||config");
  CHECK(text(rows["io"]) == "auto||default");
  for (const auto& [key, row] : rows) {
    INFO(key);
    CHECK_FALSE(row.value.empty());
    CHECK_FALSE(row.origin.empty());
  }
}

TEST_CASE("a tier's own keys are shown as they work, not as they were written", "[config]") {
  const auto rows = by_key(good_config(R"({"chunk_bytes": "64 KiB", "cpu_bytes_to_use": "64 MiB",
      "secondary_tiers": [
        {"type": "extent", "path": "/x", "capacity_bytes": "1 GiB", "segment_bytes": "1000 KiB",
         "checksum": false, "max_inflight_bytes": "1 MiB"},
        {"type": "extent", "path": "/y", "capacity_bytes": "1 GiB"},
        {"type": "fs", "root_dir": "/z", "checksum": true, "max_inflight_bytes": "2 MiB",
         "capacity_bytes": "64 KiB"}]})"));
  const auto shown = [&](const std::string& key) { return text(rows.at("secondary_tiers" + key)); };
  CHECK(shown("[0].capacity_bytes") == "1073741824|bytes|config");
  CHECK(shown("[0].segment_bytes") == "983040|bytes|config");  // 15 rows
  CHECK(shown("[0].checksum") == "off||config");
  CHECK(shown("[0].max_inflight_bytes") == "1048576|bytes|config");
  CHECK(shown("[0].path") == "/x||config");
  CHECK(shown("[1].segment_bytes") ==
        "16777216|bytes|derived: capacity_bytes / 64, between 1 MiB and 256 MiB, in whole rows");
  CHECK(shown("[1].segments") ==
        "63|segments|derived: capacity_bytes / (segment_bytes and its table)");
  CHECK(shown("[1].capacity_chunks") ==
        "16128|chunks|derived: segments x segment_bytes / row_bytes");
  CHECK(shown("[1].rewrite_share") == "0.25|of a segment's rows|default");
  CHECK(shown("[2].checksum") == "on||config");
  CHECK(shown("[2].max_inflight_bytes") == "2097152|bytes|config");
  CHECK(shown("[2].capacity_chunks") == "1|chunks|derived: capacity_bytes / row_bytes");
}

TEST_CASE("a tier shows the io that it has, its own or the engine's", "[config]") {
  const auto rows = by_key(good_config(document(R"("io": "threads", "secondary_tiers": [
      {"type": "fs", "root_dir": "/x"}, {"type": "fs", "root_dir": "/y", "io": "uring"},
      {"type": "extent", "path": "/z", "capacity_bytes": "1 GiB"}, {"type": "example"}])")));
  CHECK(text(rows.at("io")) == "threads||config");
  CHECK(text(rows.at("secondary_tiers[0].io")) == "threads||derived: io");
  CHECK(text(rows.at("secondary_tiers[1].io")) == "uring||config");
  CHECK(text(rows.at("secondary_tiers[2].io")) == "threads||derived: io");
  CHECK(rows.count("secondary_tiers[3].io") == 0);
}

TEST_CASE("a tier's backpressure is shown resolved: whose field won, and which preset filled the rest",
          "[config]") {
  auto rows = by_key(good_config(document(R"(
      "backpressure": {"alpha": 0.5, "cooldown_s": 9, "policy_cls": "a.b.DropStorePolicy"},
      "secondary_tiers": [
        {"type": "fs", "root_dir": "/x", "backpressure": {"alpha": 0.25, "high_water_s": 0.1}},
        {"type": "fs", "root_dir": "/y", "locality": "remote",
         "backpressure": {"policy": {"type": "throttled", "ramp_factor": 3}}}])")));
  const std::string first = "secondary_tiers[0].backpressure.";
  CHECK(text(rows[first + "backpressure_cls"]) == "EMABackpressureDetector||default");
  CHECK(text(rows[first + "high_water_s"]) == "0.1|s/MiB|config");
  CHECK(text(rows[first + "low_water_s"]) == "0.002|s/MiB|default for local tiers");
  CHECK(text(rows[first + "alpha"]) == "0.25||config");
  CHECK(text(rows[first + "warmup_completions"]) == "10|completions|default");
  CHECK(text(rows[first + "decay_half_life_s"]) == "2|s|default");
  CHECK(text(rows[first + "cooldown_s"]) == "9|s|config: backpressure.cooldown_s");
  CHECK(text(rows[first + "policy.type"]) == "drop||config: backpressure.policy_cls");
  CHECK(rows.count(first + "policy.ramp_factor") == 0);
  const std::string second = "secondary_tiers[1].backpressure.";
  CHECK(text(rows[second + "high_water_s"]) == "0.05|s/MiB|default for network tiers");
  CHECK(text(rows[second + "low_water_s"]) == "0.01|s/MiB|default for network tiers");
  CHECK(text(rows[second + "alpha"]) == "0.5||config: backpressure.alpha");
  CHECK(text(rows[second + "policy.type"]) == "throttled||config");
  CHECK(text(rows[second + "policy.ramp_factor"]) == "3|x high_water_s|config");
  CHECK(text(rows["admission_policy"]) == "always_admit||default");
  CHECK(rows.count("backpressure.alpha") == 0);  // shown where it works
}

TEST_CASE("a policy that watches tiers of both presets shows each tier's marks", "[config]") {
  auto rows = by_key(good_config(document(R"("secondary_tiers": [{"type": "fs", "root_dir": "/x"},
      {"type": "fs", "root_dir": "/y", "locality": "REMOTE"}],
      "admission_policy": {"type": "cascade_backpressure", "signal": "per_mib", "alpha": 0.5})")));
  CHECK(text(rows["admission_policy.high_water_s[1:fs]"]) == "0.01|s/MiB|default for local tiers");
  CHECK(text(rows["admission_policy.high_water_s[2:fs]"]) == "0.05|s/MiB|default for network tiers");
  CHECK(text(rows["admission_policy.alpha"]) == "0.5||config");
}

TEST_CASE("what a program writes into a policy is not called a default", "[config]") {
  EngineConfig config = good_config(document(R"("secondary_tiers": [
      {"type": "fs", "root_dir": "/x", "backpressure": {"alpha": 0.5}}])"));
  config.origins.clear();
  auto rows = by_key(config);
  CHECK(text(rows["secondary_tiers[0].backpressure.alpha"]) == "0.5||program");
  CHECK(text(rows["secondary_tiers[0].backpressure.cooldown_s"]) == "1|s|default");
}

TEST_CASE("values set in code or derived say so", "[config]") {
  EngineConfig config;
  config.chunk_bytes = 4096;
  config.cpu_bytes_to_use = 1 << 20;
  config.secondary_tiers.resize(1);
  config.secondary_tiers[0].type = "fs";
  CHECK(by_key(config)["chunk_bytes"].origin == "program");
  CHECK(by_key(config)["secondary_tiers[0].type"].origin == "program");
  CHECK(by_key(config)["jobs_max"].origin == "default");
  CHECK(text(by_key(config)["admission_policy"]) == "always_admit||default");
  config.origins["chunk_bytes"] = "command line";
  CHECK(by_key(config)["chunk_bytes"].origin == "command line");
  const auto derived = by_key(good_config(
      R"({"cpu_bytes_to_use": "1 MiB", "worker_kv_bytes_per_block": 4096, "world_size": 2})"));
  CHECK(derived.at("chunk_bytes").origin == "derived: 4096 B/block x 2 workers x 1 blocks");
}

TEST_CASE("secrets are shown as set, never by value", "[config]") {
  const EngineConfig config = good_config(document(R"("identity": {"tenant": "hunter2"},
    "secondary_tiers": [{"type": "fs", "root_dir": "/x", "password": "hunter2", "token": "hunter2",
      "store_config": {"access_key": "hunter2", "secret_key": "hunter2",
                       "session_token": "hunter2", "bucket": "b"}}])"));
  std::string all;
  for (const auto& row : config.effective())
    all += row.key + " " + row.value + " " + row.unit + " " + row.origin + "\n";
  for (const auto& line : config.warnings()) all += line + "\n";
  CHECK(all.find("hunter2") == std::string::npos);
  auto rows = by_key(config);
  for (const char* key : {"store_config.access_key", "store_config.secret_key",
                          "store_config.session_token", "password", "token"})
    CHECK(rows["secondary_tiers[0]." + std::string(key)].value == "(set)");
  CHECK(rows["secondary_tiers[0].store_config.bucket"].value == "b");
  CHECK(rows["identity.tenant"].value == "(set)");
}
