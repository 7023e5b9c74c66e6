#pragma once

#include "kv_offload/messages/expected.hpp"
#include "kv_offload/messages/ids.hpp"
#include "kv_offload/tiers/topology/topology.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kv_offload {

/// More domains than this are none that a machine has, and each multiplies the slices of the region: a plan's rows
/// are a multiple of domains x domains.
inline constexpr std::uint32_t kDomainsMax = 64;

/// A NUMA node that carries the actors and the slices of one domain.
struct Domain {
  std::uint32_t node = 0;  ///< the kernel's number
  std::vector<std::uint32_t>
      cpus;  ///< never empty, except in a plan of one domain without a topology
};

/// Which domains an engine has. A value; read by any thread once it is made.
struct DomainPlan {
  std::vector<Domain> domains{Domain{}};
  /// Do threads and memory follow it? Not with one domain, and not by the topology of another machine.
  bool pins = false;
  std::vector<DomainId> by_cpu;    ///< domain_of_cpu's table, as long as the last CPU's number says
  std::vector<std::string> notes;  ///< what was left out, and why: one line each

  [[nodiscard]] DomainId num_domains() const { return static_cast<DomainId>(domains.size()); }
  /// The domain whose node has the CPU. A CPU of none (a node left out, one that came later) is spread by its number,
  /// so that callers there share the domains evenly. O(1), no allocation.
  [[nodiscard]] DomainId domain_of_cpu(std::uint32_t cpu) const {
    return cpu < by_cpu.size() ? by_cpu[cpu] : static_cast<DomainId>(cpu % domains.size());
  }
};

/// @param wanted  "auto": a domain per node that has CPUs and memory for this process, kDomainsMax at most; "off": one,
///                and the node does not matter; a number: the first so many of these nodes.
/// Errors are one line that begins with "domains: " and names the nodes there are.
Expected<DomainPlan> plan_domains(const std::string& wanted, const Topology& topology);

/// What `wanted` may be, whatever the machine; and is it that?
inline constexpr std::string_view kDomainsForms = "auto, off or a number in [1, 64]";
static_assert(kDomainsMax == 64);
[[nodiscard]] bool is_domains(const std::string& wanted);

/// The domain of the CPU that the calling thread runs on now; 0 at once where there is one domain.
[[nodiscard]] DomainId domain_here(const DomainPlan& plan);

}  // namespace kv_offload
