#include "kv_offload/actors/engine_config_admission.hpp"
#include "kv_offload/tests/config/config_lines.hpp"

#include <catch2/catch.hpp>

#include <limits>
#include <string>
#include <utility>

using namespace kv_offload;

namespace {

/// The error line of a configuration built in code: a good one after `change`.
template <class F>
std::string line_after(F change) {
  EngineConfig config;
  config.chunk_bytes = 4096;
  config.cpu_bytes_to_use = 1 << 20;
  change(config);
  const auto error = config.validate();
  return error ? error->detail : "valid";
}

}  // namespace

TEST_CASE("rows without memory are for engines that nobody else reads the rows of", "[config]") {
  CHECK(line_after([](EngineConfig& c) { c.reserve_only = true; }) == "valid");
  CHECK(line_after([](EngineConfig& c) {
          c.reserve_only = true;
          c.secondary_tiers.resize(1);
          c.secondary_tiers[0].type = "example";
        }) == "reserve_only: true is not allowed; expected false beside secondary_tiers");
  CHECK(line_after([](EngineConfig& c) {
          c.reserve_only = true;
          c.workers.emplace();
          c.workers->socket = "@bench";
        }) == "reserve_only: true is not allowed; expected false beside workers");
  CHECK(line_about(document(R"("reserve_only": true)")).find("reserve_only") == 0);  // no key of it
}

TEST_CASE("shares of the primary tier that exceed 1 together are named with their sum",
          "[config]") {
  CHECK(line_about(document(R"("secondary_tiers": [{"type": "fs", "root_dir": "/x"}])")) ==
        "valid");
  CHECK(line_about(document(
            R"("secondary_tiers": [{"type": "fs", "root_dir": "/x", "pin_share": 0.5}])")) ==
        "shares of the primary tier: primary.headroom_share 0.1 + primary.hold_share 0.25 + "
        "primary.max_pinned_share 0.25 + secondary_tiers[0].pin_share 0.5 = 1.1 is not allowed; "
        "expected a sum of at most 1");
  CHECK(line_about(document(R"("primary": {"hold_share": 0.7})")) ==
        "shares of the primary tier: primary.headroom_share 0.1 + primary.hold_share 0.7 + "
        "primary.max_pinned_share 0.25 = 1.05 is not allowed; expected a sum of at most 1");
  // Three times 0.1 and 0.7 is more than 1 as doubles, by less than 1e-9.
  CHECK(line_about(document(R"("primary": {"headroom_share": 0.1, "hold_share": 0.1,
      "max_pinned_share": 0.1}, "secondary_tiers": [{"type": "fs", "root_dir": "/x",
      "pin_share": 0.7}])")) == "valid");
}

TEST_CASE("tiers without a pin share divide 0.4 evenly, a given one stays", "[config]") {
  EngineConfig config;
  CHECK(config.pin_share(0) == 0);
  config.secondary_tiers.resize(2);
  CHECK(config.pin_share(0) == Approx(0.2));
  config.secondary_tiers[1].pin_share = 0.05;
  CHECK(config.pin_share(0) == Approx(0.2));
  CHECK(config.pin_share(1) == 0.05);
  CHECK(config.pin_share(2) == 0);
}

TEST_CASE("a share rounds down to chunks, but not below what was meant", "[config]") {
  EngineConfig config;
  config.chunk_bytes = 4096;
  config.cpu_bytes_to_use = 10 * 4096;
  CHECK(config.share_chunks(0.1) == 1);
  CHECK(config.share_chunks(0.3) == 3);
  CHECK(config.share_chunks(0.29) == 2);
  CHECK(config.share_chunks(0) == 0);
  CHECK(config.share_chunks(-1) == 0);
  CHECK(config.share_chunks(1) == 10);
  CHECK(config.share_chunks(std::numeric_limits<double>::quiet_NaN()) == 0);
}

TEST_CASE("a device's speed in tokens needs to know how many a chunk has", "[config]") {
  CHECK(line_about(document(R"("compute_tokens_per_s": 1000)")) ==
        "compute_tokens_per_s: 1000 is not allowed; expected 0 without tokens_per_chunk: what a "
        "chunk takes to compute is "
        "unknown");
  CHECK(line_about(document(R"("compute_tokens_per_s": 1000, "tokens_per_chunk": 16)")) == "valid");
}

TEST_CASE("tiers, eviction and admission are checked by those who know them", "[config]") {
  const std::pair<std::string, std::string> table[] = {
      {R"("eviction_policy": "fifo")",
       "eviction_policy: \"fifo\" is not allowed; expected one of: arc, lru, s3fifo"},
      {R"("secondary_tiers": [{"type": "fs", "root_dir": "/x", "backpressure": {"alpha": 0}}])",
       "secondary_tiers[0].backpressure.alpha: 0 is not allowed; expected a number in (0, 1]"},
      {R"("admission_policy": {"type": "promotion_concurrency", "max_inflight_promotions": 0})",
       "admission_policy.max_inflight_promotions: 0 is not allowed; expected an integer in [1, "
       "1073741824]"},
      {R"("admission_policy": {"type": "composite", "policies": [{"type": "always_admit"},
          {"type": "cascade_backpressure", "alpha": 0}]})",
       "admission_policy.policies[1].alpha: 0 is not allowed; expected a number in (0, 1]"},
  };
  for (const auto& [keys, line] : table) {
    INFO(keys);
    CHECK(line_about(document(keys)) == line);
  }
  const auto starts = [](const std::string& keys, const std::string& start) {
    const std::string line = line_about(document(keys));
    INFO(line);
    CHECK(line.substr(0, start.size()) == start);
  };
  starts(R"("admission_policy": {"type": "alway_admit"})",
         "admission_policy.type: \"alway_admit\" is not allowed; expected one of: ");
  starts(R"("secondary_tiers": [{"type": "fs"}])", "secondary_tiers[0].root_dir: ");
  starts(R"("secondary_tiers": [{"type": "tape"}])", "secondary_tiers[0].type: \"tape\" ");
  starts(R"("secondary_tiers": [{"type": "fs", "root_dir": "/x", "root_dirs": "/y"}])",
         "secondary_tiers[0].root_dirs: unknown key");
}

