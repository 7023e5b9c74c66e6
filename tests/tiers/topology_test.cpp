#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tiers/topology/domain_plan.hpp"

#include <catch2/catch.hpp>

#include <fstream>
#include <sched.h>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace kv_offload::test {
namespace {

Topology topology_of(const std::string& source) {
  auto topology = read_topology(source);
  INFO((topology ? "" : topology.error().detail));
  REQUIRE(topology.has_value());
  return *topology;
}

DomainPlan plan_of(const std::string& wanted, const Topology& topology) {
  auto plan = plan_domains(wanted, topology);
  INFO((plan ? "" : plan.error().detail));
  REQUIRE(plan.has_value());
  return *plan;
}

std::string refusal(const std::string& wanted, const Topology& topology) {
  const auto plan = plan_domains(wanted, topology);
  REQUIRE_FALSE(plan.has_value());
  CHECK(plan.error().code == OffloadErrc::invalid_config);
  return plan.error().detail;
}

TEST_CASE("auto plans a domain for each node of a described machine", "[topology][unit]") {
  const std::uint32_t nodes = GENERATE(1U, 2U, 4U, 8U, 64U);
  const auto topology =
      topology_of("synthetic:NUMANode:" + std::to_string(nodes) + " Core:2 PU:2");
  REQUIRE(topology.nodes.size() == nodes);
  CHECK_FALSE(topology.is_this_machine);
  const auto plan = plan_of("auto", topology);
  REQUIRE(plan.num_domains() == nodes);
  CHECK_FALSE(plan.pins);  // not this machine
  CHECK(plan.notes.empty());
  for (std::uint32_t cpu = 0; cpu < nodes * 4; ++cpu) {
    CHECK(plan.domains[cpu / 4].cpus[cpu % 4] == cpu);
    CHECK(plan.domain_of_cpu(cpu) == cpu / 4);
  }
}

TEST_CASE("more nodes than domains can be are named in a note", "[topology][unit]") {
  const auto plan = plan_of("auto", topology_of("synthetic:NUMANode:65 PU:1"));
  CHECK(plan.num_domains() == kDomainsMax);
  REQUIRE(plan.notes.size() == 1);
  CHECK(plan.notes[0].find("domains: 64 of 65 NUMA nodes (0, 1, ") == 0);
}

TEST_CASE("a number takes the first nodes, and more than there are is refused by name",
          "[topology][unit]") {
  const auto topology = topology_of("synthetic:NUMANode:4 PU:2");
  const auto plan = plan_of("3", topology);
  REQUIRE(plan.num_domains() == 3);
  CHECK(plan.domains[2].node == 2);
  CHECK(plan.domain_of_cpu(5) == 2);
  CHECK(plan.domain_of_cpu(6) == 0);    // node 3 is left out: by its number, 6 % 3
  CHECK(plan.domain_of_cpu(7) == 1);
  CHECK(plan.domain_of_cpu(1001) == 2);  // came later: 1001 % 3
  CHECK(refusal("5", topology) ==
        "domains: 5 is not allowed; this process may use 4 NUMA nodes (0, 1, 2, 3): expected auto, "
        "off or at most 4");
  CHECK(refusal("2", topology_of("synthetic:NUMANode:1 PU:2")) ==
        "domains: 2 is not allowed; this process may use 1 NUMA node (0): expected auto, off or 1");
}

TEST_CASE("off and 1 plan one domain that nothing is bound to", "[topology][unit]") {
  Topology topology = topology_of("synthetic:NUMANode:2 PU:2");
  topology.is_this_machine = true;
  for (const std::string wanted : {"off", "1"}) {
    const auto plan = plan_of(wanted, topology);
    CHECK(plan.num_domains() == 1);
    CHECK_FALSE(plan.pins);
    CHECK(plan.domain_of_cpu(3) == 0);
    CHECK(domain_here(plan) == 0);
  }
  CHECK(plan_of("auto", topology).pins);
}

TEST_CASE("what is no number of domains is refused in one line", "[topology][unit]") {
  const auto topology = topology_of("synthetic:NUMANode:2 PU:2");
  const auto [wanted, shown] = GENERATE(table<std::string, std::string>({
      {"0", "0"},
      {"65", "65"},
      {"-1", "\"-1\""},
      {"", "\"\""},
      {"all", "\"all\""},
      {"2 ", "\"2 \""},
      {"99999999999", "\"99999999999\""},
  }));
  CHECK(refusal(wanted, topology) ==
        "domains: " + shown + " is not allowed; expected auto, off or a number in [1, 64]");
}

TEST_CASE("nodes without CPUs or memory carry no domain and are named", "[topology][unit]") {
  Topology topology;
  topology.is_this_machine = true;
  topology.nodes = {{0, {0, 1}, 1 << 20}, {1, {}, 1 << 20}, {2, {2, 3}, 0}, {3, {}, 0},
                    {7, {4, 5}, 1 << 20}};
  const auto plan = plan_of("auto", topology);
  REQUIRE(plan.num_domains() == 2);
  CHECK(plan.domains[1].node == 7);
  CHECK(plan.domain_of_cpu(5) == 1);
  CHECK(plan.notes ==
        std::vector<std::string>{
            "domains: NUMA node 1 carries no domain: it has no CPU that this process may use",
            "domains: NUMA node 2 carries no domain: it has no memory that this process may use",
            "domains: NUMA node 3 carries no domain: it has no CPU and no memory that this process "
            "may use"});
  CHECK(refusal("3", topology).find("may use 2 NUMA nodes (0, 7)") != std::string::npos);
  topology.nodes = {{0, {}, 1 << 20}};
  CHECK(plan_of("auto", topology).num_domains() == 1);
  CHECK(plan_of("1", topology).num_domains() == 1);
  CHECK(refusal("2", topology).find("may use 0 NUMA nodes (none)") != std::string::npos);
}

TEST_CASE("of nodes that share their CPUs the first has them", "[topology][unit]") {
  const auto topology = topology_of(
      "synthetic:Package:2 [NUMANode(memory=64GiB)] [NUMANode(memory=1GiB)] Core:4 PU:2");
  REQUIRE(topology.nodes.size() == 4);
  CHECK(topology.nodes[0].cpus.size() == 8);
  CHECK(topology.nodes[1].cpus.empty());
  CHECK(topology.nodes[0].memory_bytes == 64ULL << 30);
  const auto plan = plan_of("auto", topology);
  REQUIRE(plan.num_domains() == 2);
  CHECK(plan.domains[1].node == 2);
  CHECK(plan.notes.size() == 2);
}

/// As lstopo writes it for a machine with two nodes of which a cpuset keeps the second one's memory and CPU 1.
constexpr const char* kXml = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000000f" complete_cpuset="0x0000000f" allowed_cpuset="0x0000000d" nodeset="0x00000003" complete_nodeset="0x00000003" allowed_nodeset="0x00000001" gp_index="1">
    <object type="Package" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="3" local_memory="1048576"/>
      <object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="4"/>
      <object type="PU" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="5"/>
    </object>
    <object type="Package" os_index="1" cpuset="0x0000000c" complete_cpuset="0x0000000c" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="6">
      <object type="NUMANode" os_index="1" cpuset="0x0000000c" complete_cpuset="0x0000000c" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="7" local_memory="2097152"/>
      <object type="PU" os_index="2" cpuset="0x00000004" complete_cpuset="0x00000004" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="8"/>
      <object type="PU" os_index="3" cpuset="0x00000008" complete_cpuset="0x00000008" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="9"/>
    </object>
  </object>
</topology>
)";

