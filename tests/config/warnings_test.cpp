#include "kv_offload/tests/config/config_lines.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace kv_offload;

namespace {

const std::string kTier = R"("identity": {"model_name": "m"}, "secondary_tiers": [{"type": "fs",
    "root_dir": "/x", "capacity_bytes": "4 GiB"}])";

std::vector<std::string> warnings_of(const std::string& keys) {
  return good_config(document(keys)).warnings();
}
void check_only(const std::string& keys, const std::vector<std::string>& lines) {
  INFO(keys);
  CHECK(warnings_of(keys) == lines);
}

}  // namespace

TEST_CASE("a harmless configuration has no warning", "[config]") {
  check_only("", {});
  check_only(kTier, {});
}

TEST_CASE("a primary tier too small to be useful is warned about with numbers", "[config]") {
  const auto lines = good_config(R"({"chunk_bytes": 4096, "cpu_bytes_to_use": 12288})").warnings();
  REQUIRE(lines.size() == 2);
  CHECK(
      lines[0] ==
      "cpu_bytes_to_use: 3 chunks of 4 KiB; a primary tier below 64 chunks evicts before anything "
      "is read");
  CHECK(lines[1] ==
        "primary.hold_share: 0.25 of 3 chunks is 0 chunks: no hit is held, and it may be evicted "
        "between lookup and prepare_load");
}

TEST_CASE("a primary tier larger than the machine is warned about", "[config]") {
  const auto lines =
      good_config(R"({"chunk_bytes": "1 MiB", "cpu_bytes_to_use": "64 TiB"})").warnings();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].substr(0, 34) == "cpu_bytes_to_use: 67108864 MiB is ");
  CHECK(lines[0].find("above 80 %") != std::string::npos);
}

TEST_CASE("rows that are mostly padding are warned about", "[config]") {
  const auto lines =
      good_config(R"({"chunk_bytes": 1024, "cpu_bytes_to_use": "1 MiB"})").warnings();
  REQUIRE(lines.size() == 1);
  CHECK(
      lines[0] ==
      "chunk_bytes: 1024 in rows of 4096 bytes wastes 75 % of memory and of every file; a multiple "
      "of 4096 wastes none");
}

TEST_CASE("shares that come to no chunk are warned about where they matter", "[config]") {
  check_only(R"("primary": {"hold_share": 0})",
             {"primary.hold_share: 0 of 1000 chunks is 0 chunks: no hit is held, and it may be "
              "evicted between lookup and prepare_load"});
  check_only(R"("primary": {"hold_share": 0, "hold": false})", {});
  check_only(kTier + R"(, "primary": {"headroom_share": 0.0005, "max_pinned_share": 0})",
             {"primary.headroom_share: 0.0005 of 1000 chunks is 0 chunks: promotions may take the "
              "last slot from a device store",
              "primary.max_pinned_share: 0 of 1000 chunks is 0 chunks: no promoted chunk is kept "
              "until it is read"});
  check_only(R"("identity": {"model_name": "m"}, "secondary_tiers": [{"type": "fs", "root_dir":
                "/x", "capacity_bytes": "4 GiB", "pin_share": 0}])",
             {"secondary_tiers[0].pin_share: 0 of 1000 chunks is 0 chunks: every cascade to this "
              "tier is refused"});
}

TEST_CASE("holding nothing and pinning nothing at once is warned about", "[config]") {
  check_only(
      kTier + R"(, "primary": {"hold": false, "pin_unread": "never"})",
      {"primary.hold: false together with primary.pin_unread: never keeps nothing: a promoted "
       "chunk may be evicted before the request that asked for it reads it"});
  check_only(kTier + R"(, "primary": {"hold": false})", {});
}

TEST_CASE("tiers that fill the disk, share a directory or hold too little are warned about",
          "[config]") {
  check_only(R"("identity": {"model_name": "m"}, "secondary_tiers": [
                {"type": "fs", "root_dir": "/x/y"}, {"type": "fs", "root_dir": "/x/./z/../y/"}])",
             {"secondary_tiers[1].root_dir: the same directory as secondary_tiers[0]: one copy is "
              "counted as two, and each tier finds what the other wrote",
              "secondary_tiers[0].capacity_bytes: not set: the directory grows by 4 "
              "KiB for every new chunk until the disk is full",
              "secondary_tiers[1].capacity_bytes: not set: the directory grows by 4 "
              "KiB for every new chunk until the disk is full"});
  check_only(
      R"("identity": {"model_name": "m"}, "secondary_tiers": [
                {"type": "fs", "root_dir": "x", "capacity_bytes": "1 MiB", "enable_kv_events": true}])",
      {"secondary_tiers[0].root_dir: x depends on the working directory; an absolute path "
       "does not",
       "secondary_tiers[0].enable_kv_events: true has no effect while the engine's own "
       "enable_kv_events is false",
       "secondary_tiers[0].capacity_bytes: 1 MiB is less than the primary tier's 4000 KiB: it "
       "can hold nothing that the tier above it does not"});
  check_only(
      R"("secondary_tiers": [{"type": "fs", "root_dir": "/x", "capacity_bytes": 4e9}])",
      {"identity.model_name: the default \"model\": engines of different models that share a "
       "tier would share one namespace"});
}

TEST_CASE("an eviction policy without a capacity is warned about", "[config]") {
  check_only(
      R"("identity": {"model_name": "m"}, "secondary_tiers": [
                {"type": "fs", "root_dir": "/x", "eviction_policy": "arc"}])",
      {"secondary_tiers[0].eviction_policy: arc has no effect without capacity_bytes: nothing is "
       "ever evicted",
       "secondary_tiers[0].capacity_bytes: not set: the directory grows by 4 "
       "KiB for every new chunk until the disk is full"});
}