TEST_CASE("what is no metrics address is refused before anything listens", "[config]") {
  for (const std::string good : {"127.0.0.1", "0.0.0.0", "::1", "::", "localhost", "node-7.a.b"}) {
    INFO(good);
    CHECK(line_about(document(R"("metrics": {"port": 0, "address": ")" + good + "\"}")) == "valid");
  }
  for (const std::string bad :
       {"127.0.0.1:80", "0,127.0.0.1", "127.0.0", "1.2.3.400", "9100", "[::1]", "::1::", "a..b",
        ".a", "-a", "a b", "http://localhost", "loc\\u0000alhost"}) {
    INFO(bad);
    const std::string line =
        line_about(document(R"("metrics": {"port": 0, "address": ")" + bad + "\"}"));
    CHECK(line.starts_with("metrics.address: \""));
    CHECK(line.ends_with("\" is not allowed; expected an IP address or a host name of this "
                         "machine, such as 127.0.0.1"));
  }
  CHECK(line_about(document(R"("metrics": {"port": 0, "address": ")" + std::string(254, 'a') +
                            "\"}")).size() < 200);
}

TEST_CASE("a store threshold beside secondary tiers is refused, without them it is taken",
          "[config]") {
  CHECK(line_about(document(R"("store_threshold": 2)")) == "valid");
  const std::string tier = R"(, "secondary_tiers": [{"type": "example"}])";
  CHECK(line_about(document(R"("store_threshold": 1)" + tier)) == "valid");
  CHECK(line_about(document(R"("store_threshold": 2)" + tier)) ==
        "store_threshold: 2 is not allowed; expected an integer in [0, 1] beside secondary_tiers: "
        "a tiered cache stores at first sight");
}