TEST_CASE("a file of lstopo is read, with what its cpuset left", "[topology][unit]") {
  const TierDirectory dir;
  const std::string file = dir.path() + "/machine.xml";
  std::ofstream(file) << kXml;
  const auto topology = topology_of("xml:" + file);
  REQUIRE(topology.nodes.size() == 2);
  CHECK(topology.nodes[0].cpus == std::vector<std::uint32_t>{0});
  CHECK(topology.nodes[0].memory_bytes == 1 << 20);
  CHECK(topology.nodes[1].cpus == std::vector<std::uint32_t>{2, 3});
  CHECK(topology.nodes[1].memory_bytes == 0);  // there is some, for others
  const auto plan = plan_of("auto", topology);
  CHECK(plan.num_domains() == 1);
  CHECK(plan.notes.size() == 1);
}

TEST_CASE("a topology that cannot be read is refused in one line", "[topology][unit]") {
  const TierDirectory dir;
  const std::string file = dir.path() + "/broken.xml";
  std::ofstream(file) << std::string(kXml).substr(0, 700);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"machine", "topology: \"machine\" is not allowed; expected \"synthetic:DESCRIPTION\""},
      {"xml:", "topology: \"xml:\" is not allowed; expected \"synthetic:DESCRIPTION\""},
      {"synthetic:bla", "topology: \"synthetic:bla\" is not allowed; expected a description"},
      {"xml:/nowhere", "expected a readable file of hwloc's XML (No such file or directory)"},
      {"xml:" + file, "expected what hwloc can load"},
  };
  for (const auto& [source, says] : cases) {
    const auto topology = read_topology(source);
    REQUIRE_FALSE(topology.has_value());
    INFO(topology.error().detail);
    CHECK(topology.error().code == OffloadErrc::invalid_config);
    CHECK(topology.error().detail.find(says) != std::string::npos);
    CHECK(topology.error().detail.find("topology: ") == 0);
    CHECK(topology.error().detail.find('\n') == std::string::npos);
  }
}

TEST_CASE("this machine's topology has the CPUs that the process may use, once",
          "[topology][io]") {
  cpu_set_t mine;
  REQUIRE(::sched_getaffinity(0, sizeof mine, &mine) == 0);
  const auto topology = topology_of("");
  CHECK(topology.is_this_machine);
  int cpus = 0;
  for (const auto& node : topology.nodes) {
    cpus += static_cast<int>(node.cpus.size());
    for (const auto cpu : node.cpus) CHECK(CPU_ISSET(cpu, &mine));
  }
  CHECK(cpus == CPU_COUNT(&mine));
  const auto plan = plan_of("auto", topology);
  CHECK(plan.pins == (plan.num_domains() > 1));
  CHECK(domain_here(plan) < plan.num_domains());
}

TEST_CASE("one thread with a core of its own does not keep the engine there", "[topology][io]") {
  const auto before = topology_of("");
  std::vector<NumaNode> seen;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(before.nodes.at(0).cpus.at(0), &one);
    static_cast<void>(::sched_setaffinity(0, sizeof one, &one));
    if (auto topology = read_topology()) seen = topology->nodes;
  }).join();
  REQUIRE(seen.size() == before.nodes.size());
  for (std::size_t i = 0; i < seen.size(); ++i) CHECK(seen[i].cpus == before.nodes[i].cpus);
}

}  // namespace
}  // namespace kv_offload::test
