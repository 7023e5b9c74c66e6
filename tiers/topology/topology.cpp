#include "kv_offload/tiers/topology/topology.hpp"

#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <string_view>
#include <utility>

namespace kv_offload {
namespace {

constexpr std::string_view kSynthetic = "synthetic:";
constexpr std::string_view kXml = "xml:";

struct TopologyEnd {
  void operator()(hwloc_topology_t t) const { ::hwloc_topology_destroy(t); }
};
using Loaded = std::unique_ptr<hwloc_topology, TopologyEnd>;

struct BitmapEnd {
  void operator()(hwloc_bitmap_t b) const { ::hwloc_bitmap_free(b); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapEnd>;

OffloadError refused(const std::string& source, const std::string& expected) {
  return {OffloadErrc::invalid_config,
          "topology: \"" + source.substr(0, 200) + "\" is not allowed; expected " + expected};
}

/// Names the source before hwloc looks for anything.
std::string set_source(hwloc_topology_t t, const std::string& source) {
  if (source.starts_with(kSynthetic)) {
    if (::hwloc_topology_set_synthetic(t, source.c_str() + kSynthetic.size()) != 0)
      return "a description that hwloc understands, such as \"synthetic:NUMANode:2 Core:4 PU:2\"";
  } else if (source.starts_with(kXml)) {
    if (::hwloc_topology_set_xml(t, source.c_str() + kXml.size()) != 0)
      return std::string("a readable file of hwloc's XML (") + std::strerror(errno) + ")";
  }
  return {};
}

/// The CPUs that the kernel counts to a node. hwloc gives a node that has none those that are near, and they would
/// be planned for twice. Empty if the kernel does not say.
Bitmap cpus_by_kernel(std::uint32_t node) {
  std::ifstream in("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist");
  std::string list;
  if (!in) return {};
  std::getline(in, list);
  Bitmap cpus(::hwloc_bitmap_alloc());
  if (cpus != nullptr && !list.empty() && ::hwloc_bitmap_list_sscanf(cpus.get(), list.c_str()) != 0)
    return {};
  return cpus;
}

/// CPUs that this process may use: by cpuset, and by the affinity of its threads together, since whoever starts an
/// engine from a thread with a core of its own has not meant all of the engine to live there.
Bitmap usable_cpus(hwloc_topology_t t, bool is_this_machine) {
  Bitmap cpus(::hwloc_bitmap_dup(::hwloc_topology_get_allowed_cpuset(t)));
  const Bitmap bound(::hwloc_bitmap_alloc());
  if (is_this_machine && cpus != nullptr && bound != nullptr &&
      ::hwloc_get_cpubind(t, bound.get(), HWLOC_CPUBIND_PROCESS) == 0)
    ::hwloc_bitmap_and(cpus.get(), cpus.get(), bound.get());
  return cpus;
}

std::vector<std::uint32_t> take_cpus(hwloc_const_bitmap_t from, hwloc_bitmap_t free) {
  std::vector<std::uint32_t> cpus;
  for (int cpu = ::hwloc_bitmap_first(from); cpu >= 0; cpu = ::hwloc_bitmap_next(from, cpu)) {
    if (::hwloc_bitmap_isset(free, static_cast<unsigned>(cpu)) == 0) continue;
    ::hwloc_bitmap_clr(free, static_cast<unsigned>(cpu));
    cpus.push_back(static_cast<std::uint32_t>(cpu));
  }
  return cpus;
}

Expected<Topology> describe(hwloc_topology_t t, const std::string& source) {
  Topology topology;
  topology.source = source;
  topology.is_this_machine = source.empty() && ::hwloc_topology_is_thissystem(t) != 0;
  const Bitmap free = usable_cpus(t, topology.is_this_machine);
  if (free == nullptr) return {OffloadErrc::io_error, "topology: no memory to read it"};

  std::vector<hwloc_obj_t> objects;
  for (hwloc_obj_t o = nullptr;
       (o = ::hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, o)) != nullptr;)
    objects.push_back(o);
  std::sort(objects.begin(), objects.end(),
            [](auto* a, auto* b) { return a->os_index < b->os_index; });
  // Of nodes that share their CPUs (ordinary memory and high-bandwidth memory of one package, say) the first has them.
  for (const hwloc_obj_t o : objects) {
    NumaNode node;
    node.os_index = o->os_index;
    const Bitmap by_kernel = topology.is_this_machine ? cpus_by_kernel(o->os_index) : Bitmap();
    node.cpus = take_cpus(by_kernel != nullptr ? by_kernel.get() : o->cpuset, free.get());
    if (::hwloc_bitmap_isset(::hwloc_topology_get_allowed_nodeset(t), o->os_index) != 0)
      node.memory_bytes = o->attr->numanode.local_memory;
    topology.nodes.push_back(std::move(node));
  }
  return topology;
}

}  // namespace

std::string topology_source_error(const std::string& source) {
  for (const auto prefix : {kSynthetic, kXml})
    if (source.starts_with(prefix) && source.size() > prefix.size()) return {};
  return source.empty() ? std::string()
                        : refused(source,
                                  "\"synthetic:DESCRIPTION\", \"xml:FILE\" or nothing: "
                                  "this machine")
                              .detail;
}

Expected<Topology> read_topology(const std::string& source) {
  if (auto error = topology_source_error(source); !error.empty())
    return {OffloadErrc::invalid_config, error};
  hwloc_topology_t created = nullptr;
  if (::hwloc_topology_init(&created) != 0)
    return {OffloadErrc::io_error, "topology: no memory to read it"};
  const Loaded t(created);
  if (auto expected = set_source(t.get(), source); !expected.empty())
    return refused(source, expected);
  // What is not for us is read as well, so that a plan can say why it leaves a node out. hwloc must not move this
  // thread from CPU to CPU to ask them.
  ::hwloc_topology_set_flags(
      t.get(), HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING |
                   HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS);
  if (::hwloc_topology_load(t.get()) != 0) {
    if (source.empty())
      return {OffloadErrc::io_error,
              std::string("topology: of this machine cannot be read: ") + std::strerror(errno)};
    return refused(source, "what hwloc can load");
  }
  return describe(t.get(), source);
}

}  // namespace kv_offload