TEST_CASE("every refusal of a tier's backpressure names path, value and allowed range", "[config]") {
  const std::pair<std::string, std::string> table[] = {
      {R"("high_water_s": 0)", "high_water_s: 0 is not allowed; expected a number in (0, 3600]"},
      {R"("high_water_s": "1s")",
       "high_water_s: \"1s\" is not allowed; expected a number in (0, 3600]"},
      {R"("low_water_s": -1)", "low_water_s: -1 is not allowed; expected a number in (0, 3600]"},
      {R"("low_water_s": 0.5)",
       "low_water_s: 0.5 is not allowed; expected at most high_water_s (0.01)"},
      {R"("alpha": 0)", "alpha: 0 is not allowed; expected a number in (0, 1]"},
      {R"("alpha": 1.5)", "alpha: 1.5 is not allowed; expected a number in (0, 1]"},
      {R"("warmup_completions": -1)",
       "warmup_completions: -1 is not allowed; expected an integer in [0, 1000000]"},
      {R"("decay_half_life_s": -2)",
       "decay_half_life_s: -2 is not allowed; expected a number in [-1, 86400]"},
      {R"("cooldown_s": -1)", "cooldown_s: -1 is not allowed; expected a number in [0, 3600]"},
      {R"("policy": {"type": "all"})",
       "policy.type: \"all\" is not allowed; expected one of: drop, throttled"},
      {R"("policy": {"ramp_factor": 0})",
       "policy.ramp_factor: 0 is not allowed; expected a number in (0, 1000]"},
      {R"("policy": {"type": "drop", "ramp_factor": 2})",
       "policy.ramp_factor: unknown key; known here: type"},
      {R"("backpressure_cls": "Other")",
       "backpressure_cls: \"Other\" is not allowed; expected one of: EMABackpressureDetector"},
      {R"("policy_cls": "Other")",
       "policy_cls: \"Other\" is not allowed; expected one of: DropStorePolicy, "
       "ThrottledDropPolicy"},
  };
  for (const auto& [field, line] : table) {
    INFO(field);
    CHECK(line_about(document(R"("secondary_tiers": [{"type": "example", "backpressure": {)" +
                              field + "}}]")) == "secondary_tiers[0].backpressure." + line);
    if (line.find("(0.01)") == std::string::npos)
      CHECK(line_about(document(R"("secondary_tiers": [{"type": "example"}], "backpressure": {)" +
                                field + "}")) == "backpressure." + line);
  }
}

TEST_CASE("atomic groups are sets of two or more, each group in one of them", "[config]") {
  const std::string groups =
      R"(, "identity": {"kv_cache_groups": [{}, {}, {}, {}]}, "atomic_groups": )";
  const auto line = [&](const std::string& sets) {
    return line_about(R"({"chunk_bytes": 4096, "cpu_bytes_to_use": "1 MiB")" + groups + sets + "}");
  };
  CHECK(line("[[0, 1], [2, 3]]") == "valid");
  CHECK(line("[]") == "valid");
  CHECK(line("null") == "valid");
  CHECK(line("[[0]]") ==
        "atomic_groups[0]: a list of 1 is not allowed; expected a list of 2 to 64 cache-group "
        "indices");
  CHECK(line("[[0, 1], [1, 2]]") ==
        "atomic_groups[1][0]: 1 is not allowed; expected every cache group in one place at most");
  CHECK(line("[[0, 4]]") ==
        "atomic_groups[0][1]: 4 is not allowed; expected the index of one of the 4 "
        "identity.kv_cache_groups");
  CHECK(line_after([](EngineConfig& c) { c.atomic_groups = {{7, 9}}; }) == "valid");
  CHECK(line_after([](EngineConfig& c) { c.atomic_groups.emplace_back(65); }).substr(0, 31) ==
        "atomic_groups[0]: a list of 65 ");
}

