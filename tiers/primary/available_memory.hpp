#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kv_offload {

/// How much memory this process may still take without pushing the machine or its container over.
struct AvailableMemory {
  std::uint64_t bytes = 0;
  std::string limited_by;  ///< the file that says so, for messages
};

/// The smallest of /proc/meminfo's MemAvailable and what each memory cgroup above this process leaves
/// (version 2 and 1; a cgroup's inactive file cache counts as available). nullopt if nothing can be read.
/// `root` stands in for "/" in tests. Reads a few small files; not for hot paths.
[[nodiscard]] std::optional<AvailableMemory> available_memory(const std::string& root = "");

/// What one NUMA node still has for pages of that size: free memory and page cache, less a 64th of the node, which the
/// kernel keeps for itself (its watermarks are below that by default); of 2 MiB, the free reserved ones. nullopt if it
/// cannot be read. `root` as above.
[[nodiscard]] std::optional<AvailableMemory> available_on_node(std::uint32_t node,
                                                               std::uint64_t page_bytes,
                                                               const std::string& root = "");

}  // namespace kv_offload
