#pragma once

#include "kv_offload/messages/domain_map.hpp"
#include "kv_offload/messages/expected.hpp"
#include "kv_offload/tiers/primary/available_memory.hpp"
#include "kv_offload/tiers/primary/touch_pages.hpp"
#include "kv_offload/tiers/primary_view.hpp"
#include "kv_offload/tiers/topology/domain_plan.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kv_offload {

/// Which rows of a region belong into which node's memory. Without domains: into any.
struct RegionPlacement {
  DomainMap map = {};
  std::vector<Domain> domains = {};  ///< as many as the map has, in its order
  /// What a node has available, instead of asking the system.
  std::function<std::optional<AvailableMemory>(std::uint32_t node)> available = {};
};

/// How the memory of one domain came out, as the kernel said after the first touch.
struct PlacedMemory {
  DomainId domain = 0;
  std::uint32_t node = 0;
  std::uint64_t bytes_planned = 0;
  std::uint64_t bytes_found = 0;      ///< on the node; by a sample of pages above 1 GiB
  std::uint64_t bytes_elsewhere = 0;  ///< what is neither was not in memory when it was asked for
  int error = 0;                      ///< errno of the question; then nothing was found out
};

/// A run of a region's bytes for one domain: [begin, end), whole pages.
struct DomainBytes {
  std::uint64_t begin = 0, end = 0;
  DomainId domain = 0;
};
/// The slices of every home, in the order in which they lie. A page that two slices share goes to the one that has more
/// of it: with explicit huge pages rows at a border may lie up to 1 MiB deep in the other's memory, unless slices are
/// whole huge pages. The last one ends with the mapping's last page.
[[nodiscard]] std::vector<DomainBytes> domain_bytes(const PrimaryView& rows, const DomainMap& map,
                                                    std::uint64_t page_bytes);

struct PlacementRun {
  std::uint64_t page_bytes = 4096;  ///< of the mapping: 2 MiB with explicit huge pages
  std::uint32_t threads = 1;        ///< that touch, at least one per domain
  Madvise advise = nullptr;
};
/// Makes rows resident that nobody has touched yet, each on its node, by threads that run there; then asks where they
/// are. Errors name the node, what it should take and what it has; some pages may be resident then.
Expected<std::vector<PlacedMemory>> place_rows(const PrimaryView& rows,
                                               const RegionPlacement& placement,
                                               const PlacementRun& run);

/// "32 MiB on NUMA node 0, 32 MiB on NUMA node 1, 0 B elsewhere", for the start-up log.
[[nodiscard]] std::string to_string(const std::vector<PlacedMemory>& placed);

}  // namespace kv_offload