TEST_CASE("every refusal of a tier's keys names path, value and allowed range", "[config]") {
  const std::pair<std::string, std::string> table[] = {
      {R"("type": 3)", ".type: 3 is not allowed; expected a string"},
      {R"("type": "fs")", ".root_dir: "},
      {R"("type": "fs", "root_dir": "")", ".root_dir: "},
      {R"("type": "fs", "root_dir": "/x", "locality": "")",
       ".locality: \"\" is not allowed; expected one of: LOCAL, REMOTE"},
      {R"("type": "fs", "root_dir": "/x", "locality": "NEAR")",
       ".locality: \"NEAR\" is not allowed; expected one of: LOCAL, REMOTE"},
      {R"("type": "fs", "root_dir": "/x", "enable_kv_events": 1)",
       ".enable_kv_events: 1 is not allowed; expected true or false"},
      {R"("type": "fs", "root_dir": "/x", "n_read_threads": 0)",
       ".n_read_threads: 0 is not allowed; expected an integer in [1, 65536]"},
      {R"("type": "fs", "root_dir": "/x", "n_write_threads": "16")",
       ".n_write_threads: \"16\" is not allowed; expected an integer in [1, 65536]"},
      {R"("type": "fs", "root_dir": "/x", "capacity_bytes": 4096, "eviction_policy": "mru")",
       ".eviction_policy: \"mru\" is not allowed; expected one of: arc, lru, s3fifo"},
      {R"("type": "fs", "root_dir": "/x", "capacity_bytes": "much")",
       ".capacity_bytes: \"much\" is not allowed; expected a whole number of bytes, KiB, MiB, GiB "
       "or TiB in [4 KiB, 1 TiB]: at least one chunk, at most 268435456 of them"},
      {R"("type": "fs", "root_dir": "/x", "capacity_bytes": 4095)",
       ".capacity_bytes: 4095 is not allowed; expected a whole number of bytes, KiB, MiB, GiB or "
       "TiB in [4 KiB, 1 TiB]: at least one chunk, at most 268435456 of them"},
      {R"("type": "fs_python", "root_dir": "/x")", ".type: \"fs_python\" "},
      {R"("type": "fs_python", "root_dir": "/x", "module_path": "a.b")", ".type: \"fs_python\" "},
  };
  for (const auto& [keys, start] : table) {
    INFO(keys);
    const std::string line = line_about(document("\"secondary_tiers\": [{" + keys + "}]"));
    INFO(line);
    CHECK(line.starts_with("secondary_tiers[0]" + start));
  }
  for (const char* locality : {"LOCAL", "remote", "Remote"})
    CHECK(line_about(document(R"("secondary_tiers": [{"type": "fs", "root_dir": "/x", "locality": ")" +
                              std::string(locality) + "\"}]")) == "valid");
}

TEST_CASE("a capacity that the start refuses is refused before, with the range for this chunk",
          "[config]") {
  const auto line = [](const std::string& keys) {
    return line_about(
        R"({"chunk_bytes": "64 KiB", "cpu_bytes_to_use": "64 MiB", "secondary_tiers": [{)" + keys +
        "}]}");
  };
  const auto fs = [&](const std::string& bytes) {
    return line(R"("type": "fs", "root_dir": "/x", "capacity_bytes": )" + bytes);
  };
  const std::string forms =
      " is not allowed; expected a whole number of bytes, KiB, MiB, GiB or TiB in ";
  const std::string fs_range =
      forms + "[64 KiB, 16 TiB]: at least one chunk, at most 268435456 of them";
  CHECK(fs("65536") == "valid");
  CHECK(fs("\"16TiB\"") == "valid");
  for (const std::string bytes : {"65535", "0", "-1", "17592186044417", "\"1024TiB\"",
                                  "\"2048TiB\"", "18446744073709551615", "\"64 KB\""})
    CHECK(fs(bytes) == "secondary_tiers[0].capacity_bytes: " + bytes + fs_range);

  const auto extent = [&](const std::string& bytes, const std::string& more = "") {
    return line(R"("type": "extent", "path": "/x/y", "capacity_bytes": )" + bytes + more);
  };
  const auto extent_range = [](const std::string& min) {
    return "expected a whole number of bytes, KiB, MiB, GiB or TiB in [" + min +
           ", 262660 GiB]: at least 4 segments with their tables (a smaller segment_bytes needs "
           "less), "
           "fewer than 2^32 - 2 rows";
  };
  const std::string at = "secondary_tiers[0].capacity_bytes: ";
  CHECK(extent("\"292KiB\"") == "valid");
  CHECK(extent("\"256KiB\"") == at + "\"256KiB\" is not allowed; " + extent_range("292 KiB"));
  CHECK(extent("\"1024TiB\"") == at + "\"1024TiB\" is not allowed; " + extent_range("292 KiB"));
  CHECK(line(R"("type": "extent", "path": "/x/y")") ==
        at + "required, the length of the file; " + extent_range("292 KiB"));
  const std::string large = R"(, "segment_bytes": "1GiB")";
  CHECK(extent("\"1GiB\"", large).starts_with(at + "\"1GiB\" is not allowed; "));
  CHECK(extent("\"5GiB\"", large) == "valid");
  CHECK(extent("\"1GiB\"", R"(, "segment_bytes": "128MiB")") == "valid");
}

