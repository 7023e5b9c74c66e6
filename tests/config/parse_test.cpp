#include "kv_offload/tests/config/config_lines.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>

using namespace kv_offload;
using namespace std::chrono_literals;

TEST_CASE("every key of a document arrives in the configuration", "[config]") {
  const EngineConfig c = good_config(R"({
    "chunk_bytes": "16 KiB", "cpu_bytes_to_use": "1 GiB", "tokens_per_chunk": 64,
    "eviction_policy": "arc",
    "primary": {"headroom_share": 0.2, "hold_share": 0.1, "max_pinned_share": 0.3,
                "pin_unread": "never", "hold": false},
    "secondary_tiers": [
      {"type": "fs", "root_dir": "/a", "pin_share": 0.1, "queue_depth": 4},
      {"type": "fs", "root_dir": "/b", "backpressure": {"alpha": 0.5}}],
    "admission_policy": {"type": "promotion_concurrency", "max_inflight_promotions": 9},
    "identity": {"model_name": "m/x", "dtype": "fp8", "tokens_per_hash": 32, "blocks_per_file": 4,
      "tp_size": 2, "pp_size": 3, "pcp_size": 4, "dcp_size": 5, "rank": 1,
      "inference_engine": "other", "parallelism_agnostic": true, "replicated_layout": true,
      "canonical_format": "v1", "tenant": "t",
      "kv_cache_groups": [{"tokens_per_block": 8, "layer_names": ["l0", "l1"]}, {}]},
    "revision": "r2", "domains": 4, "topology": "synthetic:NUMANode:4 PU:2", "io": "uring",
    "deadlines": {"load_ms": 1, "store_ms": 2, "probe_ms": 3, "lookup_ms": 4, "unread_ms": 5,
                  "drain_ms": 6, "shutdown_ms": 7},
    "jobs_max": 11, "probes_max": 12, "calls_max": 13, "keys_max": 14, "requests_max": 15,
    "worker_threads": 3, "spin_us": 0, "compute_tokens_per_s": 16500, "huge_pages": false, "enable_kv_events": true,
    "log_level": "debug", "metrics": {"port": 0, "address": "0.0.0.0"}})");
  CHECK(c.chunk_bytes == 16384);
  CHECK(c.cpu_bytes_to_use == 1u << 30);
  CHECK(c.num_chunks() == 65536);
  CHECK(c.tokens_per_chunk == 64);
  CHECK(c.compute_tokens_per_s == 16500);
  CHECK(c.eviction_policy == "arc");
  CHECK(c.primary.headroom_share == 0.2);
  CHECK(c.primary.hold_share == 0.1);
  CHECK(c.primary.max_pinned_share == 0.3);
  CHECK(c.primary.pin_unread == PrimaryConfig::PinUnread::never);
  CHECK_FALSE(c.primary.hold);
  REQUIRE(c.secondary_tiers.size() == 2);
  CHECK(c.secondary_tiers[0].type == "fs");
  CHECK(c.secondary_tiers[0].path == "secondary_tiers[0]");
  CHECK(c.secondary_tiers[0].pin_share == 0.1);
  CHECK_FALSE(c.secondary_tiers[1].pin_share);
  // The tier gets its own keys and nothing that the engine has used up.
  const auto* own = c.secondary_tiers[0].node.object();
  REQUIRE(own != nullptr);
  CHECK(own->size() == 2);
  CHECK(own->contains("root_dir"));
  CHECK(own->contains("queue_depth"));
  CHECK(c.secondary_tiers[1].node.find("backpressure") != nullptr);
  CHECK(c.admission_policy.find("max_inflight_promotions") != nullptr);
  CHECK(c.identity.model_name == "m/x");
  CHECK(c.identity.dtype == "fp8");
  CHECK(c.identity.tokens_per_hash == 32);
  CHECK(c.identity.blocks_per_file == 4);
  CHECK(c.identity.tp_size == 2);
  CHECK(c.identity.pp_size == 3);
  CHECK(c.identity.pcp_size == 4);
  CHECK(c.identity.dcp_size == 5);
  CHECK(c.identity.rank == 1);
  CHECK(c.identity.inference_engine == "other");
  CHECK(c.identity.parallelism_agnostic);
  CHECK(c.identity.replicated_layout);
  CHECK(c.identity.canonical_format == "v1");
  CHECK(c.identity.tenant == "t");
  CHECK(c.identity.revision == "r2");
  REQUIRE(c.identity.kv_cache_groups.size() == 2);
  CHECK(c.identity.kv_cache_groups[0].tokens_per_block == 8);
  CHECK(c.identity.kv_cache_groups[0].layer_names == std::vector<std::string>{"l0", "l1"});
  CHECK(c.identity.kv_cache_groups[1].tokens_per_block == 16);
  CHECK(c.domains == "4");
  CHECK(c.topology == "synthetic:NUMANode:4 PU:2");
  CHECK(c.io == "uring");
  CHECK(c.deadlines.load == 1ms);
  CHECK(c.deadlines.store == 2ms);
  CHECK(c.deadlines.probe == 3ms);
  CHECK(c.deadlines.lookup == 4ms);
  CHECK(c.deadlines.unread == 5ms);
  CHECK(c.deadlines.drain == 6ms);
  CHECK(c.deadlines.shutdown == 7ms);
  CHECK(c.jobs_max == 11);
  CHECK(c.probes_max == 12);
  CHECK(c.calls_max == 13);
  CHECK(c.keys_max == 14);
  CHECK(c.requests_max == 15);
  CHECK(c.worker_threads == 3);
  CHECK(c.spin_us == 0);
  CHECK_FALSE(c.huge_pages);
  CHECK(c.enable_kv_events);
  CHECK(c.log_level == "debug");
  CHECK(c.metrics.port == 0);
  CHECK(c.metrics.address == "0.0.0.0");
  CHECK(c.notes.empty());
}

