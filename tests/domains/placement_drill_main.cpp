// What a machine with several NUMA nodes must show: plans, pinned threads, and every page of a region where the plan
// says. Run in the guest of tests/support/numa_guest.sh by tests/scripts/numa_test.sh.
//   placement_drill placed NODES   | one_domain REASON   | excluded NODE   | full NODE
#include "kv_offload/messages/byte_size.hpp"
#include "kv_offload/tiers/primary/region.hpp"
#include "kv_offload/tiers/topology/domain_plan.hpp"
#include "kv_offload/tiers/topology/pin_thread.hpp"
#include "kv_offload/tiers/topology/place_memory.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace kv_offload;

constexpr std::uint64_t kMiB = 1ULL << 20;
int failures = 0;

void check(bool holds, const std::string& what) {
  std::printf("%s: %s\n", holds ? "ok" : "FAILED", what.c_str());
  if (!holds) ++failures;
}
void contains(const std::string& line, const std::string& part) {
  check(line.find(part) != std::string::npos && line.find('\n') == std::string::npos,
        '"' + line + "\" says \"" + part + '"');
}

DomainPlan plan_of(const std::string& wanted) {
  const auto topology = read_topology();
  if (!topology) return check(false, topology.error().detail), DomainPlan{};
  auto plan = plan_domains(wanted, *topology);
  if (!plan) return check(false, plan.error().detail), DomainPlan{};
  return *plan;
}

std::string refusal(const std::string& wanted) {
  const auto topology = read_topology();
  const auto plan = topology ? plan_domains(wanted, *topology) : topology.error();
  return plan ? "not refused" : plan.error().detail;
}

/// Rows are no multiple of 2 MiB, so that the borders of slices are none.
constexpr std::uint64_t kOddChunk = 60'000;

RegionOptions options_for(const DomainPlan& plan, std::uint64_t bytes,
                          std::uint64_t chunk_bytes = kOddChunk) {
  RegionOptions options;
  options.chunk_bytes = chunk_bytes;
  const auto domains = plan.num_domains();
  const auto slices = std::uint64_t{domains} * domains;
  const auto rows = bytes / Region::row_bytes(options.chunk_bytes) / slices * slices;
  options.num_chunks = static_cast<ChunkId>(rows);
  options.placement = {{domains, static_cast<ChunkId>(rows / slices)}, plan.domains, {}};
  return options;
}

/// Every row is asked for, whole, without what the region itself keeps in mind.
void check_rows(const std::string& kind, const RegionOptions& options) {
  auto made = Region::create(options);
  if (!made) return check(false, kind + ": " + made.error().detail);
  const auto view = (*made)->view();
  const auto& where = options.placement;
  std::vector<std::uint64_t> pages(where.domains.size());
  std::uint64_t wrong = 0;
  for (ChunkId chunk = 0; chunk < view.num_chunks; ++chunk) {
    const auto domain = where.map.domain_of(chunk);
    const auto found = find_pages(view.row(chunk).data(), view.row_bytes,
                                  where.domains[domain].node);
    pages[domain] += found.on_node;
    wrong += found.asked - found.on_node + (found.error != 0 ? 1 : 0);
  }
  for (const auto& part : (*made)->placed())
    check(part.bytes_found == part.bytes_planned && part.bytes_elsewhere == 0,
          kind + ": the region found " + format_bytes(part.bytes_found) + " of " +
              format_bytes(part.bytes_planned) + " on node " + std::to_string(part.node));
  std::string counts;
  for (const auto n : pages) counts += (counts.empty() ? "" : " + ") + std::to_string(n);
  check(wrong == 0, kind + ": " + std::to_string(wrong) + " of " + counts + " pages elsewhere");
  contains((*made)->describe(), ", 0 B elsewhere");
}

RegionOptions shared(RegionOptions options, const std::string& file, bool reserved) {
  RegionSharing sharing;
  sharing.record.engine_id = "drill";
  sharing.file = file;
  sharing.explicit_huge_pages = reserved;
  options.shared = sharing;
  return options;
}

