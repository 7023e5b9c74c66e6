#include "kv_offload/actors/engine_config_domains.hpp"
#include "kv_offload/tests/config/config_lines.hpp"

#include <catch2/catch.hpp>

#include <map>
#include <string>
#include <vector>

using namespace kv_offload;

namespace {

std::string nodes(int count, const std::string& more) {
  return document(R"("topology": "synthetic:NUMANode:)" + std::to_string(count) +
                  R"( Core:2 PU:2", )" + more);
}

std::map<std::string, std::string> rows_of(const EngineConfig& config) {
  std::map<std::string, std::string> rows;
  for (const auto& row : config.effective())
    rows[row.key] = row.value + "|" + row.unit + "|" + row.origin;
  return rows;
}

}  // namespace

TEST_CASE("domains are a word or a number, also in quotes", "[config]") {
  CHECK(good_config(document()).domains == "auto");
  CHECK(good_config(document(R"("domains": "off")")).domains == "off");
  CHECK(good_config(document(R"("domains": 2)")).domains == "2");
  CHECK(good_config(document(R"("domains": "64")")).domains == "64");
  CHECK(line_about(document(R"("domains": 0)")) ==
        "domains: 0 is not allowed; expected auto, off or a number in [1, 64]");
  CHECK(line_about(document(R"("domains": 2.5)")) ==
        "domains: 2.5 is not allowed; expected auto, off or a number in [1, 64]");
  CHECK(line_about(document(R"("domains": [2])")) ==
        "domains: a list of 1 is not allowed; expected auto, off or a number in [1, 64]");
}

TEST_CASE("a topology that cannot be planned for is refused by name", "[config]") {
  CHECK(line_about(document(R"("topology": "mine")")) ==
        "topology: \"mine\" is not allowed; expected \"synthetic:DESCRIPTION\", \"xml:FILE\" or "
        "nothing: this machine");
  CHECK(line_about(document(R"("topology": "xml:/nowhere")")) ==
        "topology: \"xml:/nowhere\" is not allowed; expected a readable file of hwloc's XML (No "
        "such file or directory)");
  CHECK(line_about(document(R"("topology": 2)")) ==
        "topology: 2 is not allowed; expected a string");
}

TEST_CASE("more domains than nodes are refused", "[config]") {
  CHECK(line_about(nodes(2, R"("domains": 2)")) == "valid");
  CHECK(line_about(nodes(2, R"("domains": 3)")) ==
        "domains: 3 is not allowed; this process may use 2 NUMA nodes (0, 1): expected auto, off or "
        "at most 2");
}

TEST_CASE("chunks are a multiple of the domains squared", "[config]") {
  auto config = good_config(nodes(3, R"("domains": "auto")"));
  CHECK(config.num_chunks() == 1000);
  const auto plan = resolve_domains(config);
  REQUIRE(plan.has_value());
  CHECK(plan->num_domains() == 3);
  CHECK(config.num_domains == 3);
  CHECK(config.num_chunks() == 999);
  CHECK(config.share_chunks(0.5) == 499);
  const auto rows = rows_of(good_config(nodes(3, R"("domains": "auto")")));
  CHECK(rows.at("domains") == "auto||config");
  CHECK(rows.at("topology") == "synthetic:NUMANode:3 Core:2 PU:2||config");
  CHECK(rows.at("num_domains") == "3|domains|derived: not pinned, for NUMA nodes 0, 1, 2");
  CHECK(rows.at("num_chunks") ==
        "999|chunks|derived: cpu_bytes_to_use / row_bytes, down to a multiple of num_domains "
        "squared");
  CHECK(rows.at("slice_chunks") ==
        "111|chunks|derived: num_chunks / num_domains squared: of a domain's keys in one node's "
        "memory");
  CHECK(rows.at("primary.headroom_chunks") == "99|chunks|derived: 0.1 x 999 chunks");
}

TEST_CASE("one domain has all chunks and is bound to nothing", "[config]") {
  const auto rows = rows_of(good_config(nodes(3, R"("domains": "off")")));
  CHECK(rows.at("num_chunks") == "1000|chunks|derived: cpu_bytes_to_use / row_bytes");
  CHECK(rows.at("num_domains") ==
        "1|domains|derived: memory and threads are bound to no NUMA node");
  CHECK_FALSE(rows.contains("slice_chunks"));
}

TEST_CASE("memory without a row for each pair of domains is refused", "[config]") {
  const std::string small =
      R"({"chunk_bytes": 4096, "cpu_bytes_to_use": 12288, "topology": "synthetic:NUMANode:2 PU:2")";
  CHECK(line_about(small + "}") ==
        "cpu_bytes_to_use: 12288 is not allowed; expected at least 16384, a row for each of 2 "
        "domains in the memory of each, or domains: off");
  CHECK(line_about(small + R"(, "domains": "off"})") == "valid");
}

TEST_CASE("domains that share out too little are warned about", "[config]") {
  CHECK(good_config(nodes(4, R"("domains": "auto")")).warnings() ==
        std::vector<std::string>{
            "topology: synthetic:NUMANode:4 Core:2 PU:2 is not of this machine: no thread and no "
            "memory is bound by it",
            "domains: 4 leave 62 of 992 chunks for the keys of one domain in the memory of another; "
            "below 64 many chunks lie far from their device"});
  CHECK(good_config(nodes(3, R"("domains": "auto")")).warnings().size() == 1);
}

TEST_CASE("what the nodes of this machine lack is warned about", "[config]") {
  auto config = good_config(document());
  config.num_domains = 2;
  DomainPlan plan;
  plan.domains = {{0, {0, 1, 2}}, {1, {3}}};
  plan.pins = true;
  plan.notes = {"domains: NUMA node 2 carries no domain"};
  std::vector<std::string> warnings;
  warn_about_domains(config, plan, warnings);
  CHECK(warnings == std::vector<std::string>{
                        "domains: NUMA node 2 carries no domain",
                        "domains: NUMA node 1 has 1 CPU for this process, and 2 threads are pinned "
                        "there"});
}