TEST_CASE("a capacity whose index is larger than the memory is warned about", "[config]") {
  // 2^28 chunks: 17 GiB, more than half of any machine below 34 GiB.
  const auto warnings =
      good_config(document(R"("identity": {"model_name": "m"}, "secondary_tiers": [
                {"type": "fs", "root_dir": "/x", "capacity_bytes": "1 TiB"}])"))
          .warnings();
  if (warnings.empty()) {
    WARN("skipped: this machine has more than 34 GiB of memory");
    return;
  }
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].starts_with(
      "secondary_tiers[0].capacity_bytes: 1 TiB is room for 268435456 chunks: "
      "their index grows to about 17152 MiB, more than half of the "));
}

TEST_CASE("a tier that holds less than the tier above it is warned about", "[config]") {
  check_only(
      R"("identity": {"model_name": "m"}, "secondary_tiers": [
                {"type": "fs", "root_dir": "/x", "capacity_bytes": "2 GiB"},
                {"type": "fs", "root_dir": "/y", "capacity_bytes": "1 GiB"},
                {"type": "example", "chunks_max": 1000}])",
      {"secondary_tiers[1].capacity_bytes: 1 GiB is less than secondary_tiers[0]'s 2 GiB: it can "
       "hold nothing that the tier above it does not",
       "secondary_tiers[2].chunks_max: 4000 KiB is less than secondary_tiers[1]'s 1 GiB: it can "
       "hold nothing that the tier above it does not"});
  check_only(R"("identity": {"model_name": "m"}, "secondary_tiers": [
                {"type": "example", "chunks_max": 1000}])",
             {});  // just as large
}

TEST_CASE("two backpressure gates on one tier are warned about by their paths", "[config]") {
  check_only(
      R"("identity": {"model_name": "m"}, "secondary_tiers": [
                {"type": "example", "backpressure": {}}, {"type": "example"}],
         "admission_policy": {"type": "composite", "policies": [{"type": "cascade_backpressure"}]})",
      {"secondary_tiers[0]: 2 backpressure gates on one tier, admission_policy.policies[0] and "
       "secondary_tiers[0].backpressure: a cascade has to pass all of them, and the first that "
       "refuses decides"});
  check_only(R"("backpressure": {"alpha": 0.5})",
             {"backpressure: has nothing to watch: there are 0 secondary tiers"});
}

TEST_CASE("a metrics address of another machine is warned about", "[config]") {
  // 192.0.2.0/24 is reserved for documentation: no machine has it.
  check_only(R"("metrics": {"port": 0, "address": "192.0.2.1"})",
             {"metrics.address: 192.0.2.1 is not an address of this machine: an engine does not "
              "start here"});
  check_only(R"("metrics": {"address": "192.0.2.1"})", {});  // no server
}

TEST_CASE("an admission policy that decides nothing is warned about", "[config]") {
  check_only(kTier + R"(, "admission_policy": {"type": "composite", "policies": []})",
             {"admission_policy.policies: an empty list admits everything"});
  check_only(R"("admission_policy": {"type": "promotion_concurrency"})",
             {"admission_policy: has nothing to decide: there are 0 secondary tiers"});
}

TEST_CASE("deadlines in the wrong order are warned about with both numbers", "[config]") {
  check_only(
      kTier + R"(, "deadlines": {"lookup_ms": 1000})",
      {"deadlines.lookup_ms: 1000 ms is less than load_ms, 30000 ms: a lookup gives up while "
       "the promotion it started may still arrive",
       "deadlines.lookup_ms: 1000 ms is less than probe_ms, 5000 ms: a lookup gives up before "
       "a tier has to answer"});
  check_only(kTier + R"(, "deadlines": {"drain_ms": 10, "unread_ms": 20})",
             {"deadlines.drain_ms: 10 ms is less than store_ms, 30000 ms: a drain gives up before "
              "the last store has to end",
              "deadlines.unread_ms: 20 ms is less than lookup_ms, 60000 ms: a promoted chunk may "
              "lose its hold while its lookup still waits for others"});
}

TEST_CASE("limits that defeat each other and open metrics are warned about", "[config]") {
  check_only(kTier + R"(, "probes_max": 100)",
             {"probes_max: 100 is less than keys_max, 65536: the tail of one full lookup of the "
              "polling view is given up unasked"});
  check_only(
      R"("metrics": {"port": 9100, "address": "0.0.0.0"})",
      {"metrics.address: 0.0.0.0 port 9100: whoever reaches it reads the metrics; there is no "
       "authentication"});
  const auto threads = warnings_of(R"("worker_threads": 1024)");
  REQUIRE(threads.size() == 1);
  CHECK(threads[0].substr(0, 24) == "worker_threads: 1024 on ");
}

TEST_CASE("a write budget whose state is not kept is warned about, and a file without state",
          "[config]") {
  const std::string budget =
      kTier + R"(, "admission_policy": {"type": "write_budget", "bytes_per_day": "1 TiB"})";
  check_only(budget,
             {"admission_state_file: not set: a restart forgets the bytes that were written, and "
              "write_budget begins each time with peak_bytes"});
  check_only(budget + R"(, "admission_state_file": "/tmp/state")", {});
  check_only(kTier + R"(, "admission_state_file": "/tmp/state")",
             {"admission_state_file: /tmp/state stays unused: no policy of admission_policy has "
              "anything to keep"});
  check_only(budget + R"(, "admission_state_file": "state")",
             {"admission_state_file: state depends on the working directory; an absolute path does "
              "not"});
  check_only(budget + R"(, "admission_state_file": "/nowhere-of-this-machine/state")",
             {"admission_state_file: /nowhere-of-this-machine is not a directory of this machine: "
              "an engine does not start here"});
}
