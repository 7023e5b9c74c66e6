// Worker processes in a configuration.
#include "kv_offload/tests/config/config_lines.hpp"

#include <catch2/catch.hpp>

#include <string>

using namespace kv_offload;
using namespace std::chrono_literals;

namespace {

std::string line_about_workers(const std::string& workers, const std::string& more = "") {
  return line_about(document("\"workers\": " + workers + (more.empty() ? "" : ", " + more)));
}

/// Value and origin of a row, as check-config shows it.
std::string shown(const EngineConfig& config, const std::string& key) {
  for (const auto& row : config.effective())
    if (row.key == key) return row.value + "|" + row.origin;
  return "no such row";
}

}  // namespace

TEST_CASE("without workers the primary tier is the process's own", "[config][workers]") {
  const EngineConfig c = good_config(document());
  CHECK_FALSE(c.workers);
  CHECK(shown(c, "workers") == "(none)|default");
}

TEST_CASE("keys of workers arrive", "[config][workers]") {
  const EngineConfig c = good_config(document(R"("engine_id": "e0", "deadlines": {"copy_ms": 250},
      "workers": {"world_size": 4, "socket": "/run/kv.sock", "region_file": "/dev/shm/kv", "join_ms": 1500})"));
  CHECK_FALSE(c.validate());
  REQUIRE(c.workers);
  CHECK(c.workers->world_size == 4);
  CHECK(c.workers->socket == "/run/kv.sock");
  CHECK(c.workers->region_file == "/dev/shm/kv");
  CHECK(c.workers->join == 1500ms);
  CHECK(c.deadlines.copy == 250ms);
  CHECK(c.engine_id == "e0");
  CHECK(c.notes.empty());
  CHECK(shown(c, "workers.world_size") == "4|config");
  CHECK(shown(c, "workers.blocks_per_chunk") == "1|derived: identity.blocks_per_file");
  CHECK(shown(c, "workers.layout") == "sharded|derived: neither canonical nor replicated");
  CHECK(shown(c, "workers.join_ms") == "1500|config");
  CHECK(shown(c, "deadlines.copy_ms") == "250|config");
  CHECK(shown(c, "engine_id") == "e0|config");
}

TEST_CASE("an engine_id names the socket where nothing else does", "[config][workers]") {
  const EngineConfig c = good_config(document(R"("engine_id": "e0_dp1", "workers": {})"));
  CHECK_FALSE(c.validate());
  CHECK(c.workers->socket == "@kv_offload-e0_dp1");
  CHECK(shown(c, "workers.socket") == "@kv_offload-e0_dp1|derived: engine_id");
  CHECK(shown(c, "workers.region_file") == "(memfd)|default");
  // Who names a file may want no socket.
  CHECK(good_config(document(R"("engine_id": "e", "workers": {"region_file": "/dev/shm/r"})")).workers->socket.empty());
}

TEST_CASE("the world size of a derived chunk is that of the workers", "[config][workers]") {
  const EngineConfig c = good_config(R"({"cpu_bytes_to_use": "1 GiB", "worker_kv_bytes_per_block": 4096,
      "world_size": 4, "blocks_per_chunk": 2, "workers": {"socket": "@w"}})");
  CHECK_FALSE(c.validate());
  CHECK(c.workers->world_size == 4);
  CHECK(c.chunk_bytes == 4096 * 4 * 2);
  CHECK(c.identity.blocks_per_file == 2);
  CHECK(shown(c, "workers.world_size") == "4|derived: world_size");
}

TEST_CASE("how workers share a row follows from the identity", "[config][workers]") {
  const auto layout = [](const std::string& identity) {
    return good_config(document("\"identity\": {" + identity + "}")).chunk_layout();
  };
  CHECK(layout("") == ChunkLayout::sharded);
  CHECK(layout(R"("replicated_layout": true)") == ChunkLayout::replicated);
  CHECK(layout(R"("canonical_format": "v1-nhd")") == ChunkLayout::canonical);
  CHECK(layout(R"("canonical_format": "v1-nhd", "replicated_layout": true)") == ChunkLayout::canonical);
}