TEST_CASE("an unknown key of a tier is answered with every key that it has", "[config]") {
  const auto line = [](const std::string& keys) {
    return line_about(document("\"secondary_tiers\": [{" + keys + ", \"colour\": 1}]"));
  };
  CHECK(
      line(R"("type": "fs", "root_dir": "/x")") ==
      "secondary_tiers[0].colour: unknown key; known here: backpressure, capacity_bytes, checksum, "
      "durability, enable_kv_events, eviction_policy, foreign_files, io, io_threads, label, "
      "locality, max_inflight_bytes, n_read_threads, n_write_threads, pin_share, queue_depth, "
      "root_dir, type");
  CHECK(
      line(R"("type": "extent", "path": "/x", "capacity_bytes": "1 GiB")") ==
      "secondary_tiers[0].colour: unknown key; known here: backpressure, capacity_bytes, checksum, "
      "durability, enable_kv_events, io, label, locality, max_inflight_bytes, path, pin_share, "
      "queue_depth, rewrite_share, segment_bytes, segment_eviction, type");
}

TEST_CASE("two tiers that count bytes are not put in one place", "[config]") {
  const auto line = [](const std::string& a, const std::string& b) {
    return line_about(document("\"secondary_tiers\": [{" + a + "}, {" + b + "}]"));
  };
  const std::string fs = R"("type": "fs", "root_dir": "/x/y")";
  const std::string same_fs = R"("type": "fs", "root_dir": "/x/z/../y/")";
  const std::string capacity = R"(, "capacity_bytes": "1 GiB")";
  const std::string refusal =
      "secondary_tiers[1].root_dir: \"/x/y\" is not allowed; expected another place than that of "
      "secondary_tiers[0]";
  CHECK(line(fs + capacity, same_fs + capacity) == refusal);
  CHECK(line(fs, same_fs + capacity) == refusal);
  CHECK(line(fs + capacity, same_fs) == refusal);
  CHECK(line(fs, same_fs) == "valid");  // with a warning
  CHECK(line(fs + capacity, R"("type": "fs", "root_dir": "/x/yy", "capacity_bytes": "1 GiB")") ==
        "valid");
  const std::string extent = R"("type": "extent", "capacity_bytes": "1 GiB", "path": "/x/y")";
  CHECK(line(extent, R"("type": "extent", "capacity_bytes": "1 GiB", "path": "/x//y")") ==
        "secondary_tiers[1].path: \"/x/y\" is not allowed; expected another place than that of "
        "secondary_tiers[0]");
  CHECK(line(extent, fs) == "valid");
}

TEST_CASE("null means absent where the reference writes null", "[config]") {
  CHECK(line_about(document(R"("admission_policy": null, "metrics": {"port": null},
      "backpressure": {}, "identity": {"canonical_format": null},
      "secondary_tiers": [{"type": "fs", "root_dir": "/x", "backpressure": null}])")) == "valid");
}

TEST_CASE("a tier has a latency detector exactly where the reference would build one", "[config]") {
  // Top-level {absent, {}, fields} × tier {absent, null, {}, fields}: none only where the tier's key is
  // absent and the top level has no field.
  const std::string top[] = {"", R"("backpressure": {},)", R"("backpressure": {"alpha": 0.3},)"};
  const std::string tier[] = {"", R"(, "backpressure": null)", R"(, "backpressure": {})",
                              R"(, "backpressure": {"cooldown_s": 2})"};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      const auto config = EngineConfig::parse(
          R"({"chunk_bytes": 4096, "cpu_bytes_to_use": "1MiB", )" + top[i] +
          R"("secondary_tiers": [{"type": "fs", "root_dir": "/x")" + tier[j] + "}]}");
      REQUIRE(config);
      CHECK_FALSE(config->validate());
      const auto setup = build_admission(*config);
      REQUIRE(setup);
      CAPTURE(i, j);
      CHECK((setup->policy->name() == "composite") == (i == 2 || j > 0));
    }
  }
}

TEST_CASE("a configuration built in code is held to the same ranges", "[config]") {
  CHECK(line_after([](EngineConfig&) {}) == "valid");
  CHECK(line_after([](EngineConfig& c) { c.chunk_bytes = 100; }).substr(0, 28) ==
        "chunk_bytes: 100 is not allo");
  CHECK(line_after([](EngineConfig& c) { c.cpu_bytes_to_use = 4095; }).substr(0, 22) ==
        "cpu_bytes_to_use: 4095");
  CHECK(line_after([](EngineConfig& c) { c.jobs_max = 0; }) ==
        "jobs_max: 0 is not allowed; expected an integer in [1, 1048576]");
  CHECK(line_after([](EngineConfig& c) { c.worker_threads = 0; }) ==
        "worker_threads: 0 is not allowed; expected an integer in [1, 1024]");
  CHECK(line_after([](EngineConfig& c) { c.deadlines.probe = Duration::zero(); }) ==
        "deadlines.probe_ms: 0 is not allowed; expected an integer in [1, 86400000]");
  CHECK(line_after([](EngineConfig& c) { c.deadlines.drain = std::chrono::hours(25); }) ==
        "deadlines.drain_ms: 90000000 is not allowed; expected an integer in [1, 86400000]");
  CHECK(line_after([](EngineConfig& c) { c.domains = "all"; }) ==
        "domains: \"all\" is not allowed; expected auto, off or a number in [1, 64]");
  CHECK(line_after([](EngineConfig& c) { c.metrics.port = -1; }) ==
        "metrics.port: -1 is not allowed; expected an integer in [0, 65535]");
  CHECK(line_after([](EngineConfig& c) { c.metrics.address = ""; }) ==
        "metrics.address: \"\" is not allowed; expected an IP address or a host name of this "
        "machine, such as 127.0.0.1");
  CHECK(line_after([](EngineConfig& c) { c.store_threshold = 1'000'001; }) ==
        "store_threshold: 1000001 is not allowed; expected an integer in [0, 1000000]");
  CHECK(line_after([](EngineConfig& c) { c.max_tracker_size = 0; }) ==
        "max_tracker_size: 0 is not allowed; expected an integer in [1, 16777216]");
  CHECK(line_after([](EngineConfig& c) { c.log_level = "loud"; }).substr(0, 17) ==
        "log_level: \"loud\"");
  for (const char* io : {"auto", "uring", "threads"})
    CHECK(line_after([&](EngineConfig& c) { c.io = io; }) == "valid");
  CHECK(line_after([](EngineConfig& c) { c.io = "Threads"; }) ==
        "io: \"Threads\" is not allowed; expected one of: auto, uring, threads");
  CHECK(line_after([](EngineConfig& c) {
          c.primary.hold_share = std::numeric_limits<double>::quiet_NaN();
        }) == "primary.hold_share: nan is not allowed; expected a number in [0, 1]");
  CHECK(line_after([](EngineConfig& c) { c.secondary_tiers.resize(1); }) ==
        "secondary_tiers[0].type: missing; expected the name of a tier type");
  CHECK(line_after([](EngineConfig& c) { c.identity.model_name = ""; }) ==
        "identity.model_name: 0 bytes are not allowed; expected 1 to 200 bytes");
  CHECK(line_after([](EngineConfig& c) { c.identity.model_name = std::string(201, 'm'); }) ==
        "identity.model_name: 201 bytes are not allowed; expected 1 to 200 bytes");
  CHECK(line_after([](EngineConfig& c) { c.identity.tokens_per_hash = 0; }) ==
        "identity.tokens_per_hash: 0 is not allowed; expected an integer in [1, 1048576]");
  CHECK(
      line_after([](EngineConfig& c) {
        c.identity.kv_cache_groups.resize(1);
        c.identity.kv_cache_groups[0].tokens_per_block = 0;
      }) ==
      "identity.kv_cache_groups[0].tokens_per_block: 0 is not allowed; expected an integer in [1, "
      "1048576]");
}

TEST_CASE("what is no file name for admission's state is refused", "[config]") {
  CHECK(line_about(document(R"("admission_state_file": "/v/state")")) == "valid");
  CHECK(line_about(document(R"("admission_state_file": "/v/")")) ==
        "admission_state_file: \"/v/\" is not allowed; expected the name of a file");
  CHECK(line_about(document(R"("admission_state_file": 3)")).starts_with("admission_state_file: 3"));
  CHECK(line_after([](EngineConfig& c) { c.admission_state_file = "a\nb"; }) ==
        "admission_state_file: control characters are not allowed; expected printable text");
  CHECK(line_after([](EngineConfig& c) { c.admission_state_file = std::string(5000, 'x'); }) ==
        "admission_state_file: 5000 bytes are not allowed; expected at most 4000 bytes");
}