void check_threads(const DomainPlan& plan) {
  for (DomainId d = 0; d < plan.num_domains(); ++d) {
    std::string error;
    bool stays = true;
    DomainId here = 0, child_here = 0;
    std::thread([&] {
      error = pin_thread(plan.domains[d], "drill");
      for (int i = 0; i < 200; ++i) stays = stays && runs_on(plan.domains[d]), std::this_thread::yield();
      here = domain_here(plan);
      std::thread([&] { child_here = domain_here(plan); }).join();
    }).join();
    check(error.empty(), "a thread is pinned to node " + std::to_string(plan.domains[d].node) + error);
    check(stays && here == d && child_here == d, "it stays there, and so do those it starts");
  }
}

/// That a page is found elsewhere where it is elsewhere: else the other checks would show nothing.
void check_finding(const DomainPlan& plan) {
  RegionOptions options;
  options.chunk_bytes = 4096;
  options.num_chunks = 256;
  std::thread([&] {
    check(pin_thread(plan.domains[1]).empty(), "a thread is pinned");
    options.threads = 1;
    auto made = Region::create(options);  // not placed: where the thread runs
    if (!made) return check(false, made.error().detail);
    const auto at_home = find_pages((*made)->view().base, kMiB, plan.domains[1].node);
    const auto away = find_pages((*made)->view().base, kMiB, plan.domains[0].node);
    check(at_home.on_node == 256 && at_home.elsewhere == 0, "256 pages lie where the thread ran");
    check(away.on_node == 0 && away.elsewhere == 256, "and are not found on another node");
  }).join();
}

void placed(const std::string& nodes) {
  const auto plan = plan_of("auto");
  check(plan.pins && std::to_string(plan.num_domains()) == nodes && plan.notes.empty(),
        "auto plans a domain for each of " + nodes + " nodes");
  if (failures > 0) return;
  const int more = plan.num_domains() + 1;
  contains(refusal(std::to_string(more)),
           "domains: " + std::to_string(more) + " is not allowed; this process may use " + nodes);
  check(plan_of("1").num_domains() == 1 && !plan_of("1").pins, "one domain is pinned to no node");
  check_threads(plan);
  check_finding(plan);
  const auto options = options_for(plan, 64 * kMiB);
  check_rows("private", options);
  check_rows("shared, without a name", shared(options, "", false));
  check_rows("shared, in a file", shared(options, "/dev/shm/drill", false));
  const auto whole = shared(options_for(plan, 32 * kMiB, 512 * 1024), "", true);
  check_rows("shared, in reserved huge pages", whole);
}

void one_domain(const std::string& reason) {
  const auto plan = plan_of("auto");
  check(plan.num_domains() == 1 && !plan.pins, "auto plans one domain");
  std::string notes;
  for (const auto& note : plan.notes) notes += note;
  contains(notes, reason);
  contains(refusal("2"), "domains: 2 is not allowed; this process may use 1 NUMA node (");
}

DomainPlan by_force(std::uint32_t node) {
  DomainPlan plan;
  plan.domains = {{0, {0}}, {node, {0}}};
  return plan;
}

void excluded(std::uint32_t node) {
  const auto made = Region::create(options_for(by_force(node), 8 * kMiB));
  contains(made ? "not refused" : made.error().detail,
           "domains: NUMA node " + std::to_string(node) + " cannot take ");
}

void full(std::uint32_t node) {
  const auto there = available_on_node(node, 4096);
  if (!there) return check(false, "nothing is known of the node");
  auto hog = map_region(-1, (there->bytes - 40 * kMiB) / kMiB * kMiB);
  check(bind_memory(hog.base(), hog.bytes(), node) == 0 &&
            touch_pages(hog.base(), hog.bytes(), 1, kMiB) == 0,
        "node " + std::to_string(node) + " is filled up to 40 MiB");
  const auto made = Region::create(options_for(by_force(node), 128 * kMiB));
  contains(made ? "not refused" : made.error().detail, " MiB are available there for ");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: see the top of the source\n"), 2;
  const std::string what = argv[1], argument = argv[2];
  if (what == "placed") placed(argument);
  if (what == "one_domain") one_domain(argument);
  if (what == "excluded") excluded(static_cast<std::uint32_t>(std::atoi(argument.c_str())));
  if (what == "full") full(static_cast<std::uint32_t>(std::atoi(argument.c_str())));
  return failures == 0 ? 0 : 1;
}