TEST_CASE("the reference's canonical_layout must agree with the format", "[config][workers]") {
  CHECK(line_about(document(R"("canonical_layout": true, "identity": {"canonical_format": "v1-nhd"})")) == "valid");
  CHECK(line_about(document(R"("canonical_layout": false)")) == "valid");
  const std::string expected =
      " is not allowed; expected true beside identity.canonical_format (such as \"v1-nhd\"), false without it";
  CHECK(line_about(document(R"("canonical_layout": true)")) == "canonical_layout: true" + expected);
  CHECK(line_about(document(R"("canonical_layout": false, "identity": {"canonical_format": "v1-nhd"})")) ==
        "canonical_layout: false" + expected);
}

TEST_CASE("each mistake about workers is one line with field, value and what is allowed", "[config][workers]") {
  CHECK(line_about_workers("4") == "workers: 4 is not allowed; expected an object");
  CHECK(line_about_workers("{}") ==
        "workers.socket: missing; expected \"@name\", a path, or an engine_id to name it after (or workers.region_file)");
  CHECK(line_about_workers(R"({"socket": "@a", "world_size": 0})") ==
        "workers.world_size: 0 is not allowed; expected an integer in [1, 1024]");
  CHECK(line_about_workers(R"({"socket": "@a", "world_size": 1025})") ==
        "workers.world_size: 1025 is not allowed; expected an integer in [1, 1024]");
  CHECK(line_about_workers(R"({"socket": "name"})") ==
        "workers.socket: \"name\" is not allowed; expected \"@name\" or an absolute path");
  CHECK(line_about_workers(R"({"socket": "@"})") ==
        "workers.socket: \"@\" is not allowed; expected \"@name\" or an absolute path");
  CHECK(line_about_workers("{\"socket\": \"@" + std::string(107, 'x') + "\"}") ==
        "workers.socket: 108 bytes are not allowed; expected 1 to 107 bytes");
  CHECK(line_about_workers(R"({"region_file": "r"})") ==
        "workers.region_file: \"r\" is not allowed; expected an absolute path of a file");
  CHECK(line_about_workers(R"({"region_file": "/dev/shm/"})") ==
        "workers.region_file: \"/dev/shm/\" is not allowed; expected an absolute path of a file");
  CHECK(line_about_workers(R"({"socket": "@a", "join_ms": 0})") ==
        "workers.join_ms: 0 is not allowed; expected an integer in [1, 86400000]");
  CHECK(line_about_workers(R"({"socket": "@a", "world_size": 3})") ==
        "chunk_bytes: 4096 is not allowed; expected a multiple of workers.world_size 3: each worker has a slot in every row");
  CHECK(line_about_workers(R"({"socket": "@a"})", R"("identity": {"blocks_per_file": 3})") ==
        "chunk_bytes: 4096 is not allowed; expected a multiple of identity.blocks_per_file 3, the blocks of a chunk");
  CHECK(line_about_workers(R"({"socket": "@a", "ranks": 3})").starts_with("workers.ranks: unknown key"));
  CHECK(line_about(document("\"engine_id\": \"" + std::string(65, 'e') + "\"")) ==
        "engine_id: 65 bytes are not allowed; expected at most 64 bytes");
  // One slot for all: the world need not divide it.
  CHECK(line_about_workers(R"({"socket": "@a", "world_size": 3})", R"("identity": {"replicated_layout": true})") == "valid");
}

TEST_CASE("workers that the namespace does not speak of, and memory on a disk, are warned about", "[config][workers]") {
  const auto warned = [](const std::string& keys, const std::string& start) {
    for (const auto& line : good_config(document(keys)).warnings())
      if (line.starts_with(start)) return true;
    return false;
  };
  CHECK(warned(R"("workers": {"socket": "@w", "world_size": 2}, "identity": {"tp_size": 4})", "workers.world_size: 2, but"));
  CHECK_FALSE(warned(R"("workers": {"socket": "@w", "world_size": 4}, "identity": {"tp_size": 4})", "workers."));
  CHECK(warned(R"("workers": {"region_file": "/proc/r"})", "workers.region_file: /proc/r is on a disk"));
  CHECK_FALSE(warned(R"("workers": {"region_file": "/dev/shm/r"})", "workers."));
}
