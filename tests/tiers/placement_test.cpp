#include "kv_offload/tests/support/tier_directory.hpp"
#include "kv_offload/tiers/primary/region.hpp"
#include "kv_offload/tiers/topology/pin_thread.hpp"
#include "kv_offload/tiers/topology/place_memory.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <pthread.h>
#include <string>
#include <thread>
#include <vector>

namespace kv_offload::test {
namespace {

constexpr std::uint64_t kPage = 4096;

/// Two domains on the node that every machine has; on a machine with more nodes the guest's drill does the rest.
Domain first_node() {
  const auto topology = read_topology();
  REQUIRE(topology.has_value());
  return {topology->nodes.at(0).os_index, topology->nodes.at(0).cpus};
}

RegionOptions options_for(ChunkId slice_chunks, std::vector<Domain> domains) {
  RegionOptions options;
  const auto d = static_cast<DomainId>(domains.size());
  options.placement = {{d, slice_chunks}, std::move(domains), {}};
  options.num_chunks = options.placement.map.num_chunks();
  options.chunk_bytes = 10'000;
  return options;
}

std::string refusal(const RegionOptions& options) {
  const auto made = Region::create(options);
  REQUIRE_FALSE(made.has_value());
  CHECK(made.error().detail.find('\n') == std::string::npos);
  return made.error().detail;
}

TEST_CASE("a pinned thread runs on its domain's CPUs, and so do those it starts",
          "[topology][io]") {
  auto domain = first_node();
  domain.cpus.resize(1);
  bool stays = true, child_stays = false;
  std::string error = "not run", name;
  std::thread([&] {
    error = pin_thread(domain, "kvo-a-name-that-is-long");
    for (int i = 0; i < 100; ++i) stays = stays && runs_on(domain), std::this_thread::yield();
    std::array<char, 32> buffer{};
    ::pthread_getname_np(::pthread_self(), buffer.data(), buffer.size());
    name = buffer.data();
    std::thread([&] { child_stays = runs_on(domain); }).join();
  }).join();
  CHECK(error.empty());
  CHECK(stays);
  CHECK(child_stays);
  CHECK(name == "kvo-a-name-that");
}

TEST_CASE("a thread that cannot be pinned says so and stays where it is", "[topology][io]") {
  std::string nowhere, absent;
  std::thread([&] {
    nowhere = pin_thread({3, {}});
    absent = pin_thread({5, {4000}});
  }).join();
  CHECK(nowhere == "cannot keep a thread on NUMA node 3: its CPUs: No such device");
  CHECK(absent == "cannot keep a thread on NUMA node 5: affinity: Invalid argument");
}

TEST_CASE("pages are found on their node, and nowhere before they are touched", "[topology][io]") {
  const auto node = first_node().node;
  const auto memory = map_region(-1, 3000 * kPage);
  REQUIRE(memory.base() != nullptr);
  REQUIRE(bind_memory(memory.base(), memory.bytes(), node) == 0);
  auto found = find_pages(memory.base(), memory.bytes(), node);
  CHECK(found.asked == 3000);
  CHECK(found.absent == 3000);
  std::memset(memory.base(), 1, 1500 * kPage);
  CHECK(loosen_memory(memory.base(), memory.bytes(), node) == 0);
  found = find_pages(memory.base(), memory.bytes(), node);
  CHECK(found.on_node >= 1500);  // huge pages bring more
  CHECK(found.on_node + found.absent == 3000);
  CHECK(found.elsewhere == 0);
  found = find_pages(memory.base(), 1500 * kPage, node + 1);
  CHECK(found.on_node == 0);
  CHECK(found.elsewhere == 1500);
  CHECK(find_pages(memory.base(), 1500 * kPage, node, 7).asked == 7);  // a sample, and all of it there
  CHECK(find_pages(memory.base(), 1500 * kPage, node, 7).on_node == 7);
}

TEST_CASE("memory is bound to no node that is not there", "[topology][io]") {
  const auto memory = map_region(-1, 4 * kPage);
  CHECK(bind_memory(memory.base(), memory.bytes(), 900) == EINVAL);
  CHECK(bind_memory(memory.base(), memory.bytes(), kNodesMax) == EINVAL);
  CHECK(bind_memory(memory.base() + 1, kPage, first_node().node) == EINVAL);  // no page begins there
}

TEST_CASE("a domain's slices are whole pages and cover the region once", "[primary][unit]") {
  const auto [domains, slice, row, page] =
      GENERATE(table<DomainId, ChunkId, std::uint64_t, std::uint64_t>({
          {2, 3, 4096, 4096},
          {2, 3, 4096, 65536},
          {4, 100, 12288, 2 << 20},
          {3, 1, 4096, 2 << 20},
          {8, 64, 2 << 20, 2 << 20},
      }));
  const DomainMap map{domains, slice};
  const PrimaryView rows{nullptr, row, row, map.num_chunks(), nullptr};
  const std::uint64_t bytes = row * map.num_chunks();
  std::uint64_t at = 0;
  for (const auto& run : domain_bytes(rows, map, page)) {
    CHECK(run.begin == at);
    CHECK(run.begin % page == 0);
    CHECK(run.end % page == 0);
    CHECK(run.begin < run.end);
    const std::uint64_t middle = std::min((run.begin + run.end) / 2, bytes - 1) / row;
    if (page <= row) CHECK(map.domain_of(static_cast<ChunkId>(middle)) == run.domain);
    at = run.end;
  }
  CHECK(at == (bytes + page - 1) / page * page);
}

TEST_CASE("a region's rows are placed before they are touched, and found", "[primary][io]") {
  const auto node = first_node();
  auto options = options_for(50, {node, node});
  if (GENERATE(false, true)) {
    RegionSharing sharing;
    sharing.record.engine_id = "engine-a";
    options.shared = sharing;
  }
  auto made = Region::create(options);
  INFO((made ? "" : made.error().detail));
  REQUIRE(made.has_value());
  const auto& placed = (*made)->placed();
  REQUIRE(placed.size() == 2);
  for (DomainId d = 0; d < 2; ++d) {
    CHECK(placed[d].domain == d);
    CHECK(placed[d].node == node.node);
    CHECK(placed[d].bytes_planned == 100 * 12288);
    CHECK(placed[d].bytes_found == placed[d].bytes_planned);
    CHECK(placed[d].bytes_elsewhere == 0);
    CHECK(placed[d].error == 0);
  }
  const auto line = (*made)->describe();
  INFO(line);
  const std::string each = "1200 KiB on NUMA node " + std::to_string(node.node) + ", ";
  CHECK(line.find("; " + each + each + "0 B elsewhere") != std::string::npos);
}

TEST_CASE("a region without a placement says nothing of nodes", "[primary][io]") {
  auto made = Region::create({.num_chunks = 4, .chunk_bytes = 4096});
  REQUIRE(made.has_value());
  CHECK((*made)->placed().empty());
  CHECK((*made)->describe().find("NUMA") == std::string::npos);
}

TEST_CASE("a node that cannot take its part is named with what it has", "[primary][io]") {
  const auto node = first_node();
  auto options = options_for(50, {node, {900, node.cpus}});
  CHECK(refusal(options) ==
        "domains: NUMA node 900 cannot take 1200 KiB of cpu_bytes_to_use: mbind: Invalid argument; "
        "is the node among this process's cpuset.mems?");
  options = options_for(500, {node, node});
  options.placement.available = [](std::uint32_t) {
    return AvailableMemory{20 << 20, "a test"};
  };
  CHECK(refusal(options) ==
        "domains: NUMA node " + std::to_string(node.node) +
            " cannot take 12000 KiB of cpu_bytes_to_use: 20 MiB are available there for 23 MiB (a "
            "test); ask for less, free memory or set domains: off");
  options.placement.available = [](std::uint32_t) {
    return AvailableMemory{24 << 20, "a test"};
  };
  CHECK(Region::create(options).has_value());
}

TEST_CASE("a placement that is not the region's is refused", "[primary][io]") {
  auto options = options_for(5, {first_node(), first_node()});
  options.num_chunks = 21;
  CHECK(refusal(options).find("domains: a region of 21 chunks for 2 domains is not what the map "
                              "of 20 says") == 0);
  options = options_for(5, {first_node(), first_node()});
  options.placement.domains.pop_back();
  CHECK(refusal(options).find("for 1 domains") != std::string::npos);
}

TEST_CASE("memory that cannot be made resident names the nodes", "[primary][io]") {
  auto options = options_for(5, {first_node(), first_node()});
  options.advise = [](void*, std::size_t, int) { return errno = ENOMEM, -1; };
  CHECK(refusal(options).find("domains: memory could not be made resident: Cannot allocate memory") ==
        0);
}

TEST_CASE("what was not found out about a node is said", "[primary][unit]") {
  PlacedMemory a{.domain = 0, .node = 0, .bytes_planned = 8192, .bytes_found = 4096,
                 .bytes_elsewhere = 4096};
  PlacedMemory b{.domain = 1, .node = 1, .bytes_planned = 8192, .bytes_found = 8192};
  CHECK(to_string(std::vector{a, b}) ==
        "4 KiB on NUMA node 0, 8 KiB on NUMA node 1, 4 KiB elsewhere");
  b = {.domain = 1, .node = 1, .bytes_planned = 8192, .error = EPERM};
  CHECK(to_string(std::vector{a, b}) ==
        "4 KiB on NUMA node 0, 8 KiB on NUMA node 1, not verified: Operation not permitted");
}

TEST_CASE("a node has what is free and what page cache holds, less what the kernel keeps",
          "[primary][unit]") {
  const TierDirectory dir;
  const std::string node = dir.path() + "/sys/devices/system/node/node3";
  std::filesystem::create_directories(node + "/hugepages/hugepages-2048kB");
  CHECK_FALSE(available_on_node(3, 4096, dir.path()).has_value());
  std::ofstream(node + "/meminfo") << "\nNode 3 MemTotal:         64000 kB\n"
                                      "Node 3 MemFree:          10000 kB\n"
                                      "Node 3 Active(file):      2000 kB\n"
                                      "Node 3 Inactive(file):    3000 kB\n"
                                      "Node 3 FilePages:        50000 kB\n";
  const auto found = available_on_node(3, 4096, dir.path());
  REQUIRE(found.has_value());
  CHECK(found->bytes == (10000 + 2000 + 3000 - 1000) * 1024);
  CHECK(found->limited_by == node + "/meminfo");
  CHECK_FALSE(available_on_node(3, 2 << 20, dir.path()).has_value());
  std::ofstream(node + "/hugepages/hugepages-2048kB/free_hugepages") << "5\n";
  CHECK(available_on_node(3, 2 << 20, dir.path())->bytes == 10 << 20);
}

}  // namespace
}  // namespace kv_offload::test