TEST_CASE("an absent key keeps its default", "[config]") {
  const EngineConfig c = good_config(document());
  const EngineConfig d;
  CHECK(c.eviction_policy == d.eviction_policy);
  CHECK(c.jobs_max == d.jobs_max);
  CHECK(c.deadlines.lookup == d.deadlines.lookup);
  CHECK(c.primary.hold == d.primary.hold);
  CHECK(c.primary.pin_unread == PrimaryConfig::PinUnread::until_read);
  CHECK(c.admission_policy.is_null());
  CHECK_FALSE(c.metrics.port);
  CHECK(c.secondary_tiers.empty());
}

TEST_CASE("keys of other engines are accepted with a note that they have no effect", "[config]") {
  const EngineConfig c = good_config(document(R"(
    "spec_name": "MySpec", "spec_module_path": "a.b", "max_tracker_size": 64000,
    "self_describing_kv_events": false, "cache_policy_module_path": null, "engine_id": "e",
    "secondary_tiers": [{"type": "fs", "root_dir": "/x", "module_path": "a.b",
      "n_read_threads": 16, "n_write_threads": 16, "backpressure": null}])"));
  CHECK_FALSE(c.validate());
  REQUIRE(c.notes.size() == 9);
  for (const auto& note : c.notes) CHECK(note.find(": has no effect: ") != std::string::npos);
  CHECK(std::count_if(c.notes.begin(), c.notes.end(), [](const auto& note) {
          return note.substr(0, 17) == "max_tracker_size:";
        }) == 1);
  CHECK(good_config(document(R"("spec_name": null)")).notes.size() == 1);
}

TEST_CASE("atomic groups arrive as they are listed", "[config]") {
  CHECK(good_config(document(R"("atomic_groups": [[0, 2], [1, 3]])")).atomic_groups ==
        std::vector<std::vector<std::uint32_t>>{{0, 2}, {1, 3}});
  CHECK(good_config(document()).atomic_groups.empty());
}

TEST_CASE("keys of the reuse filter and of the prompt's end arrive", "[config]") {
  const EngineConfig c = good_config(
      document(R"("store_threshold": 2, "max_tracker_size": 100, "offload_prompt_only": false)"));
  CHECK_FALSE(c.validate());
  CHECK(c.store_threshold == 2);
  CHECK(c.max_tracker_size == 100);
  CHECK_FALSE(c.offload_prompt_only);
  CHECK(c.notes.empty());
  CHECK(EngineConfig{}.store_threshold == 0);
  CHECK(EngineConfig{}.max_tracker_size == 64000);
  CHECK(EngineConfig{}.offload_prompt_only);
}

TEST_CASE("the chunk size follows from the serving engine's block size", "[config]") {
  const auto derive = [](const std::string& keys) {
    return good_config(R"({"cpu_bytes_to_use": "1 GiB", )" + keys + "}");
  };
  const EngineConfig blocks =
      derive(R"("worker_kv_bytes_per_block": 8192, "world_size": 2, "blocks_per_chunk": 3)");
  CHECK(blocks.chunk_bytes == 8192 * 2 * 3);
  CHECK(blocks.identity.blocks_per_file == 3);
  CHECK(blocks.tokens_per_chunk == 0);
  CHECK(blocks.origins.at("chunk_bytes") == "derived: 8192 B/block x 2 workers x 3 blocks");

  const EngineConfig tokens = derive(R"("worker_kv_bytes_per_block": "8 KiB", "block_size": 64,
      "identity": {"kv_cache_groups": [{"tokens_per_block": 16}]})");
  CHECK(tokens.chunk_bytes == 8192 * 4);
  CHECK(tokens.tokens_per_chunk == 64);

  const EngineConfig replicated = derive(R"("worker_kv_bytes_per_block": 8192, "world_size": 8,
      "identity": {"replicated_layout": true, "blocks_per_file": 7})");
  CHECK(replicated.chunk_bytes == 8192);
  CHECK(replicated.identity.blocks_per_file == 7);
}

TEST_CASE("a chunk size that cannot be derived is refused with what is missing", "[config]") {
  const auto line = [](const std::string& keys) {
    return line_about(R"({"cpu_bytes_to_use": "1 GiB", )" + keys + "}");
  };
  CHECK(line(R"("chunk_bytes": 4096, "block_size": 16)") ==
        "block_size: 16 is not allowed; expected it absent beside chunk_bytes, which already says "
        "the size");
  CHECK(
      line(R"("blocks_per_chunk": 2)") ==
      "blocks_per_chunk: 2 is not allowed; expected worker_kv_bytes_per_block beside it to derive "
      "chunk_bytes, or chunk_bytes instead");
  CHECK(line(R"("worker_kv_bytes_per_block": 8192, "blocks_per_chunk": 2, "block_size": 32)") ==
        "block_size: 32 is not allowed; expected only one of block_size and blocks_per_chunk");
  CHECK(
      line(R"("worker_kv_bytes_per_block": 8192, "block_size": 32)") ==
      "block_size: 32 is not allowed; expected identity.kv_cache_groups with one tokens_per_block "
      "to divide it by, or blocks_per_chunk");
  CHECK(line(R"("worker_kv_bytes_per_block": 8192, "block_size": 24,
               "identity": {"kv_cache_groups": [{"tokens_per_block": 16}]})") ==
        "block_size: 24 is not allowed; expected a multiple of tokens_per_block 16");
  CHECK(line(R"("worker_kv_bytes_per_block": 8192, "blocks_per_chunk": 0)") ==
        "blocks_per_chunk: 0 is not allowed; expected an integer in [1, 1048576]");
  CHECK(line(R"("worker_kv_bytes_per_block": "1 GiB", "blocks_per_chunk": 5)") ==
        "worker_kv_bytes_per_block: 1073741824 B/block x 1 workers x 5 blocks is not allowed; "
        "expected chunk_bytes in [512 B, 4 GiB]");
}
