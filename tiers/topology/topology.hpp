#pragma once

#include "kv_offload/messages/expected.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace kv_offload {

/// A NUMA node with what of it this process may use.
struct NumaNode {
  std::uint32_t os_index = 0;  ///< the kernel's number
  std::vector<std::uint32_t>
      cpus;  ///< the kernel's numbers, ascending; empty: memory alone, or CPUs for others
  std::uint64_t memory_bytes = 0;  ///< installed; 0: none, or for others
};

/// The NUMA nodes of a machine, ascending by os_index. A CPU is in one node at most.
struct Topology {
  std::vector<NumaNode> nodes;
  bool is_this_machine = false;  ///< else threads and memory cannot follow it
  std::string source;            ///< as given to read_topology
};

/// @param source  "": this machine, without the CPUs and nodes that cpusets or the process's affinity keep from it.
///                "synthetic:DESCRIPTION" in hwloc's words, such as "synthetic:NUMANode:2 Core:4 PU:2", or "xml:FILE"
///                from `lstopo`: another machine, to plan for.
/// Errors are one line that begins with "topology: ". Takes milliseconds; not for hot paths, any thread.
Expected<Topology> read_topology(const std::string& source = "");

/// What is wrong with the form of `source`, without reading anything; empty if nothing.
[[nodiscard]] std::string topology_source_error(const std::string& source);

}  // namespace kv_offload
